/** The streams of the log that are open over HTTP: bounded in number, authenticated again while they last, ended together at the stop. */
import { type Clock, pause } from '../../../shared/base/clock.ts';
import { asLinesideError, LinesideError } from '../../../shared/base/errors.ts';
import { LOG_STREAMS, STREAM_REAUTHENTICATE_MS } from '../limits.ts';

/** follow: continues until either side ends it. page: completes, however slowly it is read. */
export type StreamKind = keyof typeof LOG_STREAMS;

export interface StreamRequest {
  readonly kind: StreamKind;
  /** The caller and its address. */
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
  readonly #refused: (reader: string, reason: string) => void;
  readonly #open = new Set<OpenStream>();
  /** Set by endAll(). */
  #over: LinesideError | undefined;

  /** `refused`: called for each stream that was ended because its reader may not continue. */
  constructor(clock: Clock, refused: (reader: string, reason: string) => void) {
    this.#clock = clock;
    this.#refused = refused;
  }

  /** Open now, of each kind. */
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
      const what = kind === 'follow' ? 'streams of the log' : 'pages of the log';
      throw new LinesideError('TOO_MANY', `${full} ${what} are being read already`, {
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
        this.#refused(request.reader, reason.message);
        over.abort(reason);
      }
    }
  }
}
