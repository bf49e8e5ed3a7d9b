import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { lineside } from '../../../shared/proto/services.ts';
import { startLineHistory } from './line-history.ts';

interface Said {
  uptimeMs: number;
  portState?: number;
  currentPortName?: string;
  rxBytes?: number;
  txBytes?: number;
  rxDroppedPackets?: number;
  txFailedPackets?: number;
  kernel?: object;
}

/** A history that asks a line of which the test says what it says; undefined: it does not answer. */
function sample(t: TestContext) {
  const clock = new FakeClock();
  let said: Said | undefined;
  let asked = 0;
  const status = async (): Promise<lineside.v1.LineStatus> => {
    asked += 1;
    if (said === undefined) throw new Error('unreachable');
    const { uptimeMs, portState = 3, currentPortName = '', kernel, ...counters } = said;
    return lineside.v1.LineStatus.fromObject({
      uptimeMs,
      portState,
      currentPortName,
      counters,
      ...(kernel !== undefined && { kernel }),
    });
  };
  const history = startLineHistory(status, clock);
  t.after(() => history.stop());
  /** What the line says when it is asked next, ten seconds later. */
  const next = async (now: Said | undefined): Promise<void> => {
    said = now;
    const before = asked;
    await holds(() => clock.pendingTimers === 1);
    clock.advance(10_000);
    await holds(() => asked > before && clock.pendingTimers === 1);
  };
  return { next, samples: () => history.samples().samples.map((one) => one.join(' ')), history, clock };
}

/** Nothing is waited for but turns of the loop; the limit of the test is the limit. */
async function holds(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

test('each sample is what came in its interval, with its age', async (t) => {
  const { next, samples, history, clock } = sample(t);
  assert.deepEqual(history.samples(), { intervalS: 10, samples: [] });
  await next({ uptimeMs: 1_000, rxBytes: 100, txBytes: 5, rxDroppedPackets: 1 });
  assert.deepEqual(samples(), []);
  await next({ uptimeMs: 11_000, rxBytes: 350, txBytes: 5, rxDroppedPackets: 4 });
  await next({ uptimeMs: 21_000, rxBytes: 350, txBytes: 7, rxDroppedPackets: 4, portState: 4 });
  clock.advance(4_000);
  assert.deepEqual(samples(), ['14 250 0 3 0 1', '4 0 2 0 0 0']);
});

test('errors are those of the line and of packets that failed, not breaks', async (t) => {
  const { next, samples } = sample(t);
  const kernel = { frame: 1, overrun: 1, parity: 1, brk: 1, bufOverrun: 1, rx: 9, tx: 9 };
  await next({ uptimeMs: 1, kernel, txFailedPackets: 1 });
  const more = { frame: 2, overrun: 3, parity: 4, brk: 50, bufOverrun: 5, rx: 90, tx: 90 };
  await next({ uptimeMs: 2, kernel: more, txFailedPackets: 6 });
  // The adapter was plugged in again: its driver counts from 0.
  await next({ uptimeMs: 3, kernel: { ...kernel, frame: 0, overrun: 2 }, txFailedPackets: 6 });
  // No driver that counts.
  await next({ uptimeMs: 4, txFailedPackets: 6 });
  assert.deepEqual(samples(), ['20 0 0 0 15 1', '10 0 0 0 4 1', '0 0 0 0 0 1']);
});

test('the counts of a driver from before its port was opened are not part of the interval', async (t) => {
  const { next, samples } = sample(t);
  const kernel = { frame: 900, overrun: 50, parity: 0, brk: 0, bufOverrun: 0 };
  await next({ uptimeMs: 1, portState: 1 });
  await next({ uptimeMs: 2, kernel, currentPortName: '/dev/ttyUSB0' });
  await next({ uptimeMs: 3, kernel: { ...kernel, frame: 901 }, currentPortName: '/dev/ttyUSB0' });
  // Another port, with a driver that has counted more.
  await next({ uptimeMs: 4, kernel: { ...kernel, frame: 5_000 }, currentPortName: '/dev/ttyUSB1' });
  assert.deepEqual(samples(), ['20 0 0 0 0 1', '10 0 0 0 1 1', '0 0 0 0 0 1']);
});

test('a line that was started again has counted since then, also where it is further already', async (t) => {
  const { next, samples } = sample(t);
  await next({ uptimeMs: 1_000_000, rxBytes: 100, txBytes: 100 });
  await next({ uptimeMs: 4_000, rxBytes: 700, txBytes: 30 });
  assert.deepEqual(samples(), ['0 700 30 0 0 1']);
});

test('while the line does not answer there is no sample, and its counts of that time are in none', async (t) => {
  const { next, samples } = sample(t);
  await next({ uptimeMs: 1, rxBytes: 0 });
  await next({ uptimeMs: 2, rxBytes: 10 });
  await next(undefined);
  await next({ uptimeMs: 4, rxBytes: 5_000 });
  await next({ uptimeMs: 5, rxBytes: 5_020 });
  assert.deepEqual(samples(), ['30 10 0 0 0 1', '0 20 0 0 0 1']);
});

test('six hours are kept, and no more', async (t) => {
  const { next, history } = sample(t);
  for (let i = 0; i < 2_200; i += 1) await next({ uptimeMs: i, rxBytes: i });
  const { samples } = history.samples();
  assert.equal(samples.length, 2_160);
  assert.equal(samples[0]?.[0], 6 * 3_600 - 10);
});
