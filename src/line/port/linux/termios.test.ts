import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CRTSCTS, decodeTermios, encodeTermios, type Termios } from '../../../shared/base/termios.ts';
import { type DataBits, type LineSettings, Parity, StopBits } from '../line-config.ts';
import { checkSettings, rawTermios, settingNotTaken, settingsOf } from './termios.ts';

const CSTOPB = 0o100;
const HUPCL = 0o2000;
const allBitsSet: Termios = {
  iflag: 0xffffffff,
  oflag: 0xffffffff,
  cflag: 0xffffffff,
  lflag: 0xffffffff,
  line: 0,
  cc: new Uint8Array(19).fill(7),
  ispeed: 1,
  ospeed: 2,
};
const dataBits: readonly DataBits[] = [5, 6, 7, 8];
const parities = Object.values(Parity);
const stops = Object.values(StopBits);
const eightNone: LineSettings = { baudRate: 9600, dataBits: 8, parity: 0, stopBits: 0, flowControl: 0 };

// PARENB, PARODD, CMSPAR and CSIZE as termios(3) gives them.
const parityBits: Readonly<Record<Parity, number>> = {
  [Parity.none]: 0,
  [Parity.even]: 0o400,
  [Parity.odd]: 0o1400,
  [Parity.mark]: 0o10000001400,
  [Parity.space]: 0o10000000400,
};

for (const bits of dataBits)
  for (const parity of parities)
    for (const stopBits of stops)
      test(`${bits} data bits, parity ${parity}, stop bits ${stopBits}: encoded and read back`, () => {
        const settings: LineSettings = { baudRate: 115_200, dataBits: bits, parity, stopBits, flowControl: 0 };
        const termios = rawTermios(settings, allBitsSet);
        assert.equal(termios.cflag & 0o60, (bits - 5) << 4);
        assert.equal((termios.cflag & 0o10000001400) >>> 0, parityBits[parity]);
        assert.equal((termios.cflag & CSTOPB) !== 0, stopBits !== StopBits.one);
        const again = decodeTermios(encodeTermios(termios));
        assert.deepEqual(again, termios);
        const onePointFive = stopBits === StopBits.onePointFive;
        const read = settingsOf(again, onePointFive);
        const exists = !onePointFive || bits === 5;
        assert.deepEqual(read, exists ? settings : { ...settings, stopBits: StopBits.two });
      });

test('whatever an earlier user left is cleared', () => {
  const termios = rawTermios(eightNone, allBitsSet);
  assert.equal(termios.iflag, 0);
  assert.equal(termios.oflag, 0);
  assert.equal(termios.lflag, 0);
  assert.equal(termios.cflag & HUPCL, 0);
  assert.equal((termios.cflag & CRTSCTS) >>> 0, 0);
  // 8 data bits, CREAD, CLOCAL, 9600.
  assert.equal(termios.cflag, 0o60 | 0o200 | 0o4000 | 0o15);
  assert.deepEqual([termios.cc[6], termios.cc[5], termios.cc[0]], [1, 0, 7]);
});

test('a standard rate keeps its code, any other is BOTHER with the number', () => {
  for (const baudRate of [50, 9600, 38_400, 57_600, 921_600, 4_000_000]) {
    const termios = rawTermios({ ...eightNone, baudRate }, allBitsSet);
    assert.notEqual(termios.cflag & 0o10017, 0o10000);
    assert.equal(settingsOf({ ...termios, ospeed: 0 }, false).baudRate, baudRate);
  }
  for (const baudRate of [1, 31_250, 250_000, 12_000_000]) {
    const termios = rawTermios({ ...eightNone, baudRate }, allBitsSet);
    assert.equal(termios.cflag & 0o10017, 0o10000);
    assert.equal(termios.ospeed, baudRate);
    assert.equal(settingsOf(termios, false).baudRate, baudRate);
  }
});

test('a setting that was not taken is named with what was asked and got', () => {
  const cases: readonly (readonly [Partial<LineSettings>, RegExp | undefined])[] = [
    [{}, undefined],
    [{ baudRate: 9_840 }, undefined],
    [{ baudRate: 9_360 }, undefined],
    [{ baudRate: 9_841 }, /baud rate: asked 9600, got 9841/],
    [{ baudRate: 9_359 }, /baud rate: asked 9600, got 9359/],
    [{ dataBits: 7 }, /data bits: asked 8, got 7/],
    [{ parity: Parity.mark }, /parity: asked none, got mark/],
    [{ stopBits: StopBits.two }, /stop bits: asked 1, got 2/],
  ];
  for (const [got, expected] of cases) {
    const said = settingNotTaken(eightNone, { ...eightNone, ...got });
    if (expected === undefined) assert.equal(said, undefined);
    else assert.match(said ?? '', expected);
  }
});

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
        { baudRate: 9600, dataBits, parity: Parity.none, stopBits, flowControl: 0 },
      );
    if (refused === undefined) call();
    else assert.throws(call, { code: 'SETTING_REFUSED', message: refused });
  });
