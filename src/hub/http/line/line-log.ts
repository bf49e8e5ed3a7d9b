/**
 * The log as NDJSON: stored entries, then new ones. The reader sets the pace: a batch is requested when the one before is
 * written, and the entries behind it stay in the line's log.
 */
import type { ServerResponse } from 'node:http';
import type Long from 'long';
import { type Clock, pause } from '../../../shared/base/clock.ts';
import { asLinesideError, LinesideError } from '../../../shared/base/errors.ts';
import { entryClocks, messageJson } from '../../../shared/proto/line-status.ts';
import { lineside } from '../../../shared/proto/services.ts';
import {
  LINE_ANSWER_MS,
  LOG_STREAMS,
  STREAM_ALIVE_MS,
  STREAM_PIECE_BYTES,
  STREAM_REAUTHENTICATE_MS,
} from '../limits.ts';
import { failureOf, type LineCalls, unreachable } from './line-calls.ts';

/** serial.SerialLogEntry.Direction, in its order. */
export const directions = ['tx', 'rx'] as const;

export interface LogParts {
  readonly line: LineCalls;
  readonly stream: LogStream;
  readonly clock: Clock;
  readonly request: lineside.v1.ReadLogRequest.$Properties;
}

/** Resolves when the line has accepted the request, rejects if it refuses; a later failure is the last line of the stream. */
export async function logLines(parts: LogParts): Promise<AsyncIterable<Buffer>> {
  const { line, stream, clock, request } = parts;
  const { log } = await line.status(stream.signal);
  const begun = Promise.withResolvers<void>();
  const batches = line.readLog(
    { ...request, logId: log.logId },
    { signal: stream.signal, onHeader: () => begun.resolve() },
  );
  const reading = new BatchReader(batches[Symbol.asyncIterator](), parts);
  const late = clock.timer(LINE_ANSWER_MS, () =>
    begun.reject(unreachable(`no answer within ${LINE_ANSWER_MS / 1_000} s`)),
  );
  try {
    await Promise.race([begun.promise, reading.failed]);
  } finally {
    late.cancel();
    begun.promise.catch(() => {});
  }
  const first = { type: 'log', logId: log.logId, headId: number(log.headId) };
  return reading.bytes(first, request.follow === true);
}

/** Writes a piece when the kernel has taken the one before: a client's progress is seen by the piece. */
export async function sendPieces(response: ServerResponse, source: AsyncIterable<Buffer>): Promise<void> {
  for await (const piece of source) {
    if (response.destroyed) return;
    await written(response, piece);
  }
  response.end();
}

function written(response: ServerResponse, piece: Buffer): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off('close', done);
      resolve();
    };
    response.once('close', done);
    response.write(piece, done);
  });
}

type Batches = AsyncIterator<lineside.v1.LogBatch>;

class BatchReader {
  readonly #batches: Batches;
  readonly #signal: AbortSignal;
  readonly #clock: Clock;
  readonly #line: LineCalls;
  readonly #failed = Promise.withResolvers<never>();
  /** The batch that was requested, once it has arrived. */
  #got: IteratorResult<lineside.v1.LogBatch> | undefined;
  #failure: LinesideError | undefined;
  #wake: () => void = () => {};

  constructor(batches: Batches, { stream, clock, line }: LogParts) {
    this.#batches = batches;
    this.#signal = stream.signal;
    this.#clock = clock;
    this.#line = line;
    this.#failed.promise.catch(() => {});
    stream.signal.addEventListener('abort', () => this.#wake(), { once: true });
    this.#request();
  }

  get failed(): Promise<never> {
    return this.#failed.promise;
  }

  async *bytes(first: object, follow: boolean): AsyncGenerator<Buffer, void, undefined> {
    yield line(first);
    for (;;) {
      if (this.#got === undefined && this.#failure === undefined && !this.#signal.aborted) {
        const isSilent = await this.#wait();
        // A page takes as long as it takes. A follower is shown that there is nothing new, but only while the line answers.
        if (isSilent && follow && (await this.#answers())) yield line({ type: 'alive' });
        continue;
      }
      const end = this.#end(follow);
      if (end !== undefined) yield line(end);
      const batch = this.#got?.value as lineside.v1.LogBatch | undefined;
      if (end !== undefined || batch === undefined || this.#signal.aborted) return;
      this.#got = undefined;
      yield* pieces(batch);
      this.#request();
    }
  }

  #answers(): Promise<boolean> {
    return this.#line.status(this.#signal).then(
      () => true,
      () => false,
    );
  }

  /** The last line of a stream that the service or the line ended, with the reason. */
  #end(follow: boolean): object | undefined {
    const { aborted, reason } = this.#signal;
    const isDone = this.#got?.done === true && follow ? unreachable('it ended the stream') : undefined;
    const error: unknown = aborted ? reason : (this.#failure ?? isDone);
    return error instanceof LinesideError ? { type: 'end', code: error.code, message: error.message } : undefined;
  }

  #request(): void {
    this.#batches.next().then(
      (result) => {
        this.#got = result;
        this.#wake();
      },
      (error: unknown) => {
        this.#failure = failureOf(error, undefined);
        this.#failed.reject(this.#failure);
        this.#wake();
      },
    );
  }

  /** Until a batch or a failure arrives; true: none did for a while. (A race of promises would keep those that never settle.) */
  #wait(): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = this.#clock.timer(STREAM_ALIVE_MS, () => resolve(true));
      this.#wake = () => {
        timer.cancel();
        resolve(false);
      };
    });
  }
}

/** A line of NDJSON. */
export function line(value: object): Buffer {
  return Buffer.from(`${JSON.stringify(value)}\n`);
}

/** Small enough for a slow link to take one before the client is taken as disconnected. */
function* pieces(batch: lineside.v1.LogBatch): Generator<Buffer> {
  const text = [...batchLines(batch)].map((value) => `${JSON.stringify(value)}\n`).join('');
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += STREAM_PIECE_BYTES) yield bytes.subarray(at, at + STREAM_PIECE_BYTES);
}

/** Each gap in the place of its entries. */
export function* batchLines({ entries, gaps, nextAfterId }: lineside.v1.LogBatch): Generator<object> {
  let gap = 0;
  for (const entry of entries) {
    const id = number(entry.id);
    for (let next = gaps[gap]; next !== undefined && number(next.firstId) < id; next = gaps[gap]) {
      gap += 1;
      yield { type: 'gap', ...gapJson(next) };
    }
    yield entryJson(entry, id);
  }
  for (const rest of gaps.slice(gap)) yield { type: 'gap', ...gapJson(rest) };
  yield { type: 'position', nextAfterId: number(nextAfterId) };
}

function entryJson({ entry, clock, uncorrectedTimestampMs }: lineside.v1.LogEntry, id: number): object {
  const { dir, timestamp, rawData, note } = entry;
  return {
    type: 'entry',
    id,
    dir: directions[dir] ?? 'rx',
    timestampMs: number(timestamp),
    clock: entryClocks[clock] ?? 'unknown',
    ...(entryClocks[clock] === 'corrected' && { uncorrectedTimestampMs: number(uncorrectedTimestampMs) }),
    data: Buffer.from(rawData.buffer, rawData.byteOffset, rawData.byteLength).toString('base64'),
    note,
  };
}

function gapJson(gap: lineside.v1.LogGap): object {
  return messageJson(lineside.v1.LogGap, gap, number);
}

/** A timestamp that a caller of LogRaw chose may exceed 2^53, and is rounded. */
function number(value: Long): number {
  return value.toNumber();
}

// The streams that are open, terminals too: bounded in number, authenticated again while they last, ended together at the stop.

/** follow, terminal: continue until either side ends them. page: completes, however slowly it is read. */
export type StreamKind = keyof typeof LOG_STREAMS;

const openStreams: Readonly<Record<StreamKind, string>> = {
  follow: 'streams of the log are being read',
  page: 'pages of the log are being read',
  terminal: 'terminals are open',
};

export interface StreamRequest {
  readonly kind: StreamKind;
  readonly reader: string;
  /** Rejects if the reader may not continue. */
  readonly authenticate: () => Promise<unknown>;
}

export interface LogStream {
  /** Fires when the stream is over. If the service ended it, `reason` is the LinesideError that says why. */
  readonly signal: AbortSignal;
  /** The client is disconnected, or has all of it. */
  close(): void;
}

interface OpenStream {
  readonly request: StreamRequest;
  readonly over: AbortController;
}

export class LogStreams {
  readonly #clock: Clock;
  readonly #refused: (request: StreamRequest, reason: string) => void;
  readonly #open = new Set<OpenStream>();
  #over: LinesideError | undefined;

  /** `refused`: called for each stream that was ended because its reader may not continue. */
  constructor(clock: Clock, refused: (request: StreamRequest, reason: string) => void) {
    this.#clock = clock;
    this.#refused = refused;
  }

  count(kind: StreamKind): number {
    return this.#of(kind).length;
  }

  /** TOO_MANY if the limits are reached; after endAll(), its reason. */
  open(request: StreamRequest): LogStream {
    // The request was admitted before the stop, which its stream would delay.
    if (this.#over !== undefined) throw this.#over;
    const { kind, reader } = request;
    const { inAll, perReader } = LOG_STREAMS[kind];
    const others = this.#of(kind);
    const own = others.filter((stream) => stream.request.reader === reader).length;
    if (others.length >= inAll || own >= perReader) {
      const full = own >= perReader ? `${perReader} of yours` : `${inAll}`;
      throw new LinesideError('TOO_MANY', `${full} ${openStreams[kind]} already`, {
        hint: 'end one of them first; a page of the console is one stream',
      });
    }
    const stream: OpenStream = { request, over: new AbortController() };
    this.#open.add(stream);
    void this.#reauthenticate(stream);
    return { signal: stream.over.signal, close: () => this.#close(stream) };
  }

  endAll(reason: LinesideError): void {
    this.#over = reason;
    for (const { over } of this.#open) over.abort(reason);
  }

  /** A stream that was ended still counts until its client has taken what is left, or was disconnected. */
  #close(stream: OpenStream): void {
    this.#open.delete(stream);
    stream.over.abort();
  }

  #of(kind: StreamKind): OpenStream[] {
    return [...this.#open].filter((stream) => stream.request.kind === kind);
  }

  async #reauthenticate({ request, over: { signal }, over }: OpenStream): Promise<void> {
    for (;;) {
      await pause(this.#clock, STREAM_REAUTHENTICATE_MS, signal);
      if (signal.aborted) return;
      try {
        await request.authenticate();
      } catch (error) {
        if (signal.aborted) return;
        const reason = asLinesideError(error);
        this.#refused(request, reason.message);
        over.abort(reason);
      }
    }
  }
}
