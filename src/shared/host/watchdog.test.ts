import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as aTurn } from 'node:timers/promises';
import { FakeClock } from '../base/fake-clock.fixture.ts';
import { type Logger, silentLogger } from '../base/logger.ts';
import { type Check, Watchdog } from './health-report.ts';

/** 20 s a round. */
const INTERVAL_MS = 60_000;

function rig(...checks: readonly Check[]) {
  const clock = new FakeClock();
  const fedAtMs: number[] = [];
  const log: string[] = [];
  const logger: Logger = {
    ...silentLogger,
    info: (message, fields) => log.push(`info ${message}: ${fields?.['who']}`),
    error: (message, fields) => log.push(`error ${message}: ${fields?.['who']}: ${fields?.['why']}`),
  };
  const feed = () => void fedAtMs.push(clock.monoMs());
  const watchdog = new Watchdog({ intervalMs: INTERVAL_MS, feed, checks, clock, logger });
  const pass = async (ms: number): Promise<void> => {
    await aTurn();
    for (let left = ms; left > 0; left -= 1_000) {
      clock.advance(1_000);
      await aTurn();
    }
  };
  return { clock, fedAtMs, log, watchdog, pass };
}

test('is fed three times in an interval while all answers', async () => {
  const { fedAtMs, log, pass } = rig({ name: 'a', answers() {} }, { name: 'b', answers: async () => {} });
  await pass(INTERVAL_MS);
  assert.deepEqual(fedAtMs, [0, 20_000, 40_000, 60_000]);
  assert.deepEqual(log, []);
});

test('starves as soon as one hangs, names it once, asks it once, and goes on when it answers', async () => {
  let release: (() => void) | undefined;
  let asked = 0;
  const hang: Check = {
    name: 'the log worker',
    answers() {
      asked++;
      return new Promise((resolve) => {
        release = resolve;
      });
    },
  };
  const { fedAtMs, log, pass } = rig(hang, { name: 'other', answers() {} });
  await pass(90_000);
  assert.deepEqual([fedAtMs, asked], [[], 1]);
  assert.deepEqual(log, ['error watchdog: not fed, one does not answer: the log worker: no answer within 20000 ms']);
  release?.();
  await pass(1_000);
  assert.equal(fedAtMs.length, 1);
  assert.equal(log.at(-1), 'info watchdog: it answers again: the log worker');
});

test('a check that hangs for less than the interval costs no life: it is fed in time', async () => {
  let from: number | undefined;
  const { clock, fedAtMs, pass } = rig({
    name: 'slow',
    answers() {
      from ??= clock.monoMs();
      const untilMs = from + 35_000;
      if (clock.monoMs() >= untilMs) return undefined;
      return new Promise((resolve) => void clock.timer(untilMs - clock.monoMs(), resolve));
    },
  });
  await pass(120_000);
  const gaps = fedAtMs.map((at, i) => at - (fedAtMs[i - 1] ?? 0));
  assert.ok(Math.max(...gaps) < INTERVAL_MS, `fed at ${fedAtMs.join()}`);
});

test('one that is known to be down starves it, with the reason', async () => {
  const { fedAtMs, log, pass } = rig({
    name: 'the planner',
    answers() {
      throw new Error('it has not turned for 200 s');
    },
  });
  await pass(40_000);
  assert.deepEqual(fedAtMs, []);
  assert.deepEqual(log, ['error watchdog: not fed, one does not answer: the planner: it has not turned for 200 s']);
});

test('a stop ends it, also while a check is asked', async () => {
  let release: (() => void) | undefined;
  const check: Check = { name: 'late', answers: () => new Promise((resolve) => (release = resolve)) };
  const { clock, fedAtMs, log, watchdog, pass } = rig(check);
  watchdog.stop();
  release?.();
  await pass(INTERVAL_MS);
  assert.deepEqual([fedAtMs, log, clock.pendingTimers], [[], [], 0]);
});

test('a stop does not wait for a check that hangs', async () => {
  const { clock, fedAtMs, log, watchdog } = rig({ name: 'hangs', answers: () => new Promise(() => {}) });
  await aTurn();
  watchdog.stop();
  await aTurn();
  assert.deepEqual([fedAtMs, log, clock.pendingTimers], [[], [], 0]);
});
