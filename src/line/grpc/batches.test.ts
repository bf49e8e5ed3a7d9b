import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lineside } from '../../shared/proto/services.ts';
import type { LogEntry } from '../log/entry.ts';
import { signedSpan, withClockNote } from './batches.ts';
import { encodeBatch, encodeEntry } from './encode.ts';

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

test('a batch says of each entry what its clock was', () => {
  const list: LogEntry[] = [entry, { ...entry, clock: 'known' }, { ...entry, clock: 'notSet' }, corrected];
  const entries = list.map((one) => ({ ...one, bytes: encodeEntry(one, false) }));
  const batch = lineside.v1.LogBatch.decode(
    encodeBatch({ entries, gaps: [], logId: 'log', nextAfterId: 7, bootId: 'boot' }),
  );
  assert.deepEqual(
    batch.entries.map(({ clock, uncorrectedTimestampMs, entry: inner }) => [
      clock,
      Number(uncorrectedTimestampMs),
      Number(inner?.timestamp),
    ]),
    [
      [0, 0, entry.timestampMs],
      [1, 0, entry.timestampMs],
      [2, 0, entry.timestampMs],
      [3, corrected.uncorrectedMs, entry.timestampMs],
    ],
  );
  assert.equal(batch.logId, 'log');
});
