import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { RE2JS } from 're2js';
import { columnsOf } from '../../../shared/base/log-block.ts';
import { pack } from '../packed.ts';
import { UnpackedBlock } from './block-unpacker.ts';
import { finderOf, type Pattern } from './pattern.ts';
import { SearchWindow, type WindowMatch } from './window.ts';

/** Two letters, so that matches and almost-matches are many; some in both cases, and bytes above 7f. */
const byte = fc.constantFrom(0x61, 0x62, 0x41, 0xe9);
const chunks = fc.array(fc.record({ data: fc.array(byte, { maxLength: 6 }), searches: fc.boolean() }), {
  maxLength: 60,
});

type Place = readonly [entryId: number, offset: number, length: number, throughId: number];

/** The chunks as entries of one direction, searched whenever a chunk says so. */
function searched(pattern: Pattern, list: readonly { data: number[]; searches: boolean }[]): Place[] {
  const found: WindowMatch[] = [];
  const window = new SearchWindow(finderOf(pattern), (match) => found.push(match) > 0);
  const entries = list.map(({ data }, i) => {
    return { id: i + 1, dir: 1 as const, timestampMs: 1_000 + i, data: Buffer.from(data), note: '' };
  });
  const { blocks, buffer } = pack(entries);
  const [block] = blocks;
  if (block === undefined) return [];
  const { dirs, bytes } = columnsOf(buffer, block);
  const unpacked = new UnpackedBlock();
  unpacked.setColumns(entries.length, new Uint32Array(buffer, block.offset, 4 * entries.length), dirs, 0);
  unpacked.setBytes(bytes, 0);
  let at = 0;
  for (const [i, { data, searches }] of list.entries()) {
    window.add({ block: unpacked, firstId: i + 1, first: i, count: 1, from: at, to: at + data.length });
    at += data.length;
    if (searches) window.search(false);
  }
  window.search(true);
  assert.ok(found.every(({ entryId, stampedMs }) => stampedMs === 999 + entryId));
  return found.map(({ entryId, offset, length, throughId }) => [entryId, offset, length, throughId]);
}

/** The same by matches in the concatenation. */
function placed(list: readonly { data: number[] }[], matches: readonly (readonly [number, number])[]): Place[] {
  const owners = list.flatMap(({ data }, i) => data.map((_, offset) => ({ id: i + 1, offset })));
  return matches.map(([start, end]) => {
    const [first, last] = [owners[start], owners[end - 1]];
    assert.ok(first !== undefined && last !== undefined);
    return [first.id, first.offset, end - start, last.id];
  });
}

function naive(bytes: number[], length: number, isAt: (start: number) => boolean): [number, number][] {
  const matches: [number, number][] = [];
  for (let start = 0; start + length <= bytes.length; start++) {
    if (!isAt(start)) continue;
    matches.push([start, start + length]);
    start += length - 1;
  }
  return matches;
}

const lowered = (value: number): number => (value >= 0x41 && value <= 0x5a ? value + 0x20 : value);

test('text and hex over entries in any pieces are found as in all the bytes at once', () => {
  const pattern = fc
    .array(fc.option(byte), { minLength: 1, maxLength: 5 })
    .filter((list) => list.some((one) => one !== null));
  fc.assert(
    fc.property(chunks, pattern, fc.boolean(), (list, wanted, ignoreCase) => {
      const bytes = list.flatMap(({ data }) => data);
      const value = wanted.map((one) => (one === null ? '??' : one.toString(16).padStart(2, '0'))).join(' ');
      const isAt = (start: number): boolean => wanted.every((one, i) => one === null || one === bytes[start + i]);
      const expected = placed(list, naive(bytes, wanted.length, isAt));
      assert.deepEqual(searched({ kind: 'hex', value, ignoreCase: false }, list), expected);

      const text = Buffer.from(
        wanted.map((one) => (one === null || one > 0x7f ? 'é' : String.fromCharCode(one))).join(''),
      );
      const fold = ignoreCase ? lowered : (one: number): number => one;
      const isText = (start: number): boolean => text.every((one, i) => fold(one) === fold(bytes[start + i] ?? -1));
      const texts = placed(list, naive(bytes, text.length, isText));
      assert.deepEqual(searched({ kind: 'text', value: text.toString(), ignoreCase }, list), texts);
    }),
    { numRuns: 500 },
  );
});

test('ignoring case takes A to Z for a to z and no other byte for another, wherever it lies', () => {
  for (let pad = 0; pad < 4; pad++) {
    for (let wanted = 0; wanted < 0x80; wanted++) {
      const bytes = Buffer.from([...Array(pad).fill(0xff), ...Array(256).keys()]);
      const finder = finderOf({ kind: 'text', value: String.fromCharCode(wanted), ignoreCase: true });
      const found: number[] = [];
      finder.prepare(bytes, pad, bytes.length);
      finder.search(bytes, pad, bytes.length, true, (start) => found.push(start - pad) > 0);
      const expected = [...Array(256).keys()].filter((byte) => lowered(byte) === lowered(wanted));
      assert.deepEqual(found, expected);
    }
  }
});

test('a regular expression over entries in any pieces is found as in all the bytes at once', () => {
  const expressions = ['ab+', 'a{2,3}', 'b$', '^a', 'a.*b', 'A|bb', '\\ba', 'é', '(?i)ab', 'a*'];
  fc.assert(
    fc.property(chunks, fc.constantFrom(...expressions), (list, value) => {
      const bytes = Buffer.from(list.flatMap(({ data }) => data));
      const matcher = RE2JS.compile(Buffer.from(value).toString('latin1'), RE2JS.MULTILINE).matcher(
        bytes.toString('latin1'),
      );
      const matches: [number, number][] = [];
      while (matcher.find()) if (matcher.end() > matcher.start()) matches.push([matcher.start(), matcher.end()]);
      assert.deepEqual(searched({ kind: 'regex', value, ignoreCase: false }, list), placed(list, matches));
    }),
    { numRuns: 500 },
  );
});

test('a pattern that is empty, too long or malformed is refused with what is allowed', () => {
  const refused =
    (kind: Pattern['kind'], value: string, ignoreCase = false) =>
    () =>
      finderOf({ kind, value, ignoreCase });
  assert.throws(refused('text', ''), /text: is empty/);
  assert.throws(refused('text', 'é'.repeat(513)), /text: has 1026 bytes, more than 1024/);
  assert.throws(refused('hex', '0'), /odd number/);
  assert.throws(refused('hex', '0g'), /"0g" is neither two hex digits nor "\?\?"/);
  assert.throws(refused('hex', '?? ??'), /needs one byte/);
  assert.throws(refused('hex', '61', true), /ignore_case/);
  assert.throws(refused('regex', '('), /^LinesideError: regex: missing closing \)/);
  assert.throws(refused('regex', '(?=a)'), /regex: invalid/);
  assert.throws(refused('regex', 'a'.repeat(1_025)), /more than 1024/);
});
