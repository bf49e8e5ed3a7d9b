/** A Session on a USB adapter of the emulated box, which is the test itself: what an emulated UART never has. */
import assert from 'node:assert/strict';
import { RemotePort } from '../../src/cli/port/remote-port.ts';
import { FlowControl } from '../../src/line/port/line-config.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { lineside } from '../../src/shared/proto/services.ts';
import type { Client } from '../e2e/daemon.ts';
import { startSeeing } from '../e2e/python.ts';
import { startRfc2217 } from './uart-session.ts';
import type { Input, UsbAdapter } from './usb-adapter.ts';

/** Under emulation what takes a millisecond may take seconds. */
const ANSWER_MS = 30_000;
const [NO_PARITY, EVEN] = [0, 1];
const [ONE_STOP, TWO_STOP] = [0, 2];
const { PARITY, FRAMING, BREAK, OVERRUN } = lineside.v1.LineError.Fault;

/** What the stream brought, each with the number of bytes before it. */
class Seen {
  bytes = Buffer.alloc(0);
  readonly errors: (readonly [kind: number, offset: number, count: number])[] = [];
  readonly inputs: (readonly [lines: string, changes: string, offset: number])[] = [];

  event({ lineErrors, modemLines }: lineside.v1.LineEvent): void {
    for (const { kind, offset, count } of lineErrors?.errors ?? [])
      this.errors.push([kind, this.bytes.length + offset, count]);
    const { lines, changes } = modemLines ?? {};
    if (lines != null) this.inputs.push([named(lines), named(changes ?? {}), this.bytes.length]);
  }
}

/** Those that are not off or 0. */
function named(lines: object): string {
  const inputs = ['cts', 'dsr', 'dcd', 'ri'] as const;
  const values = lines as Readonly<Partial<Record<Input, boolean | number>>>;
  return inputs
    .flatMap((name) => (values[name] ? [`${name}${values[name] === true ? '' : ` ${values[name]}`}`] : []))
    .join(' ');
}

/** The port is open at 9,600 8N1. */
export async function tryAdapterSession(client: Client, adapter: UsbAdapter): Promise<void> {
  const seen = new Seen();
  const port = new RemotePort(client.line, {
    received: (bytes) => {
      seen.bytes = Buffer.concat([seen.bytes, bytes]);
    },
    event: (event) => seen.event(event),
  });
  port.receive({ modemLines: true });
  await port.hold();
  await trySetting(port, adapter);
  await tryErrors(port, adapter, seen);
  await tryInputs(adapter, seen);
  await port.end();
}

async function trySetting(port: RemotePort, adapter: UsbAdapter): Promise<void> {
  const begin = adapter.acts.length;
  // So slow that an emulated machine under load sees the transmitter busy.
  await port.command({ settings: { baudRate: 300, dataBits: 7, parity: EVEN, stopBits: ONE_STOP } });
  await port.send(Buffer.from('0123456789'));
  await port.command({ drain: {} });
  assert.ok(!adapter.isTransmitting, 'drain is answered when all has left the adapter');
  await port.send(Buffer.from('abcdef'));
  await port.command({
    settings: { baudRate: 19_200, dataBits: 8, parity: NO_PARITY, stopBits: TWO_STOP, drain: true },
  });
  await port.command({ modemLines: { dtr: false } });
  await port.command({ modemLines: { rts: false } });
  await port.command({ modemLines: { dtr: true, rts: true } });
  await port.send(Buffer.from('f0'));
  await port.command({ break: true });
  await port.command({ break: false });
  await port.command({ settings: { flowControl: FlowControl.rtscts, baudRate: 9_600, stopBits: ONE_STOP } });
  const settings =
    '7E1, 300 baud, "0123456789abcdef", 8N2, 19200 baud, DTR off, RTS off, DTR on, RTS on, "f0", break, break ends';
  const said = adapter.acts.slice(begin).map(({ what }) => what);
  assert.equal(said.join(', '), `${settings}, 8N1, 9600 baud, flow control RTS/CTS`);
  await port.command({ settings: { flowControl: FlowControl.none } });
}

async function tryErrors(port: RemotePort, adapter: UsbAdapter, seen: Seen): Promise<void> {
  await port.command({ lineErrors: true });
  const line: readonly (readonly [text: string, fault?: Parameters<UsbAdapter['receive']>[1]])[] = [
    ['ab'],
    ['c', 'parity'],
    ['de'],
    ['fgh', 'framing'],
    ['i'],
    ['\0', 'break'],
    ['j'],
    ['\xff', 'parity'],
    ['\xffk'],
    ['l', 'overrun'],
    ['m'],
  ];
  for (const [text, fault] of line) {
    const length = seen.bytes.length + text.length;
    adapter.receive(Buffer.from(text, 'latin1'), fault);
    await until(`${JSON.stringify(text)} is read`, () => seen.bytes.length >= length, ANSWER_MS);
  }
  assert.equal(seen.bytes.toString('latin1'), 'abcdefghi\0j\xff\xffklm');
  assert.deepEqual(seen.errors, [
    [PARITY, 2, 1],
    [FRAMING, 5, 3],
    [BREAK, 9, 1],
    [PARITY, 11, 1],
    [OVERRUN, 14, 1],
  ]);
  await port.command({ lineErrors: false });
}

async function tryInputs(adapter: UsbAdapter, seen: Seen): Promise<void> {
  assert.deepEqual(seen.inputs.splice(0), [['', '', 0]], 'the lines as they are come first');
  const begin = seen.bytes.length;
  const expected: typeof seen.inputs = [];
  const change = async (name: Input, on: boolean, lines: string): Promise<void> => {
    adapter.setInput(name, on);
    await until(`${name} is seen`, () => seen.inputs.length > expected.length, ANSWER_MS);
    expected.push([lines, `${name} 1`, seen.bytes.length]);
    adapter.receive(Buffer.from('.'));
    await until('the byte behind it', () => seen.bytes.length === begin + expected.length, ANSWER_MS);
  };
  await change('cts', true, 'cts');
  await change('dsr', true, 'cts dsr');
  await change('dcd', true, 'cts dsr dcd');
  await change('ri', true, 'cts dsr dcd ri');
  await change('cts', false, 'dsr dcd ri');
  assert.deepEqual(seen.inputs, expected);
  adapter.setInput('ri', false);
  adapter.setInput('ri', true);
  const edges = (): number[] =>
    seen.inputs.slice(expected.length).map(([, changes]) => Number(/^ri (\d)$/.exec(changes)?.[1]));
  await until('both edges of a short pulse', () => edges().reduce((sum, count) => sum + count, 0) === 2, ANSWER_MS);
}

/** CTS, DSR, RI and CD of pyserial follow those of the adapter, which are as tryAdapterSession() leaves them. */
export async function tryAdapterInputs(adapter: UsbAdapter, connection: readonly string[]): Promise<void> {
  const { serving, url } = await startRfc2217(connection);
  const program = startSeeing('rfc2217_lines.py', url);
  assert.deepEqual(await program.seen(0), { lines: [false, true, true, true] });
  adapter.setInput('cts', true);
  assert.deepEqual(await program.seen(1), { lines: [true, true, true, true] });
  adapter.setInput('dcd', false);
  assert.deepEqual(await program.seen(2), { lines: [true, true, true, false] });
  program.child.kill();
  await serving.end();
}
