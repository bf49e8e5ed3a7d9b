/** The line's open port as a program elsewhere uses it: a Session whose packets, commands and received bytes have a face of calls. */
import { type Client, ClientError } from 'nice-grpc';
import { endsWithin, systemClock } from '../../shared/base/clock.ts';
import { messageOf } from '../../shared/base/errors.ts';
import type { LineServiceDefinition, lineside } from '../../shared/proto/services.ts';
import { checkAnswer, noOpenPort } from '../connection/service.ts';
import { CliFailure } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { portStateName } from '../output/json.ts';
import type { Call } from '../shell.ts';

/** What programs write waits here until the box has taken it, at most so much, in at most so many packets and commands. */
export const maxUnansweredBytes = 64 * 1024;
const maxUnanswered = 256;
/** As much again waits on the box before it counts as lost. */
const MAX_UNTAKEN_BYTES = 256 * 1024;
/** What the answer to the end of a hold may take. */
const RELEASE_MS = 1_000;

type Request = lineside.v1.SessionRequest.$Properties;
type Command = lineside.v1.LineCommand.$Properties;
type Result = lineside.v1.CommandResult;

export interface RemotePortEvents {
  /** Bytes as the port received them; none of these is called again until it resolves. What one throws ends the stream. */
  received(bytes: Uint8Array): void | Promise<void>;
  event(event: lineside.v1.LineEvent): void | Promise<void>;
  /** After readLog(). */
  log?(batch: lineside.v1.LogBatch): Promise<void>;
}

interface Waiting {
  readonly done: (answer: lineside.v1.SessionResponse) => void;
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
  #unansweredBytes = 0;
  /** Resolves when the stream has ended: why, undefined after end(). */
  readonly ended: Promise<unknown>;

  constructor(line: Pick<Client<typeof LineServiceDefinition>, 'session'>, events: RemotePortEvents) {
    this.#events = events;
    this.ended = this.#run(line.session(this.#outgoing(), { signal: this.#cancel.signal }));
  }

  /** Once: begins received() and event(). */
  receive(how: lineside.v1.ReceiveRequest.$Properties = {}): void {
    this.#request({ receive: how });
  }

  /** Once: begins log(), after this entry of this log. */
  followLog(after: Pick<lineside.v1.ReadLogRequest, 'afterId' | 'logId'>): void {
    this.#request({ log: { ...after, follow: true } });
  }

  /** Resolves when the events have taken all that came. */
  get delivered(): Promise<void> {
    return this.#delivered;
  }

  /** Nothing more is to be taken from the program now. */
  get isFull(): boolean {
    return this.#unansweredBytes >= maxUnansweredBytes || this.#waiting.length >= maxUnanswered;
  }

  /** Resolves when the box's kernel has accepted every byte. Rejects with a CliFailure, LOST without an answer; never sent twice. */
  async send(payload: Uint8Array): Promise<void> {
    this.#unansweredBytes += payload.length;
    try {
      const { sent } = await this.#ask({ send: { payload } });
      answered(sent);
    } finally {
      this.#unansweredBytes -= payload.length;
    }
  }

  async command(command: Command): Promise<Result> {
    const { done } = await this.#ask({ command });
    return answered(done);
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

  #ask(request: Request): Promise<lineside.v1.SessionResponse> {
    return new Promise((done, failed) => {
      if (this.#isEnding) return failed(gone(undefined));
      this.#waiting.push({ done, failed });
      this.#request(request);
    });
  }

  #request(request: Request): void {
    this.#requests.push(request);
    this.#wake();
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
      .catch((error: unknown) => this.#cancel.abort(error))
      .finally(() => {
        this.#untakenBytes -= bytes;
      });
  }

  async #run(responses: AsyncIterable<lineside.v1.SessionResponse>): Promise<unknown> {
    let why: unknown;
    try {
      for await (const response of responses) {
        const { received, event, log } = response;
        if (received != null) this.#deliver(received.length, () => this.#events.received(received));
        else if (event != null) this.#deliver(0, () => this.#events.event(event));
        else if (log != null) {
          this.#deliver(0, () => this.#events.log?.(log));
          // The box reads no more of its log until then.
          await this.#delivered;
        } else this.#waiting.shift()?.done(response);
        // Answers go past what is not taken, up to here: a program that writes and does not read is not to wait for itself.
        if (this.#untakenBytes > MAX_UNTAKEN_BYTES) await this.#delivered;
      }
    } catch (error) {
      if (!this.#isEnding) why = this.#cancel.signal.reason ?? error;
    }
    this.#isEnding = true;
    this.#wake();
    for (const { failed } of this.#waiting.splice(0)) failed(gone(why));
    return why;
  }
}

function answered<T extends Parameters<typeof checkAnswer>[0]>(answer: T | null): T {
  if (answer === null) throw new CliFailure('refused', 'INTERNAL', 'the box gave no answer');
  checkAnswer(answer);
  return answer;
}

function gone(cause: unknown): CliFailure {
  return new CliFailure('unreachable', 'LOST', `no answer from the box: ${endText(cause)}`, { cause });
}

// The same for a command: held, and given back at its end.

export interface TakenPort {
  readonly remote: RemotePort;
  /** With it the hold is taken up again. */
  readonly ticket: string;
  readonly settings: lineside.v1.EffectiveSettings;
  /** "/dev/ttyUSB0". */
  readonly name: string;
}

/** Takes the line with a hold, a new one without a ticket. Throws CliFailure: it is not open, has a packet size, is held, or the connection was LOST. */
export async function takePort(
  call: Call<object>,
  events: RemotePortEvents,
  modemLines: boolean,
  ticket = '',
): Promise<TakenPort> {
  const { requested, effective } = await call.line(({ line }, options) => line.getStatus({}, options));
  if (requested === null || effective === null) throw noOpenPort();
  if (requested.packetSize !== 0)
    throw new CliFailure('refused', 'PACKET_SIZE', `the port is open for packets of ${requested.packetSize} bytes`, {
      next: 'Open it without --packet-size: programs send any number of bytes.',
    });
  const { line } = await (await call.service()).channel();
  const remote = new RemotePort(line, events);
  remote.receive({ modemLines });
  try {
    return { remote, ticket: await remote.hold(ticket), settings: effective, name: safeText(requested.portName) };
  } catch (error) {
    await remote.end();
    throw error;
  }
}

/** Why a RemotePort has ended, in words. */
export function endText(why: unknown): string {
  if (why === undefined) return 'the connection was ended';
  return safeText(why instanceof ClientError ? why.details : messageOf(why));
}

/** The port is not open any more: the program is to see it as a hang-up. */
export function isGone({ portState }: lineside.v1.LineEvent): boolean {
  return portState != null && portStateName(portState) !== 'open';
}
