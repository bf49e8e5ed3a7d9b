import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as aTurn } from 'node:timers/promises';
import { FakeClock } from '../base/fake-clock.fixture.ts';
import { recordingLogger } from '../base/logger.fixture.ts';
import { silentLogger } from '../base/logger.ts';
import { type Check, SystemdReport, Watchdog } from './health-report.ts';

function reportTo(listens = true) {
  const clock = new FakeClock();
  const said: string[] = [];
  const notify = (assignments: Readonly<Record<string, string>>): void => {
    const shown = Object.entries(assignments).filter(([name]) => name !== 'MONOTONIC_USEC');
    said.push(shown.map(([name, value]) => `${name}=${value}`).join(' '));
  };
  const notifier = listens ? { watchdogIntervalMs: 60_000, notify } : undefined;
  const report = new SystemdReport({ notifier, clock, logger: silentLogger });
  return { clock, said, report };
}

test('stages, readiness with the first status, then what changes, every few seconds at most', async () => {
  const { clock, said, report } = reportTo();
  let status = 'open a';
  report.stage('checking refdata.db');
  await report.up({ status: () => status, checks: [] });
  await aTurn();
  assert.deepEqual(said.splice(0), [
    'STATUS=checking refdata.db EXTEND_TIMEOUT_USEC=300000000',
    'READY=1 STATUS=open a',
    'WATCHDOG=1',
  ]);
  await clock.pass(15_000);
  assert.deepEqual(said, []);
  status = 'lost a';
  await clock.pass(5_000);
  assert.deepEqual(said.splice(0), ['WATCHDOG=1', 'STATUS=lost a']);
  status = 'open b';
  await clock.pass(1_000);
  assert.deepEqual(said, [], 'not with every change');
  await clock.pass(4_000);
  assert.deepEqual(said, ['STATUS=open b']);
});

test('a remark of a reload stays until the next one', async () => {
  const { clock, said, report } = reportTo();
  let status = 'open a';
  await report.up({ status: () => status, checks: [] });
  await aTurn();
  said.length = 0;
  report.reloading();
  await report.reloaded('CONFIGURATION FAULTY');
  status = 'open b';
  await clock.pass(5_000);
  report.reloading();
  await report.reloaded('');
  assert.deepEqual(said, [
    'RELOADING=1',
    'READY=1 STATUS=CONFIGURATION FAULTY; open a',
    'STATUS=CONFIGURATION FAULTY; open b',
    'RELOADING=1',
    'READY=1 STATUS=open b',
  ]);
});

test('a status that cannot be had is said, and had again', async () => {
  const { clock, said, report } = reportTo();
  let isBroken = true;
  const status = async (): Promise<string> => {
    if (isBroken) throw new Error('disk I/O error');
    return 'well';
  };
  await report.up({ status, checks: [] });
  isBroken = false;
  await clock.pass(5_000);
  assert.deepEqual([said[0], said.at(-1)], ['READY=1 STATUS=its state is unknown: disk I/O error', 'STATUS=well']);
});

test('with the stop it goes quiet', async () => {
  const { clock, said, report } = reportTo();
  let asked = 0;
  await report.up({ status: () => `asked ${++asked}`, checks: [] });
  await aTurn();
  said.length = 0;
  report.stopping(45_000);
  await clock.pass(120_000);
  assert.deepEqual([said, clock.pendingTimers], [['STOPPING=1 STATUS=stopping EXTEND_TIMEOUT_USEC=45000000'], 0]);
});

test('asks for nothing when systemd does not listen', async () => {
  const { clock, said, report } = reportTo(false);
  const status = (): string => assert.fail('asked');
  await report.up({ status, checks: [] });
  await report.reloaded('x');
  assert.deepEqual([said, clock.pendingTimers], [[], 0]);
});

/** 20 s a round. */
const INTERVAL_MS = 60_000;

function feeding(...checks: readonly Check[]) {
  const clock = new FakeClock();
  const fedAtMs: number[] = [];
  const { logger, lines: log } = recordingLogger();
  const feed = () => void fedAtMs.push(clock.monoMs());
  const watchdog = new Watchdog({ intervalMs: INTERVAL_MS, feed, checks, clock, logger });
  return { clock, fedAtMs, log, watchdog };
}

test('the watchdog is fed three times in an interval while all answers', async () => {
  const { clock, fedAtMs, log } = feeding({ name: 'a', answers() {} }, { name: 'b', answers: async () => {} });
  await clock.pass(INTERVAL_MS);
  assert.deepEqual(fedAtMs, [0, 20_000, 40_000, 60_000]);
  assert.deepEqual(log, []);
});

test('the watchdog starves as soon as one hangs, names it once, asks it once, and is fed again when it answers', async () => {
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
  const { clock, fedAtMs, log } = feeding(hang, { name: 'other', answers() {} });
  await clock.pass(90_000);
  assert.deepEqual([fedAtMs, asked], [[], 1]);
  assert.deepEqual(log, [
    'error watchdog: not fed, one does not answer who="the log worker" why="no answer within 20000 ms"',
  ]);
  release?.();
  await clock.pass(1_000);
  assert.equal(fedAtMs.length, 1);
  assert.equal(log.at(-1), 'info watchdog: it answers again who="the log worker"');
});

test('the watchdog: a check that hangs for less than the interval costs no life: it is fed in time', async () => {
  let from: number | undefined;
  const { clock, fedAtMs } = feeding({
    name: 'slow',
    answers() {
      from ??= clock.monoMs();
      const untilMs = from + 35_000;
      if (clock.monoMs() >= untilMs) return undefined;
      return new Promise((resolve) => void clock.timer(untilMs - clock.monoMs(), resolve));
    },
  });
  await clock.pass(120_000);
  const gaps = fedAtMs.map((at, i) => at - (fedAtMs[i - 1] ?? 0));
  assert.ok(Math.max(...gaps) < INTERVAL_MS, `fed at ${fedAtMs.join()}`);
});

test('the watchdog: one that is known to be down starves it, with the reason', async () => {
  const { clock, fedAtMs, log } = feeding({
    name: 'the planner',
    answers() {
      throw new Error('it has not turned for 200 s');
    },
  });
  await clock.pass(40_000);
  assert.deepEqual(fedAtMs, []);
  assert.deepEqual(log, [
    'error watchdog: not fed, one does not answer who="the planner" why="it has not turned for 200 s"',
  ]);
});

test('the watchdog: a stop ends it, also while a check is asked', async () => {
  let release: (() => void) | undefined;
  const check: Check = { name: 'late', answers: () => new Promise((resolve) => (release = resolve)) };
  const { clock, fedAtMs, log, watchdog } = feeding(check);
  watchdog.stop();
  release?.();
  await clock.pass(INTERVAL_MS);
  assert.deepEqual([fedAtMs, log, clock.pendingTimers], [[], [], 0]);
});

test('the watchdog: a stop does not wait for a check that hangs', async () => {
  const { clock, fedAtMs, log, watchdog } = feeding({ name: 'hangs', answers: () => new Promise(() => {}) });
  await aTurn();
  watchdog.stop();
  await aTurn();
  assert.deepEqual([fedAtMs, log, clock.pendingTimers], [[], [], 0]);
});
