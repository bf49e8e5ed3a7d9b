import assert from 'node:assert/strict';
import { test } from 'node:test';
import { statusNumbers } from '../../shared/proto/line-status.ts';
import { lineside } from '../../shared/proto/services.ts';
import { intervalOf } from './interval.ts';

interface Answered {
  readonly uptimeMs: number;
  readonly portState?: number;
  readonly currentPortName?: string;
  readonly counters?: object;
  readonly kernel?: object;
}

const between = (before: Answered, now: Answered) => intervalOf(answer(before), answer(now));

function answer({ portState = 3, currentPortName = '', ...rest }: Answered) {
  return statusNumbers(lineside.v1.LineStatus.fromObject({ portState, currentPortName, ...rest }));
}

test('the interval has what came since the answer before', () => {
  const before = { rxBytes: 100, txBytes: 5, rxDroppedPackets: 1, losses: 1, txFailedPackets: 2 };
  const now = { rxBytes: 350, txBytes: 5, rxDroppedPackets: 4, losses: 3, txFailedPackets: 3 };
  assert.deepEqual(between({ uptimeMs: 1, counters: before }, { uptimeMs: 2, counters: now, portState: 4 }), {
    rxBytes: 250,
    txBytes: 0,
    rxDroppedPackets: 3,
    errors: 1,
    reconnects: 2,
    isOpen: false,
  });
});

test('errors are those of the driver and packets that failed, not breaks', () => {
  const kernel = { frame: 1, overrun: 1, parity: 1, brk: 1, bufOverrun: 1, rx: 9, tx: 9 };
  const more = { frame: 2, overrun: 3, parity: 4, brk: 50, bufOverrun: 5, rx: 90, tx: 90 };
  assert.equal(between({ uptimeMs: 1, kernel }, { uptimeMs: 2, kernel: more }).errors, 10);
  // The adapter was plugged in again: its driver counts from 0.
  const again = { ...kernel, frame: 0, overrun: 2 };
  assert.equal(between({ uptimeMs: 2, kernel: more }, { uptimeMs: 3, kernel: again }).errors, 4);
  assert.equal(between({ uptimeMs: 3, kernel }, { uptimeMs: 4 }).errors, 0, 'no driver that counts');
});

test('the counts of a driver from before its port was opened are not part of the interval', () => {
  const kernel = { frame: 900, overrun: 50, parity: 0, brk: 0, bufOverrun: 0 };
  const first = { uptimeMs: 2, kernel, currentPortName: '/dev/ttyUSB0' };
  const other = { uptimeMs: 4, kernel: { ...kernel, frame: 5_000 }, currentPortName: '/dev/ttyUSB1' };
  assert.equal(between({ uptimeMs: 1, portState: 1 }, first).errors, 0);
  assert.equal(between(first, other).errors, 0);
});

test('a line that was started again has counted since then, also if it is further already', () => {
  const before = { uptimeMs: 1_000_000, counters: { rxBytes: 100, txBytes: 100 } };
  const { rxBytes, txBytes } = between(before, { uptimeMs: 4_000, counters: { rxBytes: 700, txBytes: 30 } });
  assert.deepEqual([rxBytes, txBytes], [700, 30]);
});
