import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type DataBits, Parity, StopBits } from '../settings.ts';
import { checkSettings } from './check-settings.ts';

interface Row {
  readonly driver: string;
  readonly isPty: boolean;
  readonly dataBits: DataBits;
  readonly stopBits: StopBits;
  /** undefined: goes through. */
  readonly refused: RegExp | undefined;
}

const { one, onePointFive, two } = StopBits;
const row = (driver: string, dataBits: DataBits, stopBits: StopBits, refused?: RegExp): Row => ({
  driver,
  isPty: false,
  dataBits,
  stopBits,
  refused,
});
const rows: readonly Row[] = [
  row('serial8250', 5, onePointFive),
  row('serial', 5, onePointFive),
  row('bcm2835-aux-uart', 5, onePointFive),
  row('pl2303', 5, onePointFive),
  row('ch341-uart', 5, onePointFive),
  row('uart-pl011', 5, onePointFive, /uart-pl011/),
  row('ftdi_sio', 5, onePointFive, /ftdi_sio/),
  row('', 5, onePointFive, /unknown/),
  row('serial8250', 8, onePointFive, /only with 5 data bits, asked 8/),
  row('serial8250', 5, two, /sends 1\.5/),
  row('uart-pl011', 5, two),
  row('serial8250', 6, two),
  row('serial8250', 5, one),
  { ...row('pty_slave', 5, onePointFive), isPty: true },
  { ...row('pty_slave', 7, onePointFive, /only with 5/), isPty: true },
];

for (const { driver, isPty, dataBits, stopBits, refused } of rows)
  test(`driver "${driver}", ${dataBits} data bits, stop bits ${stopBits}: ${refused ? 'refused' : 'goes through'}`, () => {
    const call = (): void =>
      checkSettings(
        { devicePath: '/dev/ttyX', driver, isPty },
        { baudRate: 9600, dataBits, parity: Parity.none, stopBits },
      );
    if (refused === undefined) call();
    else assert.throws(call, { code: 'SETTING_REFUSED', message: refused });
  });
