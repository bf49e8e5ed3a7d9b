/**
 * Records, stores, reads live and stored for a while in a log whose disk misbehaves (strace injects it), and prints
 * one JSON report. argv: dir, what to wait for (`recovered` or milliseconds), queue bytes.
 */

import { openSerialLog } from '../../src/line/log/serial-log.ts';
import { pause, systemClock } from '../../src/shared/base/clock.ts';
import { silentLogger } from '../../src/shared/base/logger.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';

export interface FaultReport {
  /** Longest call of record(), and longest way of an entry from record() to a live reader. */
  readonly longestRecordMs: number;
  readonly longestLiveMs: number;
  /** Longest time the thread of the line was held. */
  readonly longestStallMs: number;
  readonly states: readonly string[];
  readonly errors: readonly string[];
  readonly stored: readonly number[];
  readonly refused: number;
  readonly live: number;
  readonly liveInOrder: boolean;
  readonly headId: number;
  readonly lostEntries: number;
  readonly commits: number;
}

const [dir = '', goal = '1000', queueBytes = String(8 << 20)] = process.argv.slice(2);
const log = await openSerialLog({
  dir,
  maxBytes: 1 << 30,
  maxAgeDays: 30,
  commitMs: 50,
  queueBytes: Number(queueBytes),
  tailBytes: 1 << 20,
  clock: systemClock,
  logger: silentLogger,
});

const sentAt = new Map<number, number>();
let longestRecordMs = 0;
let longestLiveMs = 0;
let longestStallMs = 0;
let live = 0;
let liveInOrder = true;
const states: string[] = [];
const errors: string[] = [];
const stored: number[] = [];
let refused = 0;
const stop = new AbortController();

const reading = (async () => {
  let last = 0;
  const request = {
    after: 'live',
    follow: true,
    dir: undefined,
    sinceMs: undefined,
    untilMs: undefined,
    limit: undefined,
  } as const;
  for await (const { entries } of log.read(request, stop.signal)) {
    const now = performance.now();
    for (const { id } of entries) {
      liveInOrder &&= last === 0 || id === last + 1;
      last = id;
      live++;
      const at = sentAt.get(id);
      if (at !== undefined) longestLiveMs = Math.max(longestLiveMs, now - at);
    }
  }
})().catch(() => 'the end of the log, which ends every reader');

// Until the log is open, its state is "failing".
await until('the log is open', async () => (await log.status()).state === 'ok');
const started = performance.now();
let lastTurn = started;
let turns = 0;
for (;;) {
  const status = await log.status();
  if (states.at(-1) !== status.state) states.push(status.state);
  if (status.error !== '' && errors.at(-1) !== status.error) errors.push(status.error);
  const elapsed = performance.now() - started;
  if (
    goal === 'recovered'
      ? states.includes('failing') && status.state === 'ok' && stored.length > 0
      : elapsed > Number(goal)
  )
    break;
  if (elapsed > 20_000) break;
  const before = performance.now();
  log.record(1, turns, Buffer.alloc(600, turns));
  longestRecordMs = Math.max(longestRecordMs, performance.now() - before);
  sentAt.set((await log.status()).headId, before);
  if (turns % 10 === 0) {
    log.store({ dir: 0, timestampMs: turns, data: Buffer.from('stored'), note: '' }).then(
      (entry) => stored.push(entry.id),
      () => refused++,
    );
  }
  turns++;
  await pause(systemClock, 5);
  longestStallMs = Math.max(longestStallMs, performance.now() - lastTurn);
  lastTurn = performance.now();
}
await log.close().catch(() => undefined);
stop.abort();
await reading;
const { headId, lostEntries, commits } = await log.status();
const report: FaultReport = {
  longestRecordMs,
  longestLiveMs,
  longestStallMs,
  states,
  errors,
  stored,
  refused,
  live,
  liveInOrder,
  headId,
  lostEntries,
  commits,
};
process.stdout.write(`${JSON.stringify(report)}\n`);
