/** What the commands say of times that were stamped before the clock was set. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Long from 'long';
import { lineside } from '../../shared/proto/services.ts';
import { statusText } from '../line/status.ts';
import { EntryPrinter, jsonLines } from './entries.ts';
import { statusJson } from './json.ts';

const { ENTRY_CLOCK_UNSPECIFIED, ENTRY_CLOCK_KNOWN, ENTRY_CLOCK_NOT_SET, ENTRY_CLOCK_CORRECTED } =
  lineside.v1.EntryClock;
const utc = (): number => 0;

function entry(clock: lineside.v1.EntryClock): lineside.v1.LogEntry {
  const timestamp = Long.fromNumber(1_700_000_000_001, true);
  const uncorrected = clock === ENTRY_CLOCK_CORRECTED ? 1_600_000_000_001 : 0;
  return lineside.v1.LogEntry.fromObject({
    id: Long.fromNumber(1, true),
    entry: { dir: 1, timestamp, rawData: Buffer.from('a') },
    clock,
    uncorrectedTimestampMs: Long.fromNumber(uncorrected, true),
  });
}

test('a mark stands beside the time of an entry, and columns stay where they are', () => {
  const printer = new EntryPrinter({ view: 'hex', width: 0, colour: false, ids: false, zone: utc });
  const line = (clock: lineside.v1.EntryClock): string => printer.item({ kind: 'entry', value: entry(clock) });
  assert.equal(line(ENTRY_CLOCK_UNSPECIFIED), '2023-11-14 22:13:20.001 RX 61\n');
  assert.equal(line(ENTRY_CLOCK_KNOWN), '2023-11-14 22:13:20.001 RX 61\n');
  assert.equal(line(ENTRY_CLOCK_NOT_SET), '2023-11-14 22:13:20.001?RX 61\n');
  assert.equal(line(ENTRY_CLOCK_CORRECTED), '2023-11-14 22:13:20.001~RX 61\n');
});

test('scripts get it as fields', () => {
  const clocks = [ENTRY_CLOCK_UNSPECIFIED, ENTRY_CLOCK_KNOWN, ENTRY_CLOCK_NOT_SET, ENTRY_CLOCK_CORRECTED];
  const batch = lineside.v1.LogBatch.fromObject({ entries: clocks.map(entry) });
  const lines = jsonLines(batch, 'hex')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { clock?: string; uncorrectedTimestampMs?: number; timestampMs: number });
  assert.deepEqual(
    lines.map(({ clock, uncorrectedTimestampMs }) => [clock, uncorrectedTimestampMs]),
    [
      [undefined, undefined],
      ['known', undefined],
      ['notSet', undefined],
      ['corrected', 1_600_000_000_001],
    ],
  );
  assert.ok(lines.every(({ timestampMs }) => timestampMs === 1_700_000_000_001));
});

test('the status says that the clock is not set, or what became of the times before', () => {
  const status = (clock: lineside.v1.ClockStatus.$Properties): lineside.v1.LineStatus =>
    lineside.v1.LineStatus.decode(lineside.v1.LineStatus.encode({ clock }).finish());
  const { CLOCK_STATE_SET, CLOCK_STATE_NOT_SET } = lineside.v1.ClockState;
  assert.match(statusText(status({ state: CLOCK_STATE_NOT_SET }), 0, utc), /^Clock +NOT SET since/m);
  const corrected = status({ state: CLOCK_STATE_SET, correctedByMs: Long.fromNumber(-266_400_000) });
  assert.match(statusText(corrected, 0, utc), /^Clock +set; earlier .* by -3 d 2 h$/m);
  assert.deepEqual(statusJson(corrected, true)['clock'], { state: 'set', correctedByMs: -266_400_000 });
  assert.doesNotMatch(statusText(status({ state: CLOCK_STATE_SET }), 0, utc), /Clock/);
});
