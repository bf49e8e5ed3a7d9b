/** A scripted service for the CLI's tests: a real gRPC server with a port and a log that are plain fields. */

import { EventEmitter, once } from 'node:events';
import { afterEach, beforeEach } from 'node:test';
import { ServerCredentials } from '@grpc/grpc-js';
import Long from 'long';
import { type CallContext, createServer, ServerError, Status } from 'nice-grpc';
import { LineServiceDefinition, lineside, SerialServiceDefinition, serial } from '../../shared/proto/services.ts';
import { type Outcome, run, type testFiles } from '../drive.fixture.ts';

const { v1 } = lineside;

type Config = serial.SerialConfig.$Properties;
type Entry = { id: number; dir: 0 | 1; timestamp: Long; rawData: Uint8Array; note?: string };

export interface FakeTls {
  readonly cert: Buffer;
  readonly key: Buffer;
  /** Wanted of clients when given. */
  readonly clientCa?: Buffer;
}

export class FakeService {
  devices: serial.SerialDevice.$Properties[] = [];
  config: Config = {};
  /** What open, close and send answer; OK when undefined. */
  answer: { status: number; error: string } | undefined;
  opened: Config[] = [];
  /** Others are NOT_FOUND, when given. */
  onlyPorts: readonly string[] | undefined;
  sent: { seqId: string; payload: Buffer }[] = [];
  /** What the device gets. */
  onSent: (payload: Buffer) => void = () => undefined;
  incoming: { payload: Uint8Array; tags?: Record<string, string> }[] = [];
  modem = { dtr: true, rts: true, cts: false, dsr: false, dcd: false, ri: false };
  breaks: number[] = [];
  #status: Record<string, unknown> = {};
  entries: Entry[] = [];
  gaps: lineside.v1.LogGap.$Properties[] = [];
  events: lineside.v1.RecordedEvent.$Properties[] = [];
  logId = 'log-1';
  /** Thrown by readLog after so many more batches. */
  breakReading: { after: number; error: ServerError } | undefined;
  reads: lineside.v1.ReadLogRequest[] = [];
  /** Thrown by every call. */
  refusal: ServerError | undefined;
  token: string | undefined;
  /** Never answers. */
  stuck = false;
  batchSize = 2;
  readonly searches: lineside.v1.SearchLogRequest[] = [];
  /** Of the last Open that named one. */
  flowControl: lineside.v1.FlowControl | undefined;
  rxGapMs: number | null | undefined;
  #server: ReturnType<typeof createServer> | undefined;
  /** 'change': of the log, or of what a session has to answer. 'live': a response for the sessions that receive. */
  readonly #changes = new EventEmitter();
  #address = '';

  /** `unix:/path` or `127.0.0.1:0`; answers the port. */
  async listen(address: string, tls?: FakeTls): Promise<number> {
    const server = createServer().use((call, context) => {
      this.#admit(context);
      return call.next(call.request, context);
    });
    server.add(SerialServiceDefinition, this.#serial());
    server.add(LineServiceDefinition, this.#line());
    const port = await server.listen(address, tls === undefined ? undefined : credentials(tls));
    this.#server = server;
    this.#address = address.endsWith(':0') ? address.replace(/0$/, String(port)) : address;
    return port;
  }

  /** Enumerations by number, as they come over the wire. */
  setStatus(fields: Record<string, unknown>): void {
    this.#status = fields;
  }

  patchStatus(fields: Record<string, unknown>): void {
    this.#status = { ...this.#status, ...fields };
    this.#changes.emit('live', this.#portState());
  }

  #portState(): lineside.v1.SessionResponse.$Properties {
    return { event: { portState: v1.LineStatus.fromObject(this.#status).portState } };
  }

  stop(): void {
    this.#server?.forceShutdown();
    this.#server = undefined;
  }

  async restart(): Promise<void> {
    this.stop();
    await this.listen(this.#address);
  }

  /** Appends to the log and wakes the followers. */
  log(dir: 0 | 1, text: string | Uint8Array, note = ''): void {
    const id = (this.entries.at(-1)?.id ?? 0) + 1;
    this.entries.push({ id, dir, timestamp: u64(1_700_000_000_000 + id), rawData: Buffer.from(text), note });
    this.#changes.emit('change');
    if (dir === 1) this.receive(text);
  }

  /** Of a chunk that is not in the log yet. */
  receive(bytes: string | Uint8Array): void {
    this.#changes.emit('live', { received: Buffer.from(bytes) });
  }

  /** Sessions that receive. */
  get receivers(): number {
    return this.#changes.listenerCount('live');
  }

  #admit(context: CallContext): void {
    if (this.refusal !== undefined) throw this.refusal;
    if (this.token === undefined) return;
    const given = context.metadata.get('authorization');
    if (given !== `Bearer ${this.token}`) throw new ServerError(Status.UNAUTHENTICATED, 'no valid token');
  }

  async #maybeStuck(context: CallContext): Promise<void> {
    if (!this.stuck) return;
    await new Promise((resolve) => context.signal.addEventListener('abort', resolve, { once: true }));
  }

  #serial() {
    return {
      listDevices: async (_: unknown, context: CallContext) => {
        await this.#maybeStuck(context);
        return { devices: this.devices };
      },
      open: async (request: serial.SerialConfig) => {
        if (this.answer !== undefined) return serial.ConfigResponse.fromObject(this.answer);
        if (this.onlyPorts?.includes(request.portName) === false)
          return serial.ConfigResponse.fromObject({ status: 2 });
        this.opened.push(request);
        this.config = request;
        return {};
      },
      close: async () => {
        this.config = {};
        return serial.ConfigResponse.fromObject(this.answer ?? {});
      },
      getCurrentConfig: async () => this.config,
      sendPacket: async (request: serial.Packet) => this.#send(request),
      receivePacket: async () => {
        if (this.config.portName === undefined)
          throw new ServerError(Status.FAILED_PRECONDITION, 'NOT_CONNECTED: no port is open');
        const packet = this.incoming.shift();
        if (packet === undefined) throw new ServerError(Status.NOT_FOUND, 'the buffer is empty');
        return { seqId: u64(1), tags: {}, ...packet };
      },
      logRaw: async () => ({}),
      streamLog: async function* (): AsyncGenerator<serial.SerialLogEntry.$Properties> {},
    };
  }

  #send(request: serial.Packet): serial.SendResponse.$Properties {
    const { seqId, payload } = request;
    if (this.answer !== undefined) return serial.SendResponse.fromObject({ ...this.answer, echoSeqId: seqId });
    this.sent.push({ seqId: seqId.toString(), payload: Buffer.from(payload) });
    this.log(0, Buffer.from(payload));
    this.onSent(Buffer.from(payload));
    return { echoSeqId: seqId };
  }

  #line() {
    return {
      getStatus: async () => {
        const status = v1.LineStatus.fromObject(this.#status);
        if (status.log != null) {
          status.log.firstId = u64(this.entries[0]?.id ?? 0);
          status.log.headId = u64(this.entries.at(-1)?.id ?? 0);
        }
        return status;
      },
      readLog: (request: lineside.v1.ReadLogRequest, context: CallContext) => this.#read(request, context),
      searchLog: (request: lineside.v1.SearchLogRequest) => this.#search(request),
      getLogHistogram: async () => ({}),
      getModemLines: async () => this.modem,
      setModemLines: async (request: lineside.v1.SetModemLinesRequest) => {
        if (request.dtr != null) this.modem.dtr = request.dtr;
        if (request.rts != null) this.modem.rts = request.rts;
        return this.modem;
      },
      releaseHold: async () => {
        this.patchStatus({ holder: null });
        return {};
      },
      listEvents: async ({ limit }: lineside.v1.ListEventsRequest) => ({ events: this.events.slice(-limit) }),
      open: async ({ config, flowControl, rxGapMs }: lineside.v1.OpenRequest) => {
        this.flowControl = flowControl;
        this.rxGapMs = rxGapMs;
        return this.#serial().open(config ?? new serial.SerialConfig());
      },
      sendBreak: async ({ durationMs }: lineside.v1.SendBreakRequest) => {
        this.breaks.push(durationMs);
        return {};
      },
      session: (requests: AsyncIterable<lineside.v1.SessionRequest>, context: CallContext) =>
        this.#session(requests, context),
    };
  }

  /** Text within one entry. */
  async *#search(request: lineside.v1.SearchLogRequest): AsyncGenerator<lineside.v1.SearchLogResponse.$Properties> {
    this.searches.push(request);
    const { afterId, text, limit } = request;
    const wanted = Buffer.from(text ?? '');
    const found = this.entries.filter(
      ({ id, rawData }) => id > afterId.toNumber() && Buffer.from(rawData).includes(wanted),
    );
    const page = found.slice(0, limit);
    const matches = page.map(({ id, dir, timestamp, rawData }) => {
      const ids = { entryId: u64(id), throughEntryId: u64(id), timestampMs: timestamp };
      return { ...ids, dir, offset: Buffer.from(rawData).indexOf(wanted), length: wanted.length };
    });
    if (matches.length > 0) yield { matches: { matches } };
    const { COMPLETE, LIMIT } = v1.SearchEnd.Reason;
    const isCut = found.length > page.length;
    const resumeAfterId = u64((isCut ? page : this.entries).at(-1)?.id ?? 0);
    yield { end: { reason: isCut ? LIMIT : COMPLETE, resumeAfterId } };
  }

  async *#read(
    request: lineside.v1.ReadLogRequest,
    context: CallContext,
  ): AsyncGenerator<lineside.v1.LogBatch.$Properties> {
    const { signal } = context;
    this.reads.push(request);
    let after = this.#begin(request);
    standing(context);
    let logId = this.logId;
    for (;;) {
      const found = this.entries.filter((entry) => entry.id > after).slice(0, this.batchSize);
      if (found.length > 0) {
        if (this.breakReading !== undefined && this.breakReading.after-- === 0) throw this.#takeBreak();
        const next = found.at(-1)?.id ?? after;
        yield {
          entries: this.#chosen(found, request),
          gaps: this.#gapsBetween(after, next),
          logId,
          nextAfterId: u64(next),
        };
        after = next;
        logId = '';
      } else if (!request.follow || signal.aborted) return;
      else await this.#wake(signal);
    }
  }

  #begin(request: lineside.v1.ReadLogRequest): number {
    if (request.logId !== '' && request.logId !== this.logId) {
      throw new ServerError(Status.OUT_OF_RANGE, 'this is another log');
    }
    const head = this.entries.at(-1)?.id ?? 0;
    return request.last ? head - request.limit.toNumber() : request.afterId.toNumber();
  }

  #takeBreak(): ServerError {
    const error = this.breakReading?.error ?? new ServerError(Status.INTERNAL, '');
    this.breakReading = undefined;
    return error;
  }

  #chosen(found: Entry[], request: lineside.v1.ReadLogRequest): lineside.v1.LogEntry.$Properties[] {
    const dirs: readonly number[] = request.dirs;
    const since = request.sinceMs.toNumber();
    const wanted = found.filter(
      ({ dir, timestamp }) => (dirs.length === 0 || dirs.includes(dir)) && timestamp.toNumber() >= since,
    );
    return wanted.map(({ id, ...entry }) => ({ id: u64(id), entry }));
  }

  #gapsBetween(after: number, next: number): lineside.v1.LogGap.$Properties[] {
    return this.gaps.filter(({ firstId }) => firstId?.greaterThan(after) === true && !firstId.greaterThan(next));
  }

  /** Until there is a change, or the call ends. */
  async #wake(signal: AbortSignal): Promise<void> {
    await once(this.#changes, 'change', { signal }).catch(() => undefined);
  }

  async *#session(
    requests: AsyncIterable<lineside.v1.SessionRequest>,
    context: CallContext,
  ): AsyncGenerator<lineside.v1.SessionResponse.$Properties> {
    const { signal } = context;
    standing(context);
    const answers: lineside.v1.SessionResponse.$Properties[] = [];
    let after: number | undefined;
    let ended = false;
    let receiveLater = false;
    const live = (response: lineside.v1.SessionResponse.$Properties): void => {
      answers.push(response);
      this.#changes.emit('change');
    };
    const beginReceive = (): void => {
      answers.push(this.#portState());
      this.#changes.on('live', live);
    };
    const take = async (): Promise<void> => {
      for await (const { log, receive, send } of requests) {
        if (log != null) after ??= log.afterId.toNumber();
        if (receive?.afterLog) receiveLater = true;
        else if (receive != null) beginReceive();
        if (send != null) answers.push({ response: 'sent', sent: this.#send(send) });
        this.#changes.emit('change');
      }
    };
    void take()
      .catch(() => undefined)
      .finally(() => {
        ended = true;
        this.#changes.off('live', live);
        this.#changes.emit('change');
      });
    while (!signal.aborted) {
      const from = after ?? Number.POSITIVE_INFINITY;
      const fresh = this.entries.filter(({ id }) => id > from);
      const answer = answers.shift();
      if (answer !== undefined) {
        yield answer;
      } else if (fresh.length > 0) {
        after = fresh.at(-1)?.id ?? 0;
        const entries = fresh.map(({ id, ...entry }) => ({ id: u64(id), entry }));
        yield { response: 'log', log: { entries, logId: this.logId, nextAfterId: u64(after) } };
      } else if (ended) return;
      else if (receiveLater && after !== undefined) {
        receiveLater = false;
        beginReceive();
      } else await this.#wake(signal);
    }
  }
}

const u64 = (value: number): Long => Long.fromNumber(value, true);

/** The response headers now: nice-grpc sends none that are empty. */
function standing(context: CallContext): void {
  context.header.set('standing', '1');
  context.sendHeader();
}

function credentials({ cert, key, clientCa }: FakeTls): ServerCredentials {
  return ServerCredentials.createSsl(
    clientCa ?? null,
    [{ cert_chain: cert, private_key: key }],
    clientCa !== undefined,
  );
}

/** The service of the test that runs, and its socket: a new one for each. */
export let service: FakeService;
export let socket: string;

export function serviceForEach({ at }: ReturnType<typeof testFiles>, status: Record<string, unknown> = {}): void {
  let count = 0;
  beforeEach(async () => {
    count += 1;
    service = new FakeService();
    service.setStatus(status);
    socket = at(`${count}.sock`);
    await service.listen(`unix:${socket}`);
  });
  afterEach(() => service.stop());
}

export function cli(...argv: string[]): Promise<Outcome> {
  return run(argv, { socket });
}
