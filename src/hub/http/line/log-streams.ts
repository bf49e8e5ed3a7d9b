/** The streams of the log that are open over HTTP: bounded in number, authenticated again while they last, ended together at the stop. */
import type { Clock, Timer } from '../../../shared/base/clock.ts';
import { asLinesideError, LinesideError } from '../../../shared/base/errors.ts';
import { LOG_STREAMS, STREAM_REAUTHENTICATE_MS } from '../limits.ts';

/** follow: goes on until either side ends it. page: ends by itself, however slowly it is read. */
export type StreamKind = keyof typeof LOG_STREAMS;

export interface StreamRequest {
  readonly kind: StreamKind;
  /** Who reads, and from where. */
  readonly reader: string;
  /** Rejects where the reader may not go on. */
  readonly authenticate: () => Promise<unknown>;
}

export interface LogStream {
  /** Fires when the stream is over. If the service ended it, `reason` is the LinesideError that says why. */
  readonly signal: AbortSignal;
  /** The client is gone, or has all of it. */
  close(): void;
}

export class LogStreams {
  readonly #clock: Clock;
  readonly #refused: (reader: string, reason: string) => void;
  readonly #open = new Set<OpenStream>();
  /** Why there are none any more. */
  #over: LinesideError | undefined;

  /** `refused`: told of each that was ended because its reader may not go on. */
  constructor(clock: Clock, refused: (reader: string, reason: string) => void) {
    this.#clock = clock;
    this.#refused = refused;
  }

  /** Open now, of each kind. */
  count(kind: StreamKind): number {
    return this.#of(kind).length;
  }

  /** TOO_MANY where there is no room; after endAll(), its reason. */
  open(request: StreamRequest): LogStream {
    // Of a request that was let in before: it would hold up the stop.
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
    const stream = new OpenStream(request, this.#clock, (reason) => this.#refused(reader, reason));
    this.#open.add(stream);
    return { signal: stream.signal, close: () => this.#close(stream) };
  }

  endAll(reason: LinesideError): void {
    this.#over = reason;
    for (const stream of this.#open) stream.end(reason);
  }

  #close(stream: OpenStream): void {
    this.#open.delete(stream);
    stream.end();
  }

  #of(kind: StreamKind): OpenStream[] {
    return [...this.#open].filter((stream) => stream.request.kind === kind);
  }
}

class OpenStream {
  readonly request: StreamRequest;
  readonly #clock: Clock;
  readonly #over = new AbortController();
  readonly #refused: (reason: string) => void;
  #timer: Timer;

  constructor(request: StreamRequest, clock: Clock, refused: (reason: string) => void) {
    this.request = request;
    this.#clock = clock;
    this.#refused = refused;
    this.#timer = this.#reauthenticateLater();
  }

  get signal(): AbortSignal {
    return this.#over.signal;
  }

  /** Still counts until the client has taken what is left, or was cut off. */
  end(reason?: LinesideError): void {
    this.#timer.cancel();
    this.#over.abort(reason);
  }

  #reauthenticateLater(): Timer {
    return this.#clock.timer(STREAM_REAUTHENTICATE_MS, () => {
      this.request.authenticate().then(
        () => {
          if (!this.#over.signal.aborted) this.#timer = this.#reauthenticateLater();
        },
        (error: unknown) => {
          if (this.#over.signal.aborted) return;
          const reason = asLinesideError(error);
          this.#refused(reason.message);
          this.end(reason);
        },
      );
    });
  }
}
