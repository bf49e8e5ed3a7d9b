/** From the call to the echo on the log: unary calls beside StreamLog, and the one stream of lineside.v1. */
import { Client, type ClientOptions, credentials } from '@grpc/grpc-js';
import {
  LineServiceDefinition,
  type lineside,
  SerialServiceDefinition,
  serial,
} from '../../../src/shared/proto/services.ts';
import { type Ser2net, type Station, startBare, startLineside, startSer2nets } from '../stations.ts';
import { inTurns, judge, type Line, quantile, type Row, times } from '../table.ts';

const BAUD = 115_200;
const { RX } = serial.SerialLogEntry.Direction;
/** Trips in a row before the other takes its turn: the machine's noise falls on both. */
const BLOCK = 200;
const UNARY_P50_AIM = 1.2;
const UNARY_P99_AIM = 1.5;
const SESSION_P50_AIM = 1.3;
const CONNECT_LIMIT_MS = 15_000;
const TRIP_LIMIT_MS = 5_000;
const SIZES = [1, 64];
/** serial.rx_gap_ms as it is shipped. */
const DEFAULT_GAP_MS = 2;

/** One trip at a time: sends, and waits until the same bytes have come back, in however many pieces. */
export class Traveller {
  readonly #send: (payload: Buffer) => void;
  #awaited: Buffer = Buffer.alloc(0);
  #got = 0;
  #back: PromiseWithResolvers<number> = Promise.withResolvers();
  #trips = 0;

  constructor(send: (payload: Buffer) => void) {
    this.#send = send;
  }

  /** Bytes that came from the line. */
  arrived(bytes: Uint8Array): void {
    const expected = this.#awaited.subarray(this.#got, this.#got + bytes.length);
    if (!expected.equals(bytes)) this.failed(new Error('the echo is not what was sent'));
    this.#got += bytes.length;
    if (this.#got === this.#awaited.length) this.#back.resolve(performance.now());
  }

  failed(error: Error): void {
    this.#back.reject(error);
  }

  /** Microseconds. */
  async trip(size: number): Promise<number> {
    this.#awaited = Buffer.alloc(size, ++this.#trips & 0xff);
    this.#got = 0;
    this.#back = Promise.withResolvers();
    const limit = setTimeout(() => this.failed(new Error('no echo')), TRIP_LIMIT_MS);
    const from = performance.now();
    this.#send(this.#awaited);
    const to = await this.#back.promise;
    clearTimeout(limit);
    return (to - from) * 1_000;
  }
}

interface Method<In, Out> {
  readonly path: string;
  readonly requestSerialize: (value: In) => Uint8Array;
  readonly responseDeserialize: (bytes: Uint8Array) => Out;
}

/** Path and codecs, as grpc-js's client takes them. In Node protobufjs makes the Buffers that it wants. */
function method<In, Out>({ path, requestSerialize, responseDeserialize }: Method<In, Out>) {
  return [path, requestSerialize as (value: In) => Buffer, responseDeserialize] as const;
}

const sendPacket = method(SerialServiceDefinition.sendPacket);
const streamLog = method(SerialServiceDefinition.streamLog);
const session = method(LineServiceDefinition.session);

export interface Route extends Pick<Station, 'name' | 'close'> {
  readonly traveller: Traveller;
}

type Connect = (client: Client) => Promise<Traveller>;

const byUnary: Connect = async (client) => {
  const traveller = new Traveller((payload) => {
    client.makeUnaryRequest(...sendPacket, { payload }, (error, answer) => {
      if (error !== null) traveller.failed(error);
      else if (answer?.error !== '') traveller.failed(new Error(answer?.error));
    });
  });
  const log = client.makeServerStreamRequest(...streamLog, {});
  log.on('data', (entry: serial.SerialLogEntry) => {
    if (entry.dir === RX) traveller.arrived(entry.rawData);
  });
  log.on('error', (error) => traveller.failed(error));
  await new Promise((resolve) => log.once('metadata', resolve));
  return traveller;
};

const bySession: Connect = async (client) => {
  const stream = client.makeBidiStreamRequest(...session);
  const traveller = new Traveller((payload) => stream.write({ send: { payload } }));
  stream.on('data', ({ log }: lineside.v1.SessionResponse) => {
    for (const { entry } of log?.entries ?? []) if (entry?.dir === RX) traveller.arrived(entry.rawData);
  });
  stream.on('error', (error) => traveller.failed(error));
  stream.write({ log: { liveOnly: true, follow: true } });
  return traveller;
};

/** As programs have it: bytes as the port reads them. */
export const byReceived: Connect = async (client) => {
  const stream = client.makeBidiStreamRequest(...session);
  const traveller = new Traveller((payload) => stream.write({ send: { payload } }));
  stream.on('data', ({ received }: lineside.v1.SessionResponse) => {
    if (received != null) traveller.arrived(received);
  });
  stream.on('error', (error) => traveller.failed(error));
  stream.write({ receive: {} });
  return traveller;
};

export async function route(station: Station, connect: Connect): Promise<Route> {
  const options: ClientOptions = { 'grpc.use_local_subchannel_pool': 1 };
  const client = new Client(station.address, credentials.createInsecure(), options);
  await new Promise<void>((resolve, reject) => {
    client.waitForReady(Date.now() + CONNECT_LIMIT_MS, (error) => (error ? reject(error) : resolve()));
  });
  const traveller = await connect(client);
  return echoing(station, traveller, () => client.close());
}

async function ser2netRoute(station: Ser2net): Promise<Route> {
  const socket = await station.connect();
  const traveller = new Traveller((payload) => socket.write(payload));
  socket.on('data', (bytes: Buffer) => traveller.arrived(bytes));
  return echoing(station, traveller, () => socket.destroy());
}

export async function echoing(
  { name, driver, close }: Pick<Station, 'name' | 'driver' | 'close'>,
  traveller: Traveller,
  end: () => void,
): Promise<Route> {
  await driver.echo();
  return {
    name,
    traveller,
    async close() {
      end();
      await close();
    },
  };
}

interface Delays {
  readonly name: string;
  readonly p50: number;
  readonly p99: number;
}

/** Blocks of trips on each route in turn; the first block of each warms up. */
async function travel(routes: readonly Route[], size: number, trips: number): Promise<readonly Delays[]> {
  const block =
    ({ traveller }: Route) =>
    async () => {
      const delays: number[] = [];
      for (let n = 0; n < BLOCK; n++) delays.push(await traveller.trip(size));
      return delays;
    };
  const contenders = Object.fromEntries(routes.map((one) => [one.name, block(one)]));
  const found = await inTurns({ rounds: trips / BLOCK, warmUp: true }, contenders);
  return Object.entries(found).map(([name, blocks]) => {
    const delays = blocks.flat();
    return { name, p50: quantile(delays, 0.5), p99: quantile(delays, 0.99) };
  });
}

const show = ({ p50, p99 }: Delays): string => `${p50.toFixed(0)} / ${p99.toFixed(0)} us`;
const bytes = (size: number): string => `${size} byte${size === 1 ? '' : 's'}`;

/** The first against the second, the others beside it. */
function line(
  row: string,
  peer: string,
  [own, bare, ...beside]: readonly Delays[],
  judged: (p50: number, p99: number) => Pick<Line, 'aim' | 'verdict'>,
): Line {
  if (own === undefined || bare === undefined) throw new Error(`${row}: nothing was measured`);
  const others = beside.map((delay) => `; ${delay.name}: ${show(delay)}`).join('');
  const [p50, p99] = [own.p50 / bare.p50, own.p99 / bare.p99];
  return {
    row: `round trip of ${row}, p50 / p99`,
    lineside: show(own),
    against: `${peer}: ${show(bare)}${others}`,
    ratio: `${times(p50)} / ${times(p99)}`,
    ...judged(p50, p99),
  };
}

/** Lineside and the bare server, every read a chunk or every chunk up to a silence. */
async function pair(connect: Connect, gapMs: number | undefined): Promise<Route[]> {
  const lineside = await startLineside(BAUD, { gapMs });
  return [await route(lineside, connect), await route(await startBare(gapMs ?? DEFAULT_GAP_MS), connect)];
}

export async function lines(
  routes: readonly Route[],
  trips: number,
  peer: string,
  sizes: readonly number[],
  row: (size: string) => string,
  judged: (p50: number, p99: number) => Pick<Line, 'aim' | 'verdict'>,
): Promise<readonly Line[]> {
  const found: Line[] = [];
  for (const size of sizes) found.push(line(row(bytes(size)), peer, await travel(routes, size, trips), judged));
  for (const each of routes) await each.close();
  return found;
}

export const roundTrip: Row = {
  name: 'roundtrip',
  whyMissed:
    'A call also checks the caller, waits for its turn at the port and makes an entry of each packet, which ' +
    'another thread stores. In a profile no function has more than 9 % of the time (the system call that writes ' +
    'to the port); garbage has 7 to 14 %.',
  async run({ quick, say }) {
    const trips = quick ? 400 : 4_000;
    const { ser2net, missing } = await startSer2nets(BAUD);
    if (missing !== '') say(missing);
    const routes = await pair(byUnary, 0);
    for (const station of ser2net) routes.push(await ser2netRoute(station));
    const every = (size: string): string => `${size}, every read a chunk (rx_gap_ms 0)`;
    const found = await lines(routes, trips, 'bare grpc-js', SIZES, every, (p50, p99) => ({
      aim: `within ${UNARY_P50_AIM} x / ${UNARY_P99_AIM} x of grpc-js`,
      verdict: judge(p50 <= UNARY_P50_AIM && p99 <= UNARY_P99_AIM),
    }));
    const silence = (size: string): string => `${size}, chunks end by 2 ms of silence (the default)`;
    const waiting = await pair(byUnary, undefined);
    const beside = { aim: 'shown beside it', verdict: 'shown' } as const;
    return [...found, ...(await lines(waiting, trips / 4, 'bare grpc-js, the same 2 ms', [64], silence, () => beside))];
  },
};

export const sessions: Row = {
  name: 'session',
  whyMissed:
    'As of roundtrip: what a request does beside the call itself. A fifth of the time is in system calls, 9 % of ' +
    'it to write to the port.',
  async run({ quick }) {
    const routes = await pair(bySession, 0);
    const row = (size: string): string => `${size} over lineside.v1 Session`;
    return lines(routes, quick ? 400 : 4_000, 'bare grpc-js bidirectional stream', SIZES, row, (p50) => ({
      aim: `p50 within ${SESSION_P50_AIM} x`,
      verdict: judge(p50 <= SESSION_P50_AIM),
    }));
  },
};
