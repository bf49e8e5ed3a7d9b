/**
 * The live tail: what 1, 10 and 100 subscribers get in all. The source is the PTY: a driver that writes a record as soon as
 * the server has read the one before (so records do not melt together), but never more than WINDOW_BYTES ahead of what
 * the subscribers have received on average: the fastest pace at which everybody stays live.
 */
import { spawnSync } from 'node:child_process';
import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../../../src/shared/base/wait.fixture.ts';
import { STREAM_LOG, streamLogRequest } from '../calls.ts';
import { type LeanEntry, type LeanStream, readEntry, serverStream } from '../grpc-lean.ts';
import { startLineside } from '../lineside.ts';
import { type Peer, startBare, startBareMemory } from '../peers/peers.ts';
import { cpuSeconds, temporaryDirectory } from '../processes.ts';
import { ACK_BYTES, PtyDriver } from '../pty-driver.ts';
import { judge, type Line, median, type Row, times } from '../table.ts';

const BAUD = 12_000_000;
export const RECORD_BYTES = 64;
const WINDOW_BYTES = 65_536;
const AIM = 0.8;
const LIMIT_MS = 120_000;
const RX = 1;
/** Delivered in all, per run. */
const DELIVERIES = [
  { subscribers: 1, records: 60_000 },
  { subscribers: 10, records: 20_000 },
  { subscribers: 100, records: 3_000 },
] as const;

interface Run {
  readonly entriesPerSecond: number;
  readonly cpuMicrosecondsPerEntry: number;
  readonly bytesPerEntry: number;
}

/** Subscribers of one server, all counted together. */
class Audience {
  bytes = 0;
  entries = 0;
  /** performance.now() of the newest entry. */
  lastAt = 0;
  readonly #streams: LeanStream[] = [];
  readonly #entry: LeanEntry = { dir: 0, dataFrom: 0, dataTo: 0 };
  readonly #fifo: number;
  #acknowledged = 0;

  constructor(fifo: number) {
    this.#fifo = fifo;
  }

  async subscribe(address: string, subscribers: number): Promise<void> {
    for (let i = 0; i < subscribers; i++) {
      this.#streams.push(
        serverStream(address, STREAM_LOG, streamLogRequest(false), (buffer, from, to) => this.#take(buffer, from, to)),
      );
    }
    await Promise.all(this.#streams.map((stream) => stream.open));
  }

  begin(): void {
    this.bytes = this.entries = this.#acknowledged = 0;
  }

  async leave(): Promise<void> {
    await Promise.all(this.#streams.map((stream) => stream.close()));
  }

  #take(buffer: Buffer, from: number, to: number): void {
    readEntry(buffer, from, to, this.#entry);
    if (this.#entry.dir !== RX) return;
    this.entries++;
    this.bytes += this.#entry.dataTo - this.#entry.dataFrom;
    this.lastAt = performance.now();
    if (this.bytes < (this.#acknowledged + ACK_BYTES) * this.#streams.length) return;
    this.#acknowledged += ACK_BYTES;
    writeSync(this.#fifo, '.');
  }
}

class Stage {
  readonly #server: Peer;
  readonly #driver: PtyDriver;
  readonly #audience: Audience;
  readonly #fifo: { readonly path: string; readonly fd: number };
  readonly #subscribers: number;

  private constructor(
    server: Peer,
    driver: PtyDriver,
    audience: Audience,
    fifo: { path: string; fd: number },
    subscribers: number,
  ) {
    this.#server = server;
    this.#driver = driver;
    this.#audience = audience;
    this.#fifo = fifo;
    this.#subscribers = subscribers;
  }

  static async set(subscribers: number, startServer: (slavePath: string) => Promise<Peer>): Promise<Stage> {
    const driver = await PtyDriver.open();
    const server = await startServer(driver.slavePath);
    const path = join(temporaryDirectory(), 'acknowledged');
    if (spawnSync('mkfifo', [path]).status !== 0) throw new Error(`cannot make the pipe ${path}`);
    const fifo = { path, fd: openSync(path, constants.O_RDWR | constants.O_NONBLOCK) };
    const audience = new Audience(fifo.fd);
    await audience.subscribe(server.address, subscribers);
    return new Stage(server, driver, audience, fifo, subscribers);
  }

  async play(records: number): Promise<Run> {
    const audience = this.#audience;
    audience.begin();
    const cpu = cpuSeconds(this.#server.pid);
    const from = performance.now();
    await this.#driver.records(records, RECORD_BYTES, WINDOW_BYTES, this.#fifo.path);
    await until('the last entry', () => audience.bytes >= records * RECORD_BYTES * this.#subscribers, LIMIT_MS);
    const seconds = (audience.lastAt - from) / 1_000;
    return {
      entriesPerSecond: audience.entries / seconds,
      cpuMicrosecondsPerEntry: ((cpuSeconds(this.#server.pid) - cpu) * 1e6) / audience.entries,
      bytesPerEntry: audience.bytes / audience.entries,
    };
  }

  async strike(): Promise<void> {
    await this.#audience.leave();
    await this.#server.close();
    await this.#driver.close();
    closeSync(this.#fifo.fd);
  }
}

async function startOwn(slavePath: string): Promise<Peer> {
  const lineside = await startLineside({ serial: { rx_gap_ms: 0 } });
  await lineside.open(slavePath, BAUD);
  return { pid: lineside.pid, address: lineside.address, close: () => lineside.close() };
}

async function fromMemory(records: number, subscribers: number): Promise<number> {
  const peer = await startBareMemory(records, RECORD_BYTES);
  let entries = 0;
  const from = performance.now();
  const streams = Array.from({ length: subscribers }, () =>
    serverStream(peer.address, STREAM_LOG, streamLogRequest(true), () => void entries++),
  );
  await Promise.all(streams.map((stream) => stream.ended));
  const seconds = (performance.now() - from) / 1_000;
  for (const stream of streams) await stream.close();
  await peer.close();
  return entries / seconds;
}

export const tail: Row = {
  name: 'tail',
  async run({ quick, say }) {
    const lines: Line[] = [];
    for (const { subscribers, records } of DELIVERIES) {
      const each = quick ? records / 4 : records;
      const own = await Stage.set(subscribers, startOwn);
      const bare = await Stage.set(subscribers, (slavePath) => startBare(slavePath, 0));
      const runs: Record<'own' | 'bare', Run[]> = { own: [], bare: [] };
      for (let round = -1; round < (quick ? 1 : 3); round++) {
        const pair = { own: await own.play(each), bare: await bare.play(each) };
        say(`${subscribers} subscribers: lineside ${show(pair.own)}; bare ${show(pair.bare)}`);
        if (round < 0) continue;
        runs.own.push(pair.own);
        runs.bare.push(pair.bare);
      }
      await own.strike();
      await bare.strike();
      const memory = await fromMemory(each, subscribers);
      const [a, b] = [middle(runs.own), middle(runs.bare)];
      const ratio = a.entriesPerSecond / b.entriesPerSecond;
      lines.push({
        row: `live tail of ${RECORD_BYTES}-byte records, ${subscribers} subscriber${subscribers === 1 ? '' : 's'}: entries/s delivered in all`,
        lineside: show(a),
        against: `bare grpc-js, same PTY source: ${show(b)}; from memory, no PTY: ${memory.toFixed(0)}/s`,
        ratio: times(ratio),
        aim: `at least ${AIM} x`,
        verdict: judge(ratio >= AIM),
      });
    }
    return lines;
  },
};

const middle = (runs: readonly Run[]): Run => ({
  entriesPerSecond: median(runs.map((run) => run.entriesPerSecond)),
  cpuMicrosecondsPerEntry: median(runs.map((run) => run.cpuMicrosecondsPerEntry)),
  bytesPerEntry: median(runs.map((run) => run.bytesPerEntry)),
});

const show = (run: Run): string =>
  `${run.entriesPerSecond.toFixed(0)}/s, ${run.cpuMicrosecondsPerEntry.toFixed(1)} us CPU and ${run.bytesPerEntry.toFixed(0)} bytes an entry`;
