/** The hub's supervisor on real processes that stand for it, and its table of states; the whole is tested in test/e2e. */

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { FakeClock } from '../shared/base/fake-clock.fixture.ts';
import { recordingLogger } from '../shared/base/logger.fixture.ts';
import { temporaryDirectory } from '../shared/base/temporary.fixture.ts';
import { until } from '../shared/base/wait.fixture.ts';
import { HubChild, type HubEvent, type HubState, initialHub, stepHub } from './hub-child.ts';

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
  const { hub, clock, saw, logged } = supervise(t, ['/nonexistent/lineside']);
  hub.start();
  await saw(/the hub ended and is started again .*ENOENT/);
  clock.advance(999);
  assert.equal(logged.length, 1);
  clock.advance(1);
  await saw(/ENOENT/, 2);
  clock.advance(1_999);
  assert.equal(logged.length, 2);
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

const running: HubState = { name: 'running', failures: 3, sinceMs: 1_000 };
const stopping: HubState = { name: 'stopping' };
const killing: HubState = { name: 'killing' };
const ended: HubState = { name: 'ended' };

/** Every pair of state and event; undefined: nothing happens. At 2,000 ms. */
const table: [HubState, Record<HubEvent, [HubState, ...object[]] | undefined>][] = [
  [
    initialHub,
    {
      due: [{ name: 'running', failures: 0, sinceMs: 2_000 }, { kind: 'spawn' }],
      exited: undefined,
      stop: [ended, { kind: 'end' }],
      overdue: undefined,
    },
  ],
  [
    running,
    {
      due: undefined,
      exited: [
        { name: 'waiting', failures: 4 },
        { kind: 'wait', ms: 8_000 },
      ],
      stop: [stopping, { kind: 'terminate' }],
      overdue: undefined,
    },
  ],
  [
    stopping,
    { due: undefined, exited: [ended, { kind: 'end' }], stop: undefined, overdue: [killing, { kind: 'kill' }] },
  ],
  [killing, { due: undefined, exited: [ended, { kind: 'end' }], stop: undefined, overdue: undefined }],
  [ended, { due: undefined, exited: undefined, stop: undefined, overdue: undefined }],
];

for (const [state, row] of table) {
  for (const [event, expected] of Object.entries(row)) {
    test(`${state.name}, ${event}: ${expected === undefined ? 'nothing' : expected[0].name}`, () => {
      const [next, ...effects] = expected ?? [state];
      assert.deepEqual(stepHub(state, event as HubEvent, 2_000), { state: next, effects });
    });
  }
}

/** The waits before each start of a hub that lives for `livesMs` each time. */
function waits(livesMs: number, times: number): number[] {
  const found: number[] = [];
  let state = initialHub;
  for (let at = 0; found.length < times; at += livesMs) {
    state = stepHub(state, 'due', at).state;
    const after = stepHub(state, 'exited', at + livesMs);
    for (const effect of after.effects) if (effect.kind === 'wait') found.push(effect.ms);
    state = after.state;
  }
  return found;
}

test('one that dies young is restarted later each time, up to a minute', () => {
  assert.deepEqual(waits(59_999, 9), [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
});

test('one that ran for a minute is restarted within a second, each time', () => {
  assert.deepEqual(waits(60_000, 3), [1_000, 1_000, 1_000]);
});
