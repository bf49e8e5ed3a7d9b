import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { visibleText } from '../shared/log-formats/byte-text.ts';
import { cutsOf, LineBuffer, MAX_LINE_BYTES } from './lines.ts';
import {
  type EntryRow,
  everything,
  filterFor,
  type GapRow,
  type LineEvent,
  type LineRow,
  MAX_LINES,
  type Row,
  RowBuffer,
  withEvents,
} from './rows.ts';

type Shown = LineRow | GapRow;

const encoder = new TextEncoder();

function entry(id: number, text: string | Uint8Array, dir: 'rx' | 'tx' = 'rx', note = ''): EntryRow {
  const bytes = typeof text === 'string' ? encoder.encode(text) : text;
  return { kind: 'entry', id, dir, timestampMs: id * 1_000, clock: 'known', bytes, note };
}
const gap = (firstId: number, id: number): GapRow => ({ kind: 'gap', id, firstId, entries: 1, reason: '' });
const rx = (...texts: string[]): EntryRow[] => texts.map((text, at) => entry(at + 1, text));

function shown(lines: readonly Shown[]): string[] {
  return lines.map((line) => (line.kind === 'gap' ? 'gap' : `${line.dir} ${visibleText(line.bytes)}`));
}
const linesOf = (rows: readonly Row[], cuts: readonly number[] = [], maxBytes = MAX_LINE_BYTES): readonly Shown[] =>
  new LineBuffer(maxBytes).update(rows, cuts);
const seen = (rows: readonly Row[], cuts: readonly number[] = []): string[] => shown(linesOf(rows, cuts));

describe('lines of the log', () => {
  it('join entries and end with CR, LF or CR LF; a CR LF in two entries is one end', () => {
    assert.deepEqual(seen(rx('one\ntwo\rthr', 'ee\r', '\nfour\r', 'five\n', '\r\n', '\n\rrest')), [
      'rx one\\n',
      'rx two\\r',
      'rx three\\r\\n',
      'rx four\\r',
      'rx five\\n',
      'rx \\r\\n',
      'rx \\n',
      'rx \\r',
      'rx rest',
    ]);
    const ends = linesOf(rx('a\n', 'b\r', '\n', 'c')).map((line) => line.kind === 'line' && line.endBytes);
    assert.deepEqual(ends, [1, 2, 0]);
  });

  it('have the time of their first byte, and ids in the order of the log', () => {
    const lines = linesOf([entry(7, 'a\nb'), entry(8, 'c\nd\n')]);
    assert.deepEqual(
      lines.map((line) => line.kind === 'line' && [line.id, line.lastId, line.timestampMs]),
      [
        [7, 7, 7_000],
        [7 + 2 / 6, 8, 7_000],
        [8 + 2 / 8, 8, 8_000],
      ],
    );
  });

  it('of one direction continue after what was sent meanwhile, a CR LF too', () => {
    const rows = [
      entry(1, 'Pass'),
      entry(2, 'x', 'tx'),
      entry(3, 'word: \r'),
      entry(4, 'y\r', 'tx'),
      entry(5, '\nok'),
      entry(6, '\n', 'tx'),
    ];
    assert.deepEqual(seen(rows), ['rx Password: \\r\\n', 'tx xy\\r\\n', 'rx ok']);
  });

  it('do not continue after a gap, nor after an event that interrupts the line', () => {
    const rows = [entry(1, 'a\r'), entry(2, 'b', 'tx'), gap(3, 4), entry(5, '\nc'), entry(6, 'd', 'tx')];
    assert.deepEqual(seen(rows), ['rx a\\r', 'tx b', 'gap', 'rx \\n', 'rx c', 'tx d']);
    assert.deepEqual(seen(rx('a', 'b', 'c', 'd'), [0, 2, 2, 9]), ['rx ab', 'rx cd']);
  });

  it('stand around the events that interrupt them; exclusive use does not', () => {
    const event = (afterEntryId: number, kind: LineEvent['kind']): LineEvent => {
      return { id: 1, afterEntryId, timestampMs: 0, clock: 'known', kind, by: '', detail: '' };
    };
    const events = [event(1, 'holdBegun'), event(2, 'lost'), event(2, 'back')];
    assert.deepEqual(cutsOf(events), [2, 2]);
    const rows = rx('a\nb', 'c\nd', 'e');
    const between = withEvents(linesOf(rows, cutsOf(events)), events, rows, true);
    const words = between.map((row) => (row.kind === 'event' ? row.event.kind : shown([row as LineRow])[0]));
    assert.deepEqual(words, ['rx a\\n', 'rx bc\\n', 'holdBegun', 'rx d', 'lost', 'back', 'rx e']);
    const ids = between.map(({ id }) => id);
    assert.deepEqual(
      ids,
      [...new Set(ids)].sort((one, other) => one - other),
    );
  });

  it('are found by what stands over the end of an entry, and by direction', () => {
    const lines = linesOf([...rx('Temp 2', '1.5\r', '\nTemp 22'), entry(4, 'temp 21.5', 'tx')]);
    const found = (wanted: object): string[] => shown(lines.filter(filterFor({ ...everything, ...wanted }).matches));
    assert.deepEqual(found({ text: 'temp 21.5' }), ['rx Temp 21.5\\r\\n', 'tx temp 21.5']);
    assert.deepEqual(found({ text: '35 0d 0a', as: 'hex' }), ['rx Temp 21.5\\r\\n']);
    assert.deepEqual(found({ dir: 'tx' }), ['tx temp 21.5']);
  });

  it('have one note: an entry with a note begins a line, and is one if it has no bytes', () => {
    const rows = [
      entry(1, 'a'),
      entry(2, 'b\nb', 'rx', 'first'),
      entry(3, 'c'),
      entry(4, '', 'rx', 'empty'),
      entry(5, ''),
    ];
    const notes = linesOf(rows).map((line) => line.kind === 'line' && `${visibleText(line.bytes)} ${line.note}`);
    assert.deepEqual(notes, ['a ', 'b\\n first', 'bc ', ' empty']);
  });

  it('without an end are cut at their limit, at a whole character; an end at the limit is theirs', () => {
    const cut = (texts: string[]): string[] => shown(linesOf(rx(...texts), [], 4));
    assert.deepEqual(cut(['abcdefg', 'hi']), ['rx abcd', 'rx efgh', 'rx i']);
    assert.deepEqual(cut(['abcd', '\r', '\nefgh\ni']), ['rx abcd\\r\\n', 'rx efgh\\n', 'rx i']);
    assert.deepEqual(cut(['abc\u20acd']), ['rx abc\u20ac', 'rx d']);
    const [first] = linesOf([entry(1, new Uint8Array(10_000).fill(0x80))]);
    assert.equal(first?.kind === 'line' && first.bytes.length, MAX_LINE_BYTES + 3);
  });

  it('are bounded, though an entry has an end at every byte', () => {
    const lines = linesOf([entry(1, new Uint8Array(1024 * 1024).fill(10))]);
    assert.ok(lines.length < 300, `${lines.length} lines`);
    const buffer = new RowBuffer();
    const flood = new LineBuffer();
    for (let id = 1; id <= 40; id += 1) {
      buffer.append([entry(id, new Uint8Array(4_096).fill(13))]);
      assert.ok(flood.update(buffer.rows).length <= MAX_LINES);
    }
  });

  it('leave with the entries; a line that reaches those that are held stays whole', () => {
    const buffer = new RowBuffer(3);
    const lines = new LineBuffer();
    const rows = [
      entry(1, 'a\nb'),
      entry(2, 'sent', 'tx'),
      entry(3, 'c'),
      entry(4, '!\n', 'tx'),
      entry(5, 'd'),
      entry(6, '\ne'),
      entry(7, 'f'),
    ];
    const steps = rows.map((row) => {
      buffer.append([row]);
      return shown(lines.update(buffer.rows)).join(' | ');
    });
    assert.deepEqual(steps.slice(3), [
      'rx bc | tx sent!\\n',
      'rx bcd | tx sent!\\n',
      'rx bcd\\n | tx sent!\\n | rx e',
      'rx bcd\\n | rx ef',
    ]);
  });

  it('that do not change are the same objects', () => {
    const lines = new LineBuffer();
    const rows = rx('a\nb', 'c\nd');
    const [a] = lines.update(rows.slice(0, 1));
    const next = lines.update(rows);
    assert.equal(next[0], a);
    assert.deepEqual(shown(next), ['rx a\\n', 'rx bc\\n', 'rx d']);
  });
});

// Whatever the bytes and the borders of the entries.

const piece = fc.record({
  dir: fc.constantFrom('rx' as const, 'tx' as const),
  text: fc.stringMatching(/^[ab\r\n\u00e9\u20ac]{0,6}$/),
});
const byte = fc.constantFrom(10, 13, 65, 66, 0x80, 0xc3, 0xa9, 0xe2, 0x82, 0xac, 0xff);
const SMALL = 8;

function joined(rows: readonly (Row | LineRow)[], dir: 'rx' | 'tx'): Buffer {
  return Buffer.concat(rows.map((row) => (row.kind !== 'gap' && row.dir === dir ? row.bytes : new Uint8Array())));
}

/** Bytes as entries that end at such places. */
function entriesOf(bytes: readonly number[], borders: readonly number[]): EntryRow[] {
  const ends = [...new Set(borders.map((border) => border % (bytes.length + 1))), bytes.length].sort((a, b) => a - b);
  return ends.map((end, at) => entry(at + 1, Uint8Array.from(bytes.slice(ends[at - 1] ?? 0, end))));
}

describe('whatever the borders of the entries', () => {
  it('the text of all lines is the text of all entries, in each direction', () => {
    fc.assert(
      fc.property(fc.array(piece), (pieces) => {
        const rows = pieces.map(({ dir, text }, at) => entry(at + 1, text, dir));
        const lines = linesOf(rows, [], SMALL);
        for (const dir of ['rx', 'tx'] as const) {
          assert.deepEqual(joined(lines, dir), joined(rows, dir));
          const texts = lines.map((line) => (line.kind === 'line' && line.dir === dir ? visibleText(line.bytes) : ''));
          assert.equal(texts.join(''), visibleText(joined(rows, dir)));
        }
        const ids = lines.map(({ id }) => id);
        assert.deepEqual(
          ids,
          [...new Set(ids)].sort((a, b) => a - b),
        );
      }),
    );
  });

  it('the lines are the same, and have no end but at their end', () => {
    fc.assert(
      fc.property(fc.array(byte), fc.array(fc.nat()), fc.array(fc.nat()), (bytes, one, other) => {
        const lines = linesOf(entriesOf(bytes, one), [], SMALL);
        assert.deepEqual(shown(lines), shown(linesOf(entriesOf(bytes, other), [], SMALL)));
        const texts = lines.map((line) => (line.kind === 'line' ? visibleText(line.bytes) : ''));
        assert.equal(texts.join(''), visibleText(Uint8Array.from(bytes)));
        for (const line of lines) {
          if (line.kind === 'gap') continue;
          const text = line.bytes.subarray(0, line.bytes.length - line.endBytes);
          assert.ok(!text.includes(10) && !text.includes(13) && text.length <= SMALL + 3, visibleText(line.bytes));
          assert.ok(line.bytes.length > 0);
        }
      }),
    );
  });

  it('lines that grow with the log, backwards too, are those of all entries at once', () => {
    const step = fc.record({ take: fc.integer({ min: 1, max: 4 }), isOlder: fc.boolean(), cuts: fc.array(fc.nat(40)) });
    fc.assert(
      fc.property(fc.array(piece, { minLength: 1, maxLength: 40 }), fc.array(step), (pieces, steps) => {
        const rows = pieces.map(({ dir, text }, at) => entry(at + 1, text, dir));
        const lines = new LineBuffer(SMALL);
        let [from, to] = [Math.floor(rows.length / 2), Math.floor(rows.length / 2)];
        let cuts: number[] = [];
        for (const { take, isOlder, cuts: more } of steps) {
          if (isOlder) from = Math.max(0, from - take);
          else to += take;
          cuts = [...new Set([...cuts, ...more])].sort((a, b) => a - b);
          const held = rows.slice(from, to);
          assert.deepEqual(lines.update(held, cuts), linesOf(held, cuts, SMALL));
        }
      }),
    );
  });

  it('every byte that is held is in a line, once', () => {
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 60 }), fc.integer({ min: 1, max: 6 }), (pieces, maxRows) => {
        const buffer = new RowBuffer(maxRows);
        const lines = new LineBuffer(SMALL);
        pieces.forEach(({ dir, text }, at) => {
          buffer.append([entry(at + 1, text, dir)]);
          const now = lines.update(buffer.rows);
          for (const way of ['rx', 'tx'] as const) {
            const [all, held] = [joined(now, way), joined(buffer.rows, way)];
            assert.ok(all.length - held.length <= SMALL + 3, 'at most one line from before');
            assert.deepEqual(all.subarray(all.length - held.length), held);
          }
        });
      }),
    );
  });
});
