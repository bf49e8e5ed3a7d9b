/** The line as a serial port of a program: attach and rfc2217 beside the Session under them, and beside ser2net with RFC 2217. */
import { once } from 'node:events';
import { constants, openSync, writeSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { ReadStream } from 'node:tty';
import { negotiation, TelnetParser, telnetData } from '../../../src/cli/port/telnet.ts';
import { MAIN, NODE } from '../../e2e/daemon.ts';
import { cpuOf, lineReader, start, stop } from '../processes.ts';
import { expectedDigest, Receiver } from '../receiver.ts';
import { type LinesideStation, type Ser2net, type Station, startLineside, startRfc2217Ser2net } from '../stations.ts';
import { judge, type Line, type Row, shown } from '../table.ts';
import { byReceived, echoing, lines, type Route, route, Traveller } from './round-trip.ts';

const BAUD = 115_200;
const FAST_BAUD = 12_000_000;
const P50_AIM = 1.5;
const SIZES = [1, 64];
const COM_PORT = 44;
/** 12 Mbaud: ten bits a byte. */
const BYTES_PER_SECOND = FAST_BAUD / 10;
const WRITE_BYTES = 512;
const LIMIT_MS = 120_000;

/** What a program has of its port. */
interface Port {
  readonly name: string;
  readonly station: Station;
  /** The process on the program's side. */
  readonly pid: number;
  readonly send: (payload: Uint8Array) => void;
  readonly onBytes: (take: (bytes: Uint8Array) => void) => void;
  readonly close: () => Promise<void>;
}

/** The command, and the first line that it says. */
async function command(station: LinesideStation, ...args: readonly string[]) {
  const child = start(NODE, [MAIN, ...args, '--host', station.address]);
  const said = await lineReader(child.stdout)();
  if (said === undefined) throw new Error(`${args.join(' ')} ended at once`);
  return { child, said };
}

async function attached(station: LinesideStation): Promise<Port> {
  const { child, said } = await command(station, 'attach');
  const fd = openSync(said.split(' ')[0] ?? '', constants.O_RDWR | constants.O_NOCTTY | constants.O_NONBLOCK);
  const stream = new ReadStream(fd);
  // The terminal hangs up at the end.
  stream.on('error', () => {});
  return {
    name: 'attach',
    station,
    pid: child.pid,
    send: (payload) => void writeSync(fd, payload),
    onBytes: (take) => void stream.on('data', take),
    async close() {
      stream.destroy();
      await stop(child);
      await station.close();
    },
  };
}

async function served(station: LinesideStation): Promise<Port> {
  const { child, said } = await command(station, 'rfc2217', '--listen', '127.0.0.1:0');
  const socket = connect({ host: '127.0.0.1', port: Number(/:(\d+):/.exec(said)?.[1]), noDelay: true });
  await once(socket, 'connect');
  return telnetPort('rfc2217', station, child.pid, socket, async () => {
    await stop(child);
    await station.close();
  });
}

async function ser2netPort(station: Ser2net): Promise<Port> {
  return telnetPort(station.name, station, station.pid, await station.connect(), station.close);
}

function telnetPort(name: string, station: Station, pid: number, socket: Socket, end: () => Promise<void>): Port {
  const parser = new TelnetParser();
  socket.write(negotiation('will', COM_PORT));
  return {
    name,
    station,
    pid,
    send: (payload) => void socket.write(telnetData(payload)),
    onBytes: (take) =>
      void socket.on('data', (data: Buffer) => {
        for (const item of parser.push(data)) if (item.kind === 'data') take(item.bytes);
      }),
    async close() {
      socket.destroy();
      await end();
    },
  };
}

async function ports(baud: number): Promise<readonly Port[]> {
  const gapMs = undefined;
  return [
    await attached(await startLineside(baud, { gapMs })),
    await served(await startLineside(baud, { gapMs })),
    await ser2netPort(await startRfc2217Ser2net(baud)),
  ];
}

function routeOf({ name, station, send, onBytes, close }: Port): Promise<Route> {
  const traveller = new Traveller(send);
  onBytes((bytes) => traveller.arrived(bytes));
  return echoing({ ...station, name, close }, traveller, () => {});
}

export const localPort: Row = {
  name: 'port',
  async run({ quick, say }) {
    const session = await route(await startLineside(BAUD), byReceived);
    const [own, ...others] = await Promise.all((await ports(BAUD)).map(routeOf));
    if (own === undefined) throw new Error('nothing was started');
    const row = (size: string): string => `${size} over attach`;
    const judged = (p50: number) => ({ aim: `p50 within ${P50_AIM} x`, verdict: judge(p50 <= P50_AIM) });
    const routes = [own, { ...session, name: 'Session, received bytes' }, ...others];
    const trips = quick ? 400 : 4_000;
    const found = await lines(routes, trips, 'Session, received bytes', SIZES, row, judged);
    return [...found, await throughput(quick ? 2 : 10, say)];
  },
};

/** 12 Mbaud from the device for so long: every byte arrives, at what cost of the process on the program's side. */
async function throughput(seconds: number, say: (text: string) => void): Promise<Line> {
  const bytes = BYTES_PER_SECOND * seconds;
  const costs: string[] = [];
  for (const port of await ports(FAST_BAUD)) {
    const receiver = new Receiver();
    port.onBytes((data) => receiver.take(Buffer.from(data), 0, data.length));
    const { cpu } = await cpuOf(port.pid, () =>
      Promise.all([receiver.all(bytes, LIMIT_MS), port.station.driver.pace(bytes, WRITE_BYTES, BYTES_PER_SECOND)]),
    );
    if (receiver.digest() !== expectedDigest(bytes)) throw new Error(`${port.name}: other bytes arrived`);
    costs.push(`${port.name}: ${((cpu / seconds) * 100).toFixed(1)} %`);
    say(costs.at(-1) ?? '');
    await port.close();
  }
  const [own = '', ...others] = costs;
  const row = '12 Mbaud to a program, SHA-256 equal: CPU of the process that serves it';
  return { row, lineside: own, against: others.join('; '), ...shown('') };
}
