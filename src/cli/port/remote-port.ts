/** The line's open port as a program elsewhere uses it: a Session whose packets, commands and received bytes have a face of calls. */
import { type Client, ClientError } from 'nice-grpc';
import { endsWithin, systemClock } from '../../shared/base/clock.ts';
import { LinesideError, messageOf } from '../../shared/base/errors.ts';
import { type LineServiceDefinition, type lineside, serial } from '../../shared/proto/services.ts';
import { checkAnswer } from '../connection/service.ts';
import { CliFailure } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { portStateName } from '../output/json.ts';
import type { Call } from '../shell.ts';
import { type Settings, settingsOf } from './rfc2217.ts';

/** As much again waits on the box before it counts as lost. */
const MAX_UNTAKEN_BYTES = 256 * 1024;
/** What the answer to the end of a hold may take. */
const RELEASE_MS = 1_000;

type Request = lineside.v1.SessionRequest.$Properties;
type Command = lineside.v1.LineCommand.$Properties;
type Result = lineside.v1.CommandResult.$Shape;
type Answer = { readonly status: serial.StatusCode; readonly error: string };

export interface RemotePortEvents {
  /** Bytes as the port received them, in order with event(); neither is called again until it resolves. */
  received(bytes: Uint8Array): void | Promise<void>;
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
  #holds = false;
  /** Received, and not taken by the events yet. */
  #untakenBytes = 0;
  #delivered: Promise<void> = Promise.resolve();
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

  /** Packets and commands that have no answer yet. */
  get unanswered(): number {
    return this.#waiting.length;
  }

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

  /** Takes the line for this port alone; answers the ticket with which another RemotePort takes this hold up again. */
  async hold(ticket = ''): Promise<string> {
    const result = await this.command({ hold: { ticket } });
    this.#holds = true;
    return result.ticket ?? '';
  }

  /** Ends it, and its hold; what has no answer is rejected. */
  async end(): Promise<void> {
    // A box that does not answer ends the hold by itself.
    if (this.#holds && !this.#isEnding)
      await endsWithin(
        systemClock,
        RELEASE_MS,
        this.command({ release: {} }).catch(() => undefined),
      );
    this.#isEnding = true;
    this.#cancel.abort();
    this.#wake();
    // What is not taken may be waited for without an end.
    await endsWithin(systemClock, RELEASE_MS, this.ended);
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

  #deliver(bytes: number, take: () => void | Promise<void>): void {
    this.#untakenBytes += bytes;
    this.#delivered = this.#delivered
      .then(take)
      // Who takes is gone.
      .catch(() => this.#cancel.abort())
      .finally(() => {
        this.#untakenBytes -= bytes;
      });
  }

  async #run(responses: AsyncIterable<lineside.v1.SessionResponse.$Shape>): Promise<unknown> {
    let why: unknown;
    try {
      for await (const response of responses) {
        const { received, event } = response;
        if (received != null) this.#deliver(received.length, () => this.#events.received(received));
        else if (event != null) this.#deliver(0, () => this.#events.event(event));
        else this.#waiting.shift()?.done(response);
        // Answers go past what is not taken, up to here: a program that writes and does not read is not to wait for itself.
        if (this.#untakenBytes > MAX_UNTAKEN_BYTES) await this.#delivered;
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
  return new LinesideError(
    'NOT_SENT',
    `no answer from the box: ${endText(cause)}`,
    cause === undefined ? {} : { cause },
  );
}

// The same for a command: held, and given back at its end.

export interface TakenPort {
  readonly remote: RemotePort;
  /** With it the hold is taken up again. */
  readonly ticket: string;
  readonly settings: Settings;
  /** "/dev/ttyUSB0". */
  readonly name: string;
}

/** What programs write waits here until the box has taken it, at most so much, in at most so many packets and commands. */
export const maxUnansweredBytes = 64 * 1024;
const maxUnanswered = 256;

/** Nothing more is to be taken from the program now. */
export function isFull({ unansweredBytes, unanswered }: RemotePort): boolean {
  return unansweredBytes >= maxUnansweredBytes || unanswered >= maxUnanswered;
}

interface Take {
  readonly events: RemotePortEvents;
  /** See RemotePort. */
  readonly modemLines: boolean;
  /** '': a new hold. */
  readonly ticket: string;
}

/** Takes the line with a hold. Throws CliFailure: it is not open, has a packet size, is HELD, or the connection was LOST. */
export async function takePort(call: Call<object>, { events, modemLines, ticket }: Take): Promise<TakenPort> {
  const { requested, effective } = await call.line(({ line }, options) => line.getStatus({}, options));
  if (requested == null || effective == null) checkAnswer({ status: 4, error: 'no port is open' });
  if (requested?.packetSize)
    throw new CliFailure('refused', 'PACKET_SIZE', `the port is open for packets of ${requested.packetSize} bytes`, {
      next: 'Open it without --packet-size: programs send any number of bytes.',
    });
  const { line } = await (await call.service()).channel();
  const remote = new RemotePort(line, modemLines, events);
  let held: string;
  try {
    held = await remote.hold(ticket);
  } catch (error) {
    await remote.end();
    const isLost = error instanceof LinesideError && error.code === 'NOT_SENT';
    const [outcome, code] = isLost ? (['unreachable', 'LOST'] as const) : (['refused', 'HELD'] as const);
    throw new CliFailure(outcome, code, safeText(messageOf(error)));
  }
  return { remote, ticket: held, settings: settingsOf(effective ?? {}), name: safeText(requested?.portName ?? '') };
}

/** Why a RemotePort has ended, in words. */
export function endText(why: unknown): string {
  if (why === undefined) return 'the connection was ended';
  return safeText(why instanceof ClientError ? why.details : messageOf(why));
}

/** The port is not open any more: the program is to see it as a hang-up. */
export function isGone({ portState }: lineside.v1.LineEvent.$Shape): boolean {
  return portState != null && portStateName(portState) !== 'open';
}
