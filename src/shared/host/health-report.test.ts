import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as aTurn } from 'node:timers/promises';
import { FakeClock } from '../base/fake-clock.fixture.ts';
import { silentLogger } from '../base/logger.ts';
import { SystemdReport } from './health-report.ts';

function rig(listens = true) {
  const clock = new FakeClock();
  const said: string[] = [];
  const tell = (assignments: Readonly<Record<string, string>>): void => {
    const shown = Object.entries(assignments).filter(([name]) => name !== 'MONOTONIC_USEC');
    said.push(shown.map(([name, value]) => `${name}=${value}`).join(' '));
  };
  const notifier = listens ? { watchdogIntervalMs: 60_000, tell } : undefined;
  const report = new SystemdReport({ notifier, clock, logger: silentLogger });
  const pass = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0; left -= 1_000) {
      clock.advance(1_000);
      await aTurn();
    }
  };
  return { clock, said, report, pass };
}

test('stages, readiness with the first status, then what changes, every few seconds at most', async () => {
  const { said, report, pass } = rig();
  let status = 'open a';
  report.stage('checking refdata.db');
  await report.up({ status: () => status, checks: [] });
  await aTurn();
  assert.deepEqual(said.splice(0), [
    'STATUS=checking refdata.db EXTEND_TIMEOUT_USEC=300000000',
    'READY=1 STATUS=open a',
    'WATCHDOG=1',
  ]);
  await pass(15_000);
  assert.deepEqual(said, []);
  status = 'lost a';
  await pass(5_000);
  assert.deepEqual(said.splice(0), ['WATCHDOG=1', 'STATUS=lost a']);
  status = 'open b';
  await pass(1_000);
  assert.deepEqual(said, [], 'not with every change');
  await pass(4_000);
  assert.deepEqual(said, ['STATUS=open b']);
});

test('a remark of a reload stays until the next one', async () => {
  const { said, report, pass } = rig();
  let status = 'open a';
  await report.up({ status: () => status, checks: [] });
  await aTurn();
  said.length = 0;
  report.reloading();
  await report.reloaded('CONFIGURATION FAULTY');
  status = 'open b';
  await pass(5_000);
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
  const { said, report, pass } = rig();
  let isBroken = true;
  const status = async (): Promise<string> => {
    if (isBroken) throw new Error('disk I/O error');
    return 'well';
  };
  await report.up({ status, checks: [] });
  isBroken = false;
  await pass(5_000);
  assert.deepEqual([said[0], said.at(-1)], ['READY=1 STATUS=its state is unknown: disk I/O error', 'STATUS=well']);
});

test('with the stop it goes quiet', async () => {
  const { clock, said, report, pass } = rig();
  let asked = 0;
  await report.up({ status: () => `asked ${++asked}`, checks: [] });
  await aTurn();
  said.length = 0;
  report.stopping(45_000);
  await pass(120_000);
  assert.deepEqual([said, clock.pendingTimers], [['STOPPING=1 STATUS=stopping EXTEND_TIMEOUT_USEC=45000000'], 0]);
});

test('asks for nothing where nobody listens', async () => {
  const { clock, said, report } = rig(false);
  const status = (): string => assert.fail('asked');
  await report.up({ status, checks: [] });
  await report.reloaded('x');
  assert.deepEqual([said, clock.pendingTimers], [[], 0]);
});
