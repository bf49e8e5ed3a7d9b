/** Calls of the line for the routes: each with a time limit, each failure as an error of the catalogue. */
import Long from 'long';
import { ClientError, Metadata, Status } from 'nice-grpc';
import { type Clock, withLimit } from '../../../shared/base/clock.ts';
import { CODE_TRAILER, type ErrorCode, errorCatalogue, LinesideError, messageOf } from '../../../shared/base/errors.ts';
import type { LineClient } from '../../../shared/line-client/line-client.ts';
import { CALLER_NAME_HEADER, type lineside, serial } from '../../../shared/proto/services.ts';
import { LINE_ANSWER_MS, LINE_CHANGE_MS, LINE_HISTOGRAM_MS, LINE_SEND_MS } from '../limits.ts';

export class LineCalls {
  readonly #client: LineClient | undefined;
  readonly #clock: Clock;

  /** undefined: grpc.listen names no Unix socket to ask the line on. */
  constructor(client: LineClient | undefined, clock: Clock) {
    this.#client = client;
    this.#clock = clock;
  }

  status(signal?: AbortSignal): Promise<lineside.v1.LineStatus> {
    return this.#ask(LINE_ANSWER_MS, signal, ({ line }, options) => line.getStatus({}, options));
  }

  async ports(): Promise<readonly serial.SerialDevice[]> {
    return (await this.#ask(LINE_ANSWER_MS, undefined, ({ serial }, options) => serial.listDevices({}, options)))
      .devices;
  }

  async events(beforeId: number, limit: number): Promise<readonly lineside.v1.RecordedEvent[]> {
    const request = { beforeId: Long.fromNumber(beforeId, true), limit };
    return (await this.#ask(LINE_ANSWER_MS, undefined, ({ line }, options) => line.listEvents(request, options)))
      .events;
  }

  histogram(
    request: lineside.v1.LogHistogramRequest.$Properties,
    signal: AbortSignal,
  ): Promise<lineside.v1.LogHistogram> {
    return this.#ask(LINE_HISTOGRAM_MS, signal, ({ line }, options) => line.getLogHistogram(request, options));
  }

  /** `by`: the caller's name, for the line's records. */
  async open(request: lineside.v1.OpenRequest.$Properties, by: string): Promise<void> {
    const metadata = named(by);
    await this.#ask(LINE_CHANGE_MS, undefined, ({ line }, options) => line.open(request, { ...options, metadata }));
  }

  async close(by: string): Promise<void> {
    const metadata = named(by);
    await this.#ask(LINE_CHANGE_MS, undefined, ({ serial }, options) => serial.close({}, { ...options, metadata }));
  }

  /** `signal`: the caller disconnected; a packet that has not reached the port is not sent then. */
  async send(payload: Uint8Array, signal: AbortSignal): Promise<void> {
    await this.#ask(LINE_SEND_MS, signal, ({ serial }, options) => serial.sendPacket({ payload }, options));
  }

  /** Pass what the stream throws to failureOf(). */
  readLog(
    request: lineside.v1.ReadLogRequest.$Properties,
    options: { readonly signal: AbortSignal; readonly onHeader: () => void },
  ): AsyncIterable<lineside.v1.LogBatch> {
    return this.#known().line.readLog(request, options);
  }

  /** As readLog(). */
  searchLog(
    request: lineside.v1.SearchLogRequest.$Properties,
    options: { readonly signal: AbortSignal },
  ): AsyncIterable<lineside.v1.SearchLogResponse> {
    return this.#known().line.searchLog(request, options);
  }

  /** As readLog(). `by`: as of open(), for a hold. */
  session(
    requests: AsyncIterable<lineside.v1.SessionRequest.$Properties>,
    by: string,
    signal: AbortSignal,
  ): AsyncIterable<lineside.v1.SessionResponse> {
    return this.#known().line.session(requests, { signal, metadata: named(by) });
  }

  async #ask<T extends object>(
    limitMs: number,
    signal: AbortSignal | undefined,
    call: (client: LineClient, options: CallOptions) => Promise<T>,
  ): Promise<T> {
    const client = this.#known();
    let code: string | undefined;
    const onTrailer = (trailer: Metadata): void => {
      code = trailer.get(CODE_TRAILER);
    };
    try {
      const answer = await withLimit(this.#clock, limitMs, signal, (limit) =>
        call(client, { signal: limit, onTrailer }),
      );
      const refusal = 'status' in answer ? refusalOf(answer as unknown as Refusable, code) : undefined;
      if (refusal !== undefined) throw refusal;
      return answer;
    } catch (error) {
      throw failureOf(error, code);
    }
  }

  #known(): LineClient {
    if (this.#client !== undefined) return this.#client;
    throw unreachable('grpc.listen names no Unix socket to ask it on');
  }
}

function named(by: string): Metadata {
  return new Metadata({ [CALLER_NAME_HEADER]: by });
}

interface CallOptions {
  readonly signal: AbortSignal;
  readonly onTrailer: (trailer: Metadata) => void;
}

type Refusable = Pick<serial.ConfigResponse, 'status' | 'error'>;

/** Of an answer with a status of the contract, which does not distinguish a port in use from one that failed. */
export function refusalOf({ status, error }: Refusable, code: string | undefined): LinesideError | undefined {
  if (status === serial.StatusCode.OK) return undefined;
  return new LinesideError(known(code) ?? byContract[status] ?? 'PORT_IO', error);
}

export function failureOf(thrown: unknown, code: string | undefined): LinesideError {
  if (thrown instanceof LinesideError) {
    return thrown.code === 'REQUEST_TIMEOUT' ? unreachable(thrown.message, thrown) : thrown;
  }
  if (!(thrown instanceof ClientError)) return unreachable(messageOf(thrown), thrown);
  const meant = known(code) ?? byStatus[thrown.code];
  if (meant === undefined) return unreachable(thrown.details, thrown);
  return new LinesideError(meant, thrown.details, { cause: thrown });
}

export function unreachable(why: string, cause?: unknown): LinesideError {
  return new LinesideError('NOT_READY', `the line does not answer: ${why}`, {
    cause,
    hint: 'is it running? see "lineside status" and the journal of lineside.service',
  });
}

function known(code: string | undefined): ErrorCode | undefined {
  return code !== undefined && Object.hasOwn(errorCatalogue, code) ? (code as ErrorCode) : undefined;
}

const byContract: Readonly<Partial<Record<serial.StatusCode, ErrorCode>>> = {
  [serial.StatusCode.INVALID_ARGUMENT]: 'INVALID_ARGUMENT',
  [serial.StatusCode.NOT_FOUND]: 'PORT_NOT_FOUND',
  [serial.StatusCode.NOT_CONNECTED]: 'NOT_CONNECTED',
};

const byStatus: Readonly<Partial<Record<Status, ErrorCode>>> = {
  [Status.INVALID_ARGUMENT]: 'INVALID_ARGUMENT',
  [Status.RESOURCE_EXHAUSTED]: 'TOO_MANY',
  [Status.OUT_OF_RANGE]: 'LOG_REPLACED',
  [Status.DATA_LOSS]: 'LOG_LOST',
  [Status.FAILED_PRECONDITION]: 'NOT_CONNECTED',
};
