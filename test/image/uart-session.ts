/** A Session on the PL011 of the emulated box: what is asked for, against what the UART was made to do. */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { RemotePort } from '../../src/cli/port/remote-port.ts';
import { FlowControl } from '../../src/line/port/line-config.ts';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import { lineside, serial } from '../../src/shared/proto/services.ts';
import type { Client } from '../e2e/daemon.ts';
import { openPort } from '../e2e/faults.ts';
import { startSeeing } from '../e2e/python.ts';
import { startCli } from '../e2e/run-cli.ts';
import type { QemuBox } from './box.ts';
import type { UartAct } from './uart.ts';

type Uart = Pick<QemuBox, 'uartActs' | 'uartSend' | 'uartReceived' | 'control'>;

const [XON, XOFF] = [Buffer.from([0x11]), Buffer.from([0x13])];
const BREAK_MS = 150;
/** Under emulation an answer may take seconds; a service that the kernel holds gives none. */
const ANSWER_MS = 30_000;
const [NO_PARITY, EVEN] = [0, 1];
const [ONE_STOP, TWO_STOP] = [0, 2];

/** Every framing that a PL011 has: as the line reports it, and as the UART was told. The port is 115,200 8N1 afterwards. */
export async function tryFramings(client: Client, uart: Uart, portName: string): Promise<string> {
  const { PARITY_EVEN, PARITY_ODD, PARITY_MARK, PARITY_SPACE, PARITY_NONE } = serial.Parity;
  const { STOPBITS_ONE, STOPBITS_ONE_POINT_FIVE, STOPBITS_TWO } = serial.StopBits;
  const framings = [
    [8, PARITY_NONE, STOPBITS_ONE, '8N1'],
    [7, PARITY_EVEN, STOPBITS_ONE, '7E1'],
    [8, PARITY_ODD, STOPBITS_TWO, '8O2'],
    [7, PARITY_ODD, STOPBITS_TWO, '7O2'],
    [8, PARITY_MARK, STOPBITS_ONE, '8M1'],
    [8, PARITY_SPACE, STOPBITS_ONE, '8S1'],
    [5, PARITY_NONE, STOPBITS_ONE, '5N1'],
    [6, PARITY_NONE, STOPBITS_TWO, '6N2'],
  ] as const;
  const effective = async () => (await client.line.getStatus({})).effective;
  for (const [dataBits, parity, stopBits, name] of framings) {
    await openPort(client, portName, { dataBits, parity, stopBits, baudRate: 9600 });
    const shown = await effective();
    assert.deepEqual(
      [shown?.dataBits, shown?.parity, shown?.stopBits, shown?.unverified],
      [dataBits, parity, stopBits, false],
    );
    // A port that is opened again begins with the 9600 8N1 of the kernel.
    assert.equal(uart.uartActs().findLast(({ what }) => /^\d+ \d[A-Z]\d$/.test(what))?.what, `9600 ${name}`);
  }
  // Refused, and the port stays as it was.
  const wrong = { portName, baudRate: 9600, dataBits: 5, stopBits: STOPBITS_ONE_POINT_FIVE };
  assert.equal((await client.serial.open(wrong)).status, serial.StatusCode.INVALID_ARGUMENT);
  assert.equal((await effective())?.dataBits, 6);
  await openPort(client, portName);
  return framings.map(([, , , name]) => name).join(', ');
}

/** The port is open at 115,200 8N1. */
export async function trySession(client: Client, uart: Uart): Promise<void> {
  const received: number[] = [];
  const events: lineside.v1.LineEvent[] = [];
  const port = new RemotePort(client.line, {
    received: (bytes) => void received.push(...bytes),
    event: (event) => void events.push(event),
  });
  port.receive({ modemLines: true });
  const status = () => within('the status', client.line.getStatus({}), ANSWER_MS);
  await port.hold();
  const begin = uart.uartActs().length;
  const acts = (): UartAct[] => uart.uartActs().slice(begin);
  const said = (): string[] => acts().map(({ what }) => what);

  await port.command({ settings: { baudRate: 9_600, dataBits: 7, parity: EVEN, stopBits: ONE_STOP } });
  await port.send(Buffer.from('7'));
  await port.command({
    settings: { baudRate: 19_200, dataBits: 8, parity: NO_PARITY, stopBits: TWO_STOP, drain: true },
  });
  await port.command({ modemLines: { dtr: false } });
  await port.command({ modemLines: { rts: false } });
  await port.command({ modemLines: { dtr: true, rts: true } });
  const sent = port.send(Buffer.from('f0f0'));
  const broken = port.command({ break: true });
  await Promise.all([sent, broken]);
  // To ask for line errors sets something of the driver, which ends a break: it goes on.
  await port.command({ lineErrors: true });
  await sleep(BREAK_MS);
  await port.command({ break: false });
  const before = uart.uartReceived().length;
  await Promise.all([port.send(Buffer.from('0123456789')), port.command({ drain: {} })]);
  assert.equal(uart.uartReceived().length, before + 10, 'drain is answered when all has left the UART');

  // A line that is held by XOFF holds nobody else.
  await port.command({ settings: { flowControl: FlowControl.xonxoff } });
  const counted = async (name: 'rx' | 'brk') => (await status()).kernel?.[name] ?? 0;
  const [rx, breaks] = [await counted('rx'), await counted('brk')];
  uart.uartSend(XOFF);
  await until('the driver has XOFF', async () => (await counted('rx')) > rx, ANSWER_MS);
  await port.send(Buffer.from('dddd'));
  await port.command({ purge: { transmit: true } });
  await port.send(Buffer.from('abc'));
  const waiting = port.command({ break: true });
  const ended = port.command({ break: false });
  await sleep(500);
  await status();
  assert.equal(uart.uartReceived().length, before + 10, 'XOFF holds what was sent');
  uart.uartSend(XON);
  await within('the break behind XON', Promise.all([waiting, ended]), ANSWER_MS);
  assert.deepEqual(received, [], 'XON and XOFF are no data');

  await uart.control('chardev-send-break', { id: 'uart' });
  await until('a break is counted', async () => (await counted('brk')) === breaks + 1, ANSWER_MS);
  await until('it is read', () => received.length === 1, ANSWER_MS);
  uart.uartSend(Buffer.from([0xff, 0x61]));
  await until('what follows', () => received.length === 3, ANSWER_MS);
  assert.deepEqual(received, [0, 0xff, 0x61]);
  const errors = events.flatMap(({ lineErrors }) => lineErrors?.errors ?? []);
  const { BREAK } = lineside.v1.LineError.Fault;
  assert.deepEqual(
    errors.map(({ kind, offset, count }) => [kind, offset, count]),
    [[BREAK, 0, 1]],
  );
  await port.command({ lineErrors: false });
  await port.end();
  await client.line.sendBreak({ durationMs: BREAK_MS });
  const beforeXoff =
    '9600 7E1, "7", 19200 8N2, DTR off, RTS off, DTR on, RTS on, "f0f0", break, break ends, break, break ends';
  const behindXon = '"0123456789abc", break, break ends, 115200 8N1, break, break ends';
  assert.equal(said().join(', '), `${beforeXoff}, ${behindXon}`);
  const at = acts().flatMap(({ what, atMs }) => (what.startsWith('break') ? [atMs] : []));
  const [held, , timed] = [2, 4, 6].map((n) => (at[n + 1] ?? 0) - (at[n] ?? 0));
  for (const lasted of [held, timed]) assert.ok((lasted ?? 0) > BREAK_MS - 10, `a break of ${lasted} ms`);
  const { lines } = events.findLast(({ modemLines }) => modemLines != null)?.modemLines ?? {};
  assert.notEqual(lines, undefined, 'the modem lines as they are come first');
}

/** `connection`: options of the command. */
export async function startRfc2217(connection: readonly string[]) {
  const serving = startCli(['rfc2217', '--listen', ':0', ...connection]);
  const url = await until('it listens', () => {
    assert.equal(serving.stderr(), '');
    return /rfc2217:\S+/.exec(serving.stdout())?.[0];
  });
  return { serving, url };
}

export async function tryReset(uart: Uart, connection: readonly string[]): Promise<void> {
  const begin = uart.uartActs().length;
  const { serving, url } = await startRfc2217(connection);
  await startSeeing('rfc2217_reset.py', url).seen(0);
  const acts = await until('the byte behind it', () => {
    const so = uart.uartActs().slice(begin);
    return so.at(-1)?.what === '"7"' && so;
  });
  await serving.end();
  const again = ['RTS on', 'DTR on', 'RTS off', 'DTR off'];
  assert.deepEqual(
    acts.map(({ what }) => what),
    ['DTR off', ...again.slice(1), ...again, '"7"'],
  );
  const at = (n: number): number => acts[n]?.atMs ?? 0;
  // The device's reset is held, and the choice of what it starts, for as long as the tool means at least.
  for (const [from, to, leastMs] of [
    [0, 1, 100],
    [2, 3, 50],
    [4, 5, 100],
    [6, 7, 50],
  ] as const)
    assert.ok(at(to) - at(from) > leastMs - 10, JSON.stringify(acts));
}
