import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { negotiation, subnegotiation, type TelnetItem, TelnetParser, telnetData } from './telnet.ts';

/** Data in one piece, however it was cut. */
function joined(items: readonly TelnetItem[]): unknown[] {
  const out: unknown[] = [];
  for (const item of items) {
    const last = out.at(-1);
    if (item.kind !== 'data')
      out.push(item.kind === 'sub' ? ['sub', item.option, ...item.value] : [item.verb, item.option]);
    else if (typeof last === 'string') out[out.length - 1] = last + Buffer.from(item.bytes).toString('latin1');
    else out.push(Buffer.from(item.bytes).toString('latin1'));
  }
  return out;
}

const parse = (...parts: (readonly number[] | Uint8Array)[]): unknown[] => {
  const parser = new TelnetParser();
  return joined(parts.flatMap((part) => parser.push(Uint8Array.from(part))));
};
const text = (characters: string): number[] => [...Buffer.from(characters, 'latin1')];

describe('what a client sends', () => {
  const cases: [string, number[], unknown[]][] = [
    ['plain data', text('abc'), ['abc']],
    ['a doubled 255 is one', [...text('a'), 255, 255, ...text('b')], ['a\xffb']],
    ['negotiations between data', [...text('a'), 255, 251, 44, ...text('b')], ['a', ['will', 44], 'b']],
    [
      'all four verbs',
      [255, 251, 1, 255, 252, 2, 255, 253, 3, 255, 254, 4],
      [
        ['will', 1],
        ['wont', 2],
        ['do', 3],
        ['dont', 4],
      ],
    ],
    [
      'a subnegotiation, with a doubled 255',
      [255, 250, 44, 1, 255, 255, 0, 255, 240, 97],
      [['sub', 44, 1, 255, 0], 'a'],
    ],
    ['commands without an option are skipped', [255, 241, 97, 255, 243, 98], ['ab']],
    ['an empty subnegotiation', [255, 250, 255, 240, 97], ['a']],
    ['a subnegotiation that another command breaks', [255, 250, 44, 1, 255, 251, 97], ['a']],
    ['one that is too long is dropped to its end', [255, 250, 44, ...Array(5_000).fill(7), 255, 240, 97], ['a']],
    ['nothing after a lone 255', [97, 255], ['a']],
  ];
  for (const [what, bytes, expected] of cases)
    test(what, () => {
      assert.deepEqual(parse(bytes), expected);
      assert.deepEqual(parse(...bytes.map((byte) => [byte])), expected, 'byte by byte');
    });
});

test('any data comes through telnet as it was, in any pieces', () => {
  const bytes = Uint8Array.from({ length: 4_096 }, (_, i) => ((i * 7) % 256) | (i % 3 === 0 ? 255 : 0));
  const sent = telnetData(bytes);
  for (const size of [1, 2, 3, 7, 1_000, sent.length]) {
    const parser = new TelnetParser();
    const got: Uint8Array[] = [];
    for (let at = 0; at < sent.length; at += size)
      for (const item of parser.push(sent.subarray(at, at + size))) if (item.kind === 'data') got.push(item.bytes);
    assert.deepEqual(Buffer.concat(got), Buffer.from(bytes), `pieces of ${size}`);
  }
});

test('what a server sends', () => {
  assert.deepEqual([...negotiation('do', 44)], [255, 253, 44]);
  assert.deepEqual([...subnegotiation(44, Uint8Array.of(101, 255))], [255, 250, 44, 101, 255, 255, 255, 240]);
});

test('a million bytes of garbage: no error, bounded, and every byte of data came from them', () => {
  let state = 1;
  const random = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state >>> 24;
  };
  const parser = new TelnetParser();
  let [data, given] = [0, 0];
  for (let n = 0; n < 2_000; n++) {
    const bytes = Uint8Array.from({ length: 500 }, () => (random() < 64 ? 240 + (random() % 16) : random()));
    given += bytes.length;
    for (const item of parser.push(bytes)) {
      if (item.kind === 'data') data += item.bytes.length;
      if (item.kind === 'sub') assert.ok(item.value.length <= 256);
    }
  }
  assert.ok(data > 0 && data < given);
});
