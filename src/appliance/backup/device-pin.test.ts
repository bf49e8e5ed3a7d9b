import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from 'smol-toml';
import { pinDeviceId } from './device-pin.ts';

/** The parser's objects have no prototype. */
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
const rest = '[serial]\nsimulate = true # kept\n';

for (const [name, text] of [
  ['an empty file', ''],
  ['no table', rest],
  ['no newline at the end', '[serial]\nsimulate = true'],
  ['a table without it', `# head\n[device] # ours\ninventory = false\n${rest}`],
  ['a table with another', `[device]\ninventory = false\nid = "other"\n${rest}`],
  ['one that is a comment', `[device]\n# id = "other"\n${rest}`],
  ['a dotted key', `device.id = "other"\n${rest}`],
  ['an id of another table', `[other]\nid = "x"\n[device]\n[more]\nid = "y"\n`],
] as const) {
  test(`device.id is written into ${name}, and nothing else is changed`, () => {
    const pinned = pinDeviceId(text, 'box-1');
    const before = parse(text);
    assert.deepEqual(plain(parse(pinned)), plain({ ...before, device: { ...Object(before['device']), id: 'box-1' } }));
    const lost = text.split('\n').filter((line) => !/id = "other"/.test(line) && !pinned.includes(line));
    assert.deepEqual(lost, []);
  });
}
