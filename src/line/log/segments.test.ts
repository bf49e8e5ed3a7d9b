import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { LogEntry } from './entry.ts';
import { marked, markOf, type Segment, Segments, stepMs } from './segments.ts';

const YEAR_MS = 365 * 86_400_000;

function segment(firstId: number, state: Segment['state'], offsetMs: number, changes: Partial<Segment> = {}): Segment {
  return { firstId, state, bootId: 'boot', offsetMs, correctionMs: undefined, ...changes };
}

function segmentsOf(...list: readonly Segment[]): Segments {
  const segments = new Segments();
  for (const one of list) segments.put(one);
  return segments;
}

const entry = (id: number, timestampMs = 1_000): LogEntry => ({ id, dir: 1, timestampMs, data: Buffer.of(), note: '' });

test('the facts that a segment has about its entries', () => {
  const table: readonly (readonly [Segment['state'], number | undefined, string | undefined, number])[] = [
    ['synced', undefined, 'known', 0],
    ['unsynced', undefined, 'notSet', 0],
    ['unknown', undefined, undefined, 0],
    ['unmarked', undefined, undefined, 0],
    ['unmarked', YEAR_MS, undefined, 0],
    ['unsynced', YEAR_MS, 'corrected', YEAR_MS],
    ['unsynced', -stepMs, 'corrected', -stepMs],
    ['unsynced', stepMs - 1, 'known', 0],
    ['unsynced', 0, 'known', 0],
    ['unknown', YEAR_MS, 'corrected', YEAR_MS],
    ['unknown', 1, 'known', 0],
  ];
  for (const [state, correctionMs, clock, added] of table) {
    assert.deepEqual(
      markOf(segment(1, state, 0, { correctionMs })),
      { clock, correctionMs: added },
      `${state} ${clock}`,
    );
  }
  assert.deepEqual(markOf(undefined), { clock: undefined, correctionMs: 0 });
});

test('the true offset corrects every other segment of its boot by the difference, and of no other boot', () => {
  const segments = segmentsOf(
    segment(1, 'unsynced', 500, { bootId: 'earlier' }),
    segment(5, 'unmarked', 0),
    segment(10, 'unsynced', 1_000),
    segment(20, 'unsynced', -7_000),
    segment(30, 'unknown', 1_000),
    segment(40, 'unsynced', YEAR_MS - 3),
    segment(50, 'synced', YEAR_MS),
  );
  const changed = segments.settle('boot').map(({ firstId, correctionMs }) => [firstId, correctionMs]);
  assert.deepEqual(changed, [
    [10, YEAR_MS - 1_000],
    [20, YEAR_MS + 7_000],
    [30, YEAR_MS - 1_000],
    [40, 3],
  ]);
  const clocks = [1, 4, 5, 9, 10, 19, 20, 35, 45, 50, 99].map((id) => segments.markAt(id).clock);
  const none = undefined;
  assert.deepEqual(
    clocks,
    ['notSet', 'notSet', none, none].concat([
      'corrected',
      'corrected',
      'corrected',
      'corrected',
      'known',
      'known',
      'known',
    ]),
  );
});

test('a correction is made once: settling again changes nothing, whatever the clock does later', () => {
  const segments = segmentsOf(segment(1, 'unsynced', 0), segment(9, 'synced', YEAR_MS));
  assert.equal(segments.settle('boot').length, 1);
  segments.put(segment(20, 'synced', 2 * YEAR_MS));
  assert.deepEqual(segments.settle('boot'), []);
  assert.equal(segments.markAt(3).correctionMs, YEAR_MS);
});

test('nothing is corrected while the time is unknown, nor if the boot is unknown', () => {
  assert.deepEqual(segmentsOf(segment(1, 'unsynced', 0), segment(5, 'unknown', 9_999)).settle('boot'), []);
  const nameless = segmentsOf(segment(1, 'unsynced', 0, { bootId: '' }), segment(5, 'synced', YEAR_MS, { bootId: '' }));
  assert.deepEqual(nameless.settle(''), []);
});

test('a service that starts unsynced after the time was known in this boot knows the truth', () => {
  const segments = segmentsOf(
    segment(1, 'synced', YEAR_MS),
    segment(10, 'unsynced', YEAR_MS + 1),
    segment(20, 'unsynced', 5),
  );
  segments.settle('boot');
  assert.equal(segments.markAt(15).clock, 'known');
  assert.deepEqual(segments.markAt(25), { clock: 'corrected', correctionMs: YEAR_MS - 5 });
});

test('stamps are corrected, times that callers gave are left alone, and nothing is before 1970', () => {
  const mark = { clock: 'corrected' as const, correctionMs: 5_000 };
  const { timestampMs, uncorrectedMs, clock } = marked(entry(1), mark);
  assert.deepEqual([timestampMs, uncorrectedMs, clock], [6_000, 1_000, 'corrected']);
  const given: LogEntry = { ...entry(1), timeGiven: true };
  assert.equal(marked(given, mark), given);
  assert.equal(marked(entry(1), { ...mark, correctionMs: -2_000 }).timestampMs, 0);
  const unmarked = entry(1);
  assert.equal(marked(unmarked, { clock: undefined, correctionMs: 0 }), unmarked);
});

test('the times of a gap are corrected as those of its entries', () => {
  const segments = segmentsOf(segment(1, 'unsynced', 0), segment(10, 'synced', 50_000));
  segments.settle('boot');
  const gap = { firstId: 5, lastId: 12, entries: 8, bytes: 1, fromMs: 1_000, toMs: 60_000, reason: '' };
  assert.deepEqual(segments.marked(gap), { ...gap, fromMs: 51_000 });
});

test('an entry is in the last segment that begins at or before it, in whatever order they came and were asked for', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.integer({ min: 1, max: 60 }), { maxLength: 12 }),
      fc.array(fc.integer({ min: 1, max: 70 }), { maxLength: 30 }),
      fc.integer({ min: 1, max: 70 }),
      (firsts, asked, dropBefore) => {
        const segments = segmentsOf(...firsts.map((id) => segment(id, 'unsynced', 0, { correctionMs: id * 1_000 })));
        const expected = (id: number): number => Math.max(0, ...firsts.filter((first) => first <= id)) * 1_000;
        for (const id of asked) assert.equal(segments.markAt(id).correctionMs, expected(id));
        segments.dropBefore(dropBefore);
        for (const id of asked) if (id >= dropBefore) assert.equal(segments.markAt(id).correctionMs, expected(id));
      },
    ),
  );
});
