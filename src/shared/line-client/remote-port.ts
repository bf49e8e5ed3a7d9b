/** The line's open port as a program elsewhere uses it: a Session whose packets, commands and received bytes have a face of calls. */
import { type Client, ClientError } from 'nice-grpc';
import { LinesideError } from '../base/errors.ts';
import { type LineServiceDefinition, type lineside, serial } from '../proto/services.ts';

type Request = lineside.v1.SessionRequest.$Properties;
type Command = lineside.v1.LineCommand.$Properties;
type Result = lineside.v1.CommandResult.$Shape;
type Answer = { readonly status: serial.StatusCode; readonly error: string };

export interface RemotePortEvents {
  /** Bytes as the port received them, in order with event(). */
  received(bytes: Uint8Array): void;
  event(event: lineside.v1.LineEvent.$Shape): void;
}

interface Waiting {
  readonly done: (answer: lineside.v1.SessionResponse.$Shape) => void;
  readonly failed: (error: unknown) => void;
}

export class RemotePort {
  readonly #events: RemotePortEvents;
  readonly #cancel = new AbortController();
  /** Not handed to gRPC yet. */
  readonly #requests: Request[] = [];
  #wake = (): void => {};
  #isEnding = false;
  /** In the order of the requests. */
  readonly #waiting: Waiting[] = [];
  /** Resolves when the stream has ended: why, undefined after end(). */
  readonly ended: Promise<unknown>;

  /** The events begin at once. `modemLines`: also the changes of the modem lines. */
  constructor(
    line: Pick<Client<typeof LineServiceDefinition>, 'session'>,
    modemLines: boolean,
    events: RemotePortEvents,
  ) {
    this.#events = events;
    this.#requests.push({ receive: { modemLines } });
    this.ended = this.#run(line.session(this.#outgoing(), { signal: this.#cancel.signal }));
  }

  /** Bytes that were sent and have no answer yet. */
  unansweredBytes = 0;

  /** Resolves when the box's kernel has accepted every byte. Rejects with the box's reason; never sent twice. */
  async send(payload: Uint8Array): Promise<void> {
    this.unansweredBytes += payload.length;
    try {
      const { sent } = await this.#ask({ send: { payload } });
      check(sent);
    } finally {
      this.unansweredBytes -= payload.length;
    }
  }

  async command(command: Command): Promise<Result> {
    const { done } = await this.#ask({ command });
    check(done);
    return done as Result;
  }

  /** Ends it; what has no answer is rejected. */
  async end(): Promise<void> {
    this.#isEnding = true;
    this.#cancel.abort();
    this.#wake();
    await this.ended;
  }

  #ask(request: Request): Promise<lineside.v1.SessionResponse.$Shape> {
    return new Promise((done, failed) => {
      if (this.#isEnding) return failed(gone(undefined));
      this.#waiting.push({ done, failed });
      this.#requests.push(request);
      this.#wake();
    });
  }

  async *#outgoing(): AsyncGenerator<Request> {
    while (!this.#isEnding) {
      const next = this.#requests.shift();
      if (next !== undefined) yield next;
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
    }
  }

  async #run(responses: AsyncIterable<lineside.v1.SessionResponse.$Shape>): Promise<unknown> {
    let why: unknown;
    try {
      for await (const response of responses) {
        if (response.received != null) this.#events.received(response.received);
        else if (response.event != null) this.#events.event(response.event);
        else this.#waiting.shift()?.done(response);
      }
    } catch (error) {
      if (!this.#isEnding) why = error;
    }
    this.#isEnding = true;
    this.#wake();
    for (const { failed } of this.#waiting.splice(0)) failed(gone(why));
    return why;
  }
}

function check(answer: Partial<Answer> | null | undefined): void {
  if (answer?.status === serial.StatusCode.OK) return;
  throw new LinesideError('PORT_IO', answer?.error ?? 'the box gave no answer');
}

function gone(cause: unknown): LinesideError {
  const why = cause instanceof ClientError ? cause.details : 'the connection was ended';
  return new LinesideError('NOT_SENT', `no answer from the box: ${why}`, cause === undefined ? {} : { cause });
}
