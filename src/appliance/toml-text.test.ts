import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from 'smol-toml';
import { linesOf, withDeviceId, withString } from './toml-text.ts';

test('finds the line of each value and table, in every way TOML writes it', () => {
  const text = String.raw`# [no]
a.b = "x" # c
"q\u0041.r" = 'l"'
[t]
m = QQQ
"two" \" ""
QQQ
l = [1, # one
  "two", { in = 'line' }]
[[list]]
n = 1979-05-27T07:32:00Z
[[list]]
n = true
[list.sub]
d = 1.5e3
`.replaceAll('QQQ', '"""');
  const expected: Record<string, number> = {
    a: 2,
    'a.b': 2,
    'qA.r': 3,
    t: 4,
    't.m': 5,
    't.l': 8,
    't.l[0]': 8,
    't.l[1]': 9,
    't.l[2]': 9,
    't.l[2].in': 9,
    list: 10,
    'list[0]': 10,
    'list[0].n': 11,
    'list[1]': 12,
    'list[1].n': 13,
    'list[1].sub': 14,
    'list[1].sub.d': 15,
  };
  for (const one of [text, `\uFEFF${text}`, text.replaceAll('\n', '\r\n')])
    assert.deepEqual(Object.fromEntries(linesOf(one)), expected);
});

test('replaces one string among others like it, and neither keys nor comments', () => {
  const text = `# "a"\n"a" = "a"\nb = ["a", 'a', """a"""]\nc = 'a'\n`;
  const replaced = (...path: (string | number)[]) => withString(text, path, 'z', () => '"z"');
  assert.equal(replaced('a'), text.replace('= "a"', '= "z"'));
  assert.equal(replaced('b', 2), text.replace('"""a"""', '"z"'));
  assert.equal(replaced('c'), text.replace("c = 'a'", 'c = "z"'));
  assert.equal(replaced('b'), undefined);
  assert.equal(replaced('none', 'such'), undefined);
});

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
  ['a table in one line', `device = { inventory = false, id = "other" }\n${rest}`],
  ['a dotted key', `device.id = "other"\n${rest}`],
  ['an id of another table', `[other]\nid = "x"\n[device]\n[more]\nid = "y"\n`],
] as const) {
  test(`device.id is written into ${name}, and nothing else is changed`, () => {
    const pinned = withDeviceId(text, 'box-1');
    const before = parse(text);
    assert.deepEqual(plain(parse(pinned)), plain({ ...before, device: { ...Object(before['device']), id: 'box-1' } }));
    const lost = text.split('\n').filter((line) => !/id = "other"/.test(line) && !pinned.includes(line));
    assert.deepEqual(lost, []);
  });
}
