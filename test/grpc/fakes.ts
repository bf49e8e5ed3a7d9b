/** Small stand-ins for the line and the log behind their faces, and a server around them. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type Channel,
  type Client,
  type ClientError,
  type CompatServiceDefinition,
  createChannel,
  createClient,
  Status,
} from 'nice-grpc';
import { type GrpcServers, startGrpcServers } from '../../src/line/grpc/server.ts';
import type { Direction, LogEntry, NewEntry } from '../../src/line/log/entry.ts';
import type { LogRun, LogSnapshot, ReaderEvents, ReadRequest, RecordedEvent } from '../../src/line/log/log-api.ts';
import type { HistogramRequest, SearchPart, SearchRequest } from '../../src/line/log/log-search.ts';
import type { Histogram } from '../../src/line/log/search/histogram-job.ts';
import type { Log } from '../../src/line/log/serial-log.ts';
import type { EventsRequest } from '../../src/line/log/store-client.ts';
import type { Port } from '../../src/line/port/inventory.ts';
import {
  type LineCounters,
  type LineListener,
  type LineSnapshot,
  type ModemLines,
  newCounters,
  type ReceivedPacket,
  type SendRequest,
} from '../../src/line/port/line.ts';
import type { LineConfig, OpenRequest, OutgoingLines } from '../../src/line/port/line-config.ts';
import type { Line } from '../../src/line/port/owner.ts';
import { type Clock, systemClock } from '../../src/shared/base/clock.ts';
import { LinesideError } from '../../src/shared/base/errors.ts';
import { type Logger, silentLogger } from '../../src/shared/base/logger.ts';
import type { Config } from '../../src/shared/config/config.ts';
import { parseConfig } from '../../src/shared/config/parse.ts';
import { lineside } from '../../src/shared/proto/services.ts';

/** Each field has a number of its own, from 1. */
function numbers<N extends string>(names: readonly N[]): Record<N, number> {
  return Object.fromEntries(names.map((name, i) => [name, i + 1])) as Record<N, number>;
}
const counterNames = Object.keys(newCounters()) as (keyof LineCounters)[];
const counters: LineCounters = { ...numbers(counterNames), rxBytes: 2 ** 40 };

const statusNames = Object.keys(lineside.v1.LogStatus.toObject(new lineside.v1.LogStatus(), { defaults: true }));
const statusNumbers = numbers(statusNames as (keyof lineside.v1.LogStatus.$Shape)[]);

export class FakeLine implements Line {
  config: LineConfig | undefined;
  /** What the next failing call throws. */
  failure: unknown;
  received: ReceivedPacket[] = [];
  opens: OpenRequest[] = [];
  /** Names of the callers of Open and Close. */
  askedBy: string[] = [];
  sends: SendRequest[] = [];
  breaks: number[] = [];
  listeners = new Set<LineListener>();
  lines: ModemLines = { dtr: true, rts: false, cts: true, dsr: false, dcd: true, ri: false };
  /** Replaced by tests that hold a packet back. */
  onSend: (request: SendRequest) => Promise<void> = async () => {};

  async ports(): Promise<readonly Port[]> {
    this.#fail();
    const port = { portName: '/dev/ttyFAKE0', devicePath: '/dev/ttyFAKE0', description: 'A fake', driver: '' };
    return [{ ...port, hardwareId: 'USB VID:PID=0403:6001', isPty: false, links: [], stableId: 'fake' }];
  }
  async open(request: OpenRequest, by = ''): Promise<void> {
    this.askedBy.push(by);
    const { portName, baudRate, dataBits, parity, stopBits, packetSize, flowControl = 0, rxGapMs } = request;
    const gap = rxGapMs != null && { rxGapMs };
    this.opens.push({ portName, baudRate, dataBits, parity, stopBits, packetSize, flowControl, ...gap });
    this.#fail();
    this.config = { portName, baudRate, dataBits: 8, parity: 0, stopBits: 0, packetSize, flowControl: 0 };
  }
  async close(by = ''): Promise<void> {
    this.askedBy.push(by);
    this.#fail();
    this.config = undefined;
  }
  currentConfig(): LineConfig | undefined {
    return this.config;
  }
  async send(request: SendRequest): Promise<void> {
    this.sends.push(request);
    this.#fail();
    await this.onSend(request);
  }
  receive(): ReceivedPacket {
    this.#fail();
    const packet = this.received.shift();
    if (packet === undefined) throw new LinesideError('BUFFER_EMPTY', 'no packet is waiting');
    return packet;
  }
  modemLines(): ModemLines {
    this.#fail();
    return this.lines;
  }
  setModemLines(lines: OutgoingLines): ModemLines {
    this.#fail();
    this.lines = { ...this.lines, ...lines };
    return this.lines;
  }
  async sendBreak(durationMs: number): Promise<void> {
    this.#fail();
    this.breaks.push(durationMs);
  }
  /** Tests of what is done to an open port have a real one. */
  openPort(): never {
    throw new LinesideError('NOT_CONNECTED', 'no port is open');
  }
  restoreSettings(): void {}
  watchErrors(): () => void {
    return () => {};
  }
  listen(listener: LineListener): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }
  snapshot(): LineSnapshot {
    const state = this.config === undefined ? 'closed' : 'open';
    const port = {
      effective: undefined,
      rxGapMs: 0,
      maxPayloadBytes: 65_536,
      devicePath: '',
      error: '',
      kernel: undefined,
    };
    const rest = { ...port, counters, portListChanges: 0 };
    return { state, stateAgeMs: 12.5, receivedAgeMs: 3_000.5, sentAgeMs: 0, requested: this.config, ...rest };
  }
  #fail(): void {
    if (this.failure !== undefined) throw this.failure;
  }
}

/** Holds its entries in memory; readers take runs of at most `runEntries`. */
export class FakeLog implements Log {
  readonly logId = 'log-1';
  entries: LogEntry[] = [];
  requests: ReadRequest[] = [];
  runEntries = 100;
  readers = 0;
  /** Entries that readers have taken. */
  delivered = 0;
  collections = 0;
  /** What readers throw next. */
  failure: unknown;
  #wakers = new Set<() => void>();

  record(dir: Direction, timestampMs: number, data: Uint8Array, note = ''): void {
    this.#append({ dir, timestampMs, data, note });
  }
  async store(entry: NewEntry): Promise<LogEntry> {
    if (this.failure !== undefined) throw this.failure;
    return this.#append(entry);
  }
  event(): void {}
  searched: SearchRequest[] = [];
  counted: HistogramRequest[] = [];
  parts: SearchPart[] = [];
  readonly searches = {
    search: (request: SearchRequest): AsyncGenerator<SearchPart, void, undefined> => this.#search(request),
    histogram: async (request: HistogramRequest): Promise<Histogram> => {
      this.counted.push(request);
      const buckets = Array.from({ length: request.buckets }, (_, i) => {
        return { txEntries: i, rxEntries: 1, txBytes: 2, rxBytes: 3 };
      });
      return { sinceMs: 1, untilMs: 2, isEstimate: true, buckets };
    },
  };
  async *#search(request: SearchRequest): AsyncGenerator<SearchPart, void, undefined> {
    if (this.failure !== undefined) throw this.failure;
    this.searched.push(request);
    yield* this.parts;
  }
  recorded: RecordedEvent[] = [];
  async events({ beforeId, limit }: EventsRequest): Promise<RecordedEvent[]> {
    return this.recorded.filter(({ id }) => id < beforeId).slice(-limit);
  }
  async collectGarbage(): Promise<void> {
    this.collections++;
  }
  fail(error: unknown): void {
    this.failure = error;
    this.#wake();
  }
  read(request: ReadRequest, signal: AbortSignal, events: ReaderEvents = {}): AsyncIterable<LogRun> {
    this.requests.push(request);
    const start = request.after === 'live' ? this.entries.length : request.after === 'last' ? 0 : request.after;
    return this.#run(request, start, signal, events);
  }
  async status(): Promise<LogSnapshot> {
    const head = this.entries.length;
    const ids = { firstId: head === 0 ? 0 : 1, lastId: head, headId: head };
    const rest = { state: 'ok', error: '', logId: this.logId, gaps: [], setAside: '', time: 'unknown' } as const;
    return { ...statusNumbers, ...ids, ...rest };
  }
  bootAt(): string {
    return 'boot-1';
  }

  async *#run(request: ReadRequest, start: number, signal: AbortSignal, events: ReaderEvents): AsyncGenerator<LogRun> {
    let at = start;
    this.readers += 1;
    const wake = (): void => this.#wake();
    signal.addEventListener('abort', wake, { once: true });
    try {
      while (!signal.aborted) {
        if (this.failure !== undefined) throw this.failure;
        const entries = this.entries.slice(at, at + this.runEntries);
        at += entries.length;
        this.delivered += entries.length;
        if (entries.length > 0) yield { entries, gaps: [], nextAfterId: at, live: true };
        else if (!request.follow) return;
        else {
          events.caughtUp?.();
          await new Promise<void>((resolve) => this.#wakers.add(resolve));
        }
      }
    } finally {
      this.readers -= 1;
      signal.removeEventListener('abort', wake);
    }
  }
  #append(entry: NewEntry): LogEntry {
    const stored = { ...entry, id: this.entries.length + 1 };
    this.entries.push(stored);
    this.#wake();
    return stored;
  }
  #wake(): void {
    const wakers = [...this.#wakers];
    this.#wakers.clear();
    for (const waker of wakers) waker();
  }
}

export interface TestServer extends AsyncDisposable {
  readonly servers: GrpcServers;
  readonly line: FakeLine;
  readonly log: FakeLog;
  readonly config: Config;
  /** "127.0.0.1:PORT". */
  readonly address: string;
  /** On one connection to it. */
  client<Service extends CompatServiceDefinition>(service: Service): Client<Service>;
}

/** `file`: the configuration as TOML would give it; by default one loopback listener on a free port. */
export async function startTestServer(
  file: Record<string, Record<string, unknown>> = {},
  logger: Logger = silentLogger,
  clock: Clock = systemClock,
): Promise<TestServer> {
  const dir = await mkdtemp(join(tmpdir(), 'lineside-grpc-'));
  const { config } = parseConfig(
    { ...file, data: { runtime_dir: dir }, grpc: { listen: ['127.0.0.1:0'], ...file.grpc } },
    {},
  );
  const line = new FakeLine();
  const log = new FakeLog();
  let servers: GrpcServers;
  try {
    servers = await startGrpcServers({ config, line, log, clock, logger, version: '1.2.3' });
  } catch (error) {
    await rm(dir, { recursive: true, force: true });
    throw error;
  }
  const address = servers.addresses[0] ?? '';
  let channel: Channel | undefined;
  return {
    servers,
    line,
    log,
    config,
    address,
    client(service) {
      channel ??= createChannel(address);
      return createClient(service, channel);
    },
    [Symbol.asyncDispose]: async () => {
      channel?.close();
      await servers.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** Requests of a Session: the first ones, and what a test adds later. */
export class Requests implements AsyncIterable<lineside.v1.SessionRequest.$Properties> {
  readonly #waiting: lineside.v1.SessionRequest.$Properties[];
  #ended = false;
  #wake = (): void => {};
  constructor(...first: lineside.v1.SessionRequest.$Properties[]) {
    this.#waiting = first;
  }
  push(...requests: lineside.v1.SessionRequest.$Properties[]): void {
    this.#waiting.push(...requests);
    this.#wake();
  }
  end(): void {
    this.#ended = true;
    this.#wake();
  }
  async *[Symbol.asyncIterator](): AsyncGenerator<lineside.v1.SessionRequest.$Properties> {
    for (;;) {
      const next = this.#waiting.shift();
      if (next !== undefined) yield next;
      else if (this.#ended) return;
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
    }
  }
}

/** The status that a stream ends with; 'ended': none. */
export async function endOf(stream: AsyncIterable<unknown>): Promise<string> {
  try {
    for await (const _ of stream);
    return 'ended';
  } catch (error) {
    return Status[(error as ClientError).code] ?? String(error);
  }
}

/** For assert.rejects. */
export function hasStatus(code: Status, text: RegExp): (error: unknown) => boolean {
  return (error) => {
    const { code: got, details } = error as ClientError;
    assert.equal(Status[got], Status[code], details);
    assert.match(details, text);
    return true;
  };
}
