import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LogEntry, LogGap } from '../log/entry.ts';
import { BATCH_ENTRIES } from './limits.ts';
import { pieces, signedSpan, withClockNote } from './log-streams.ts';

const entry: LogEntry = { id: 7, dir: 1, timestampMs: 1_800_000_000_000, data: Buffer.from('x'), note: '' };
const corrected: LogEntry = {
  ...entry,
  clock: 'corrected',
  uncorrectedMs: (entry.timestampMs as number) - 266_400_000,
};

test('an entry of the contract says in an empty note that its clock was not set, or by how much it was corrected', () => {
  const notes = (changes: Partial<LogEntry>): string => withClockNote({ ...entry, ...changes }).note;
  assert.equal(notes({ clock: 'notSet' }), 'clock not set');
  assert.equal(withClockNote(corrected).note, 'clock corrected by +3 d 2 h');
  assert.equal(notes({ clock: 'notSet', note: 'its own' }), 'its own');
  assert.equal(notes({ clock: 'known' }), '');
  assert.equal(notes({}), '');
  assert.equal(withClockNote(corrected), withClockNote(corrected), 'the same for every subscriber');
});

test('spans have a sign and their two largest units', () => {
  const table: readonly (readonly [number, string])[] = [
    [266_400_000, '+3 d 2 h'],
    [-266_400_000, '-3 d 2 h'],
    [86_400_000, '+1 d'],
    [86_460_000, '+1 d'],
    [-7_384_000, '-2 h 3 min'],
    [61_000, '+1 min 1 s'],
    [5_400, '+5 s'],
    [-499, '-0 s'],
    [10 * 365 * 86_400_000, '+3650 d'],
  ];
  for (const [ms, text] of table) assert.equal(signedSpan(ms), text);
});

test('runs are cut at the limits, each gap with the entries it lies between', () => {
  const make = (id: number, bytes: number): LogEntry => ({ ...entry, id, data: new Uint8Array(bytes) });
  const gap: LogGap = { firstId: 3, lastId: 4, entries: 2, bytes: 9, fromMs: 1, toMs: 2, reason: 'disk full' };
  const many = Array.from({ length: BATCH_ENTRIES * 2 + 1 }, (_, i) => make(i + 10, 1));
  const lost = [3, BATCH_ENTRIES + 15, 5_000].map((firstId) => ({ ...gap, firstId }));
  const cut = [...pieces({ entries: many, gaps: lost, nextAfterId: 9_999, live: true }, () => 'boot')];
  assert.deepEqual(
    cut.map((piece) => [piece.entries.length, piece.gaps.map(({ firstId }) => firstId), piece.nextAfterId]),
    [
      [BATCH_ENTRIES, [3], BATCH_ENTRIES + 9],
      [BATCH_ENTRIES, [BATCH_ENTRIES + 15], 2 * BATCH_ENTRIES + 9],
      [1, [5_000], 9_999],
    ],
  );
  const large = [make(1, 1), make(2, 1_048_576), make(3, 1)];
  assert.deepEqual(
    [...pieces({ entries: large, gaps: [], nextAfterId: 3, live: true }, () => 'boot')].map((p) => p.entries.length),
    [1, 1, 1],
  );
  const nothing = { entries: [], gaps: [], nextAfterId: 7, live: true };
  assert.deepEqual([...pieces(nothing, () => 'boot')], [{ entries: [], gaps: [], nextAfterId: 7, bootId: '' }]);
  const boots = [
    ...pieces({ entries: many, gaps: [], nextAfterId: 9_999, live: true }, (id) => (id < 100 ? 'one' : 'two')),
  ];
  assert.deepEqual(
    boots.map((piece) => [piece.bootId, piece.entries.length, piece.nextAfterId]),
    [
      ['one', 90, 99],
      ['two', BATCH_ENTRIES, BATCH_ENTRIES + 99],
      ['two', BATCH_ENTRIES + 1 - 90, 9_999],
    ],
  );
});
