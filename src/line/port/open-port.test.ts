import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configOf } from './line.fixture.ts';
import type { Device } from './linux/tty.ts';
import { type ModemState, OpenPort } from './open-port.ts';
import type { Traffic } from './traffic.ts';

const counted = { cts: 0, dsr: 0, dcd: 0, ri: 0 };

function looksOf(isUsb: boolean, count: number, changes: () => object | undefined = () => counted): number[] {
  let asked = 0;
  const device = { isUsb, modemChanges: changes, modemLines: () => asked++ } as unknown as Device;
  const port = new OpenPort(device, {} as Traffic, configOf('/dev/a'), () => undefined);
  let state: ModemState | undefined;
  return Array.from({ length: count }, () => {
    state = port.modemState(state);
    return asked;
  });
}

test('the lines of a UART are asked for at each look: its driver counts no change without flow control', () => {
  assert.deepEqual(looksOf(false, 4), [1, 2, 3, 4]);
});

test('the lines of a USB adapter are asked for after a counted change, else at each tenth look', () => {
  assert.deepEqual(looksOf(true, 12), [...Array.from({ length: 10 }, () => 1), 2, 2]);
  let cts = 0;
  assert.deepEqual(
    looksOf(true, 3, () => ({ ...counted, cts: cts++ })),
    [1, 2, 3],
  );
  assert.deepEqual(
    looksOf(true, 3, () => undefined),
    [1, 2, 3],
  );
});
