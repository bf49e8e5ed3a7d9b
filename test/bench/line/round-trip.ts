/** From the call to the echo on the log: unary calls beside StreamLog, and the one stream of lineside.v1. */
import type { Socket } from 'node:net';
import { serial } from '../../../src/shared/proto/services.ts';
import { GrpcClient } from '../grpc-client.ts';
import { startLineside } from '../lineside.ts';
import { startBare, startSer2net } from '../peers/peers.ts';
import { Skipped } from '../processes.ts';
import { PtyDriver } from '../pty-driver.ts';
import { type Context, judge, type Line, quantile, type Row, times } from '../table.ts';
import { Traveller } from './traveller.ts';

const BAUD = 115_200;
const { RX } = serial.SerialLogEntry.Direction;
/** Trips in a row before the other takes its turn: the machine's noise falls on both. */
const BLOCK = 200;
const UNARY_P50_AIM = 1.2;
const UNARY_P99_AIM = 1.5;
const SESSION_P50_AIM = 1.3;

interface Route {
  readonly name: string;
  readonly traveller: Traveller;
  close(): Promise<void>;
}

type Connect = (address: string) => Promise<{ traveller: Traveller; end: () => void }>;

const byUnary: Connect = async (address) => {
  const client = new GrpcClient(address);
  await client.ready();
  const traveller = new Traveller((payload) => {
    client.sendPacket(payload).then(
      (answer) => answer.error === '' || traveller.failed(new Error(answer.error)),
      (error: Error) => traveller.failed(error),
    );
  });
  const log = client.streamLog();
  const open = new Promise((resolve) => log.once('metadata', resolve));
  log.on('data', (entry: serial.SerialLogEntry) => {
    if (entry.dir === RX) traveller.arrived(entry.rawData);
  });
  log.on('error', (error) => traveller.failed(error));
  await open;
  return { traveller, end: () => client.close() };
};

const bySession: Connect = async (address) => {
  const client = new GrpcClient(address);
  await client.ready();
  const session = client.session();
  const traveller = new Traveller((payload) => session.write({ send: { payload } }));
  session.on('data', (response: { log?: { entries?: { entry?: serial.ISerialLogEntry | null }[] | null } | null }) => {
    for (const { entry } of response.log?.entries ?? []) {
      if (entry?.dir === RX && entry.rawData != null) traveller.arrived(entry.rawData);
    }
  });
  session.on('error', (error) => traveller.failed(error));
  session.write({ log: { liveOnly: true, follow: true } });
  return { traveller, end: () => client.close() };
};

async function linesideRoute(connect: Connect, gapMs: number | undefined): Promise<Route> {
  const driver = await PtyDriver.open();
  const lineside = await startLineside(gapMs === undefined ? {} : { serial: { rx_gap_ms: gapMs } });
  await lineside.open(driver.slavePath, BAUD);
  const { traveller, end } = await connect(lineside.address);
  return route('lineside', driver, traveller, end, () => lineside.close());
}

async function bareRoute(connect: Connect, gapMs: number): Promise<Route> {
  const driver = await PtyDriver.open();
  const peer = await startBare(driver.slavePath, gapMs);
  const { traveller, end } = await connect(peer.address);
  return route('bare grpc-js', driver, traveller, end, () => peer.close());
}

async function ser2netRoute(kind: 'as shipped' | 'tuned'): Promise<Route> {
  const driver = await PtyDriver.open();
  const peer = await startSer2net(driver.slavePath, BAUD, kind);
  const socket: Socket = await peer.connect();
  const traveller = new Traveller((payload) => socket.write(payload));
  socket.on('data', (bytes: Buffer) => traveller.arrived(bytes));
  return route(
    `ser2net ${kind}`,
    driver,
    traveller,
    () => socket.destroy(),
    () => peer.close(),
  );
}

async function route(
  name: string,
  driver: PtyDriver,
  traveller: Traveller,
  end: () => void,
  stop: () => Promise<void>,
): Promise<Route> {
  await driver.echo();
  return {
    name,
    traveller,
    async close() {
      end();
      await stop();
      await driver.close();
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
  const delays = routes.map((): number[] => []);
  for (let done = -BLOCK; done < trips; done += BLOCK) {
    for (const [i, { traveller }] of routes.entries()) {
      for (let n = 0; n < BLOCK; n++) {
        const delay = await traveller.trip(size);
        if (done >= 0) delays[i]?.push(delay);
      }
    }
  }
  return routes.map(({ name }, i) => ({
    name,
    p50: quantile(delays[i] ?? [], 0.5),
    p99: quantile(delays[i] ?? [], 0.99),
  }));
}

const show = (delay: Delays | undefined): string =>
  delay === undefined ? '' : `${delay.p50.toFixed(0)} / ${delay.p99.toFixed(0)} us`;

async function ser2netRoutes({ say }: Context): Promise<readonly Route[]> {
  try {
    return [await ser2netRoute('as shipped'), await ser2netRoute('tuned')];
  } catch (error) {
    if (!(error instanceof Skipped)) throw error;
    say(error.message);
    return [];
  }
}

export const roundTrip: Row = {
  name: 'roundtrip',
  async run(context) {
    const trips = context.quick ? 400 : 4_000;
    const lines: Line[] = [];
    const routes = [await linesideRoute(byUnary, 0), await bareRoute(byUnary, 0), ...(await ser2netRoutes(context))];
    for (const size of [1, 64]) {
      const [own, bare, ...beside] = await travel(routes, size, trips);
      lines.push(
        ...against(
          `round trip of ${size} byte${size === 1 ? '' : 's'}, every read a chunk (rx_gap_ms 0), p50 / p99`,
          own,
          bare,
          beside,
        ),
      );
    }
    for (const each of routes) await each.close();
    const waiting = [await linesideRoute(byUnary, undefined), await bareRoute(byUnary, 2)];
    const [own, bare] = await travel(waiting, 64, trips / 4);
    for (const each of waiting) await each.close();
    if (own !== undefined && bare !== undefined) {
      lines.push({
        row: 'round trip of 64 bytes, chunks end by 2 ms of silence (the default), p50 / p99',
        lineside: show(own),
        against: `bare grpc-js, the same 2 ms: ${show(bare)}`,
        ratio: `${times(own.p50 / bare.p50)} / ${times(own.p99 / bare.p99)}`,
        aim: 'shown beside it',
        verdict: 'shown',
      });
    }
    return lines;
  },
};

function against(
  row: string,
  own: Delays | undefined,
  bare: Delays | undefined,
  beside: readonly Delays[],
): readonly Line[] {
  if (own === undefined || bare === undefined) return [];
  const others = beside.map((delay) => `; ${delay.name}: ${show(delay)}`).join('');
  return [
    {
      row,
      lineside: show(own),
      against: `bare grpc-js: ${show(bare)}${others}`,
      ratio: `${times(own.p50 / bare.p50)} / ${times(own.p99 / bare.p99)}`,
      aim: `within ${UNARY_P50_AIM} x / ${UNARY_P99_AIM} x of grpc-js`,
      verdict: judge(own.p50 <= UNARY_P50_AIM * bare.p50 && own.p99 <= UNARY_P99_AIM * bare.p99),
    },
  ];
}

export const session: Row = {
  name: 'session',
  async run({ quick }) {
    const trips = quick ? 400 : 4_000;
    const routes = [await linesideRoute(bySession, 0), await bareRoute(bySession, 0)];
    const lines: Line[] = [];
    for (const size of [1, 64]) {
      const [own, bare] = await travel(routes, size, trips);
      if (own === undefined || bare === undefined) continue;
      lines.push({
        row: `round trip of ${size} byte${size === 1 ? '' : 's'} over lineside.v1 Session, p50 / p99`,
        lineside: show(own),
        against: `bare grpc-js bidirectional stream: ${show(bare)}`,
        ratio: `${times(own.p50 / bare.p50)} / ${times(own.p99 / bare.p99)}`,
        aim: `p50 within ${SESSION_P50_AIM} x`,
        verdict: judge(own.p50 <= SESSION_P50_AIM * bare.p50),
      });
    }
    for (const each of routes) await each.close();
    return lines;
  },
};
