/** The hub's supervisor on real processes that stand for it; the whole is tested in test/e2e. */

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { FakeClock } from '../shared/base/fake-clock.fixture.ts';
import { recordingLogger } from '../shared/base/logger.fixture.ts';
import { temporaryDirectory } from '../shared/base/temporary.fixture.ts';
import { until } from '../shared/base/wait.fixture.ts';
import { HubChild } from './hub-child.ts';

function supervise(t: TestContext, command: readonly [string, ...string[]]) {
  const dir = temporaryDirectory(t);
  const clock = new FakeClock();
  const { logger, lines: logged } = recordingLogger();
  const hub = new HubChild({ command, dataDir: dir, stopLimitMs: 10_000, clock, logger });
  t.after(() => hub.stop());
  const saw = (pattern: RegExp, times = 1) =>
    until(`${pattern} ${times} times`, () => logged.filter((line) => pattern.test(line)).length >= times);
  return { hub, dir, clock, logged, saw };
}

test('a program that cannot be started is tried again, later each time', async (t) => {
  const { hub, clock, saw } = supervise(t, ['/nonexistent/lineside']);
  hub.start();
  await saw(/the hub ended and is started again .*ENOENT/);
  clock.advance(999);
  assert.equal(clock.pendingTimers, 1, 'it waits still');
  clock.advance(1);
  await saw(/ENOENT/, 2);
  clock.advance(1_999);
  assert.equal(clock.pendingTimers, 1, 'it waits still');
  clock.advance(1);
  await saw(/ENOENT/, 3);
  await hub.stop();
  assert.equal(clock.pendingTimers, 0);
});

test('stopped before it was started, it starts nothing', async (t) => {
  const { hub, logged } = supervise(t, ['sleep', '60']);
  hub.start();
  await hub.stop();
  assert.deepEqual(logged, []);
});

test('a process id that means another program by now is let be', async (t) => {
  const { hub, dir, saw, logged } = supervise(t, ['sleep', '60']);
  // This very process: were it taken for a hub, the test would end here.
  writeFileSync(join(dir, 'hub.lock'), `${process.pid}\n`);
  hub.start();
  await saw(/hub started/);
  assert.equal(logged.length, 1);
  assert.equal(readFileSync(join(dir, 'hub.lock'), 'utf8'), `${process.pid}\n`);
  await hub.stop();
});

test('one that ran for a minute is restarted within a second, each time', async (t) => {
  const { hub, clock, logged, saw } = supervise(t, ['sleep', '60']);
  hub.start();
  for (const life of [1, 2, 3]) {
    await saw(/hub started/, life);
    clock.advance(60_000);
    process.kill(Number(/pid=(\d+)/.exec(logged.at(-1) ?? '')?.[1]), 'SIGKILL');
    await saw(/the hub ended and is started again .*SIGKILL.*60/, life);
    clock.advance(1_000);
  }
});
