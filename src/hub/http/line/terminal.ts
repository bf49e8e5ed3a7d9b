/**
 * A terminal: a WebSocket as a Session of the line. Both directions are bounded: received bytes wait in the line while the client does
 * not take them, and the client is not read while the line has not answered what it sent.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import Long from 'long';
import { type WebSocket, WebSocketServer } from 'ws';
import type { Clock, Timer } from '../../../shared/base/clock.ts';
import { endsWithin } from '../../../shared/base/clock.ts';
import { LinesideError, messageOf } from '../../../shared/base/errors.ts';
import type { TerminalCommand, TerminalNotice } from '../../../shared/gen/http.ts';
import { portStates } from '../../../shared/proto/line-status.ts';
import { type lineside, serial } from '../../../shared/proto/services.ts';
import { check } from '../check.ts';
import { mayBeSlow } from '../connections.ts';
import {
  MAX_TERMINAL_BUFFERED_BYTES,
  MAX_TERMINAL_MESSAGE_BYTES,
  MAX_TERMINAL_UNANSWERED,
  TERMINAL_LOST_PINGS,
  TERMINAL_PING_MS,
  TERMINAL_SCROLLBACK_ENTRIES,
} from '../limits.ts';
import { invalid } from '../problem.ts';
import { terminalCommands } from '../schemas/line.ts';
import { failureOf, type LineCalls, refusalOf, unreachable } from './line-calls.ts';
import type { LogStream } from './line-log.ts';

type Request = lineside.v1.SessionRequest.$Properties;
type Result = lineside.v1.CommandResult;
type CommandName = TerminalCommand['type'];

interface TerminalParts {
  readonly line: LineCalls;
  /** It is closed with the WebSocket. */
  readonly stream: LogStream;
  readonly clock: Clock;
  /** The caller's name, for a hold. */
  readonly by: string;
}

interface Upgrade {
  readonly request: IncomingMessage;
  readonly reply: ServerResponse;
  readonly head: Buffer;
}

/** Returns when the WebSocket is open. MALFORMED: this is no handshake of one. */
export function runTerminal({ request, reply, head, ...parts }: TerminalParts & Upgrade): void {
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: MAX_TERMINAL_MESSAGE_BYTES,
  });
  let fault: Error | undefined;
  server.once('wsClientError', (error) => {
    fault = error;
  });
  server.handleUpgrade(request, request.socket, head, (socket) => {
    reply.detachSocket(request.socket);
    mayBeSlow(reply);
    void new Terminal(socket, parts).run();
  });
  // The server calls back before it returns.
  if (fault !== undefined) throw new LinesideError('MALFORMED', `this is no WebSocket handshake: ${messageOf(fault)}`);
}

/** In the order of the requests. */
interface Waiting {
  readonly what: 'bytes' | CommandName;
  readonly bytes: number;
  /** Instead of the notice that it is done. */
  readonly next?: () => void;
}

/** A client that leaves has its hold released, if the line answers within this. */
const RELEASE_MS = 1_000;
/** Close codes of a client that left: done, page closed, no code. Others are losses, after which a hold waits to be taken up again. */
const LEFT = new Set([1000, 1001, 1005]);

class Terminal {
  readonly #socket: WebSocket;
  readonly #o: TerminalParts;
  readonly #requests: Request[] = [
    { receive: { modemLines: true, afterLog: true } },
    {
      log: {
        last: true,
        limit: Long.fromNumber(TERMINAL_SCROLLBACK_ENTRIES, true),
        dirs: [serial.SerialLogEntry.Direction.RX],
        follow: true,
      },
    },
  ];
  readonly #waiting: Waiting[] = [];
  #unansweredBytes = 0;
  /** Of the log until then. */
  #isLive = false;
  #holds = false;
  #isBreaking = false;
  #break: Timer | undefined;
  #released = Promise.withResolvers<void>();
  #beat: Timer;
  #lostPings = 0;
  #wake = (): void => {};

  constructor(socket: WebSocket, parts: TerminalParts) {
    this.#socket = socket;
    this.#o = parts;
    this.#beat = this.#beatLater();
    parts.stream.signal.addEventListener('abort', () => this.#wake(), { once: true });
    socket.on('message', (data, isBinary) => this.#take(data as Buffer, isBinary));
    socket.on('pong', () => {
      this.#lostPings = 0;
    });
    // A message beyond the limit, a broken connection: the end follows.
    socket.on('error', () => {});
    socket.once('close', (code) => void this.#left(code));
  }

  async run(): Promise<void> {
    const { line, by, stream } = this.#o;
    try {
      for await (const response of line.session(this.#outgoing(), by, stream.signal)) await this.#respond(response);
      this.#end(unreachable('it ended the session'));
    } catch (error) {
      this.#end(failureOf(error, undefined));
    }
  }

  async *#outgoing(): AsyncGenerator<Request> {
    while (!this.#o.stream.signal.aborted) {
      const next = this.#requests.shift();
      if (next !== undefined) yield next;
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
    }
  }

  // From the line.

  async #respond({ received, log, event, sent, done }: lineside.v1.SessionResponse): Promise<void> {
    if (received != null) await this.#write(received);
    else if (event != null) await this.#event(event);
    else if (sent != null) this.#answered(sent);
    else if (done != null) this.#answered(done);
    else if (log != null && !this.#isLive) for (const { entry } of log.entries) await this.#write(entry.rawData);
  }

  async #event({ portState, modemLines }: lineside.v1.LineEvent): Promise<void> {
    if (portState != null) {
      this.#isLive = true;
      await this.#notify({ type: 'port', state: portStates[portState] ?? 'unknown' });
    }
    if (modemLines?.lines != null) await this.#notifyLines(modemLines.lines);
  }

  #notifyLines({ dtr, rts, cts, dsr, dcd, ri }: lineside.v1.ModemLines): Promise<void> {
    return this.#notify({ type: 'lines', dtr, rts, cts, dsr, dcd, ri });
  }

  #answered(answer: serial.SendResponse | Result): void {
    const waiting = this.#waiting.shift();
    if (waiting === undefined) return;
    const { what, bytes, next } = waiting;
    this.#unansweredBytes -= bytes;
    const refusal = refusalOf(answer, undefined);
    if (what === 'release') this.#released.resolve();
    if (what === 'break' && (next === undefined || refusal !== undefined)) this.#isBreaking = false;
    if (refusal !== undefined) this.#refused(what, bytes, refusal.message);
    else if (what === 'bytes') void this.#notify({ type: 'sent', bytes });
    else if (next !== undefined) next();
    else {
      if (what === 'hold' || what === 'release') this.#holds = what === 'hold';
      const { ticket, modemLines } = answer as Result;
      if (modemLines != null) void this.#notifyLines(modemLines);
      void this.#notify({ type: 'done', what, ...(what === 'hold' && { ticket }) });
    }
    this.#pace();
  }

  /** Resolves when the kernel has taken it, or the client is disconnected. */
  #write(message: Uint8Array | string): Promise<void> {
    return new Promise((resolve) => {
      if (this.#socket.readyState !== this.#socket.OPEN) return resolve();
      this.#socket.send(message, () => {
        resolve();
        this.#pace();
      });
    });
  }

  #notify(notice: TerminalNotice): Promise<void> {
    return this.#write(JSON.stringify(notice));
  }

  #refused(what: 'command' | Waiting['what'], bytes: number, message: string): void {
    void this.#notify({ type: 'refused', what, bytes, message });
  }

  // From the client.

  #take(data: Buffer, isBinary: boolean): void {
    if (isBinary) this.#ask({ what: 'bytes', bytes: data.length }, { send: { payload: data } });
    else {
      try {
        this.#command(commandOf(data.toString()));
      } catch (error) {
        const faults = error instanceof LinesideError ? error.reasons : [];
        this.#refused('command', 0, faults.length > 1 ? faults.join('; ') : messageOf(error));
      }
    }
    this.#pace();
  }

  #command(command: TerminalCommand): void {
    const { type: what } = command;
    const ask = (asked: lineside.v1.LineCommand.$Properties): void => this.#ask({ what, bytes: 0 }, { command: asked });
    if (command.type === 'break') this.#sendBreak(command.ms);
    else if (command.type === 'hold') ask({ hold: { ticket: command.ticket ?? '' } });
    else if (command.type === 'release') ask({ release: {} });
    else {
      const { dtr, rts } = command;
      ask({ modemLines: { ...(dtr !== undefined && { dtr }), ...(rts !== undefined && { rts }) } });
    }
  }

  /** The time counts from when the line has begun it. */
  #sendBreak(ms: number): void {
    const what = 'break';
    if (this.#isBreaking) return this.#refused(what, 0, 'a break is being sent already');
    this.#isBreaking = true;
    const end = (): void => this.#ask({ what, bytes: 0 }, { command: { break: false } });
    const begun = (): void => {
      this.#break = this.#o.clock.timer(ms, end);
    };
    this.#ask({ what, bytes: 0, next: begun }, { command: { break: true } });
  }

  #ask(waiting: Waiting, request: Request): void {
    this.#waiting.push(waiting);
    this.#unansweredBytes += waiting.bytes;
    this.#requests.push(request);
    this.#wake();
  }

  #pace(): void {
    const { bytes, messages } = MAX_TERMINAL_UNANSWERED;
    const isFull =
      this.#unansweredBytes >= bytes ||
      this.#waiting.length >= messages ||
      this.#socket.bufferedAmount >= MAX_TERMINAL_BUFFERED_BYTES;
    if (isFull) this.#socket.pause();
    else this.#socket.resume();
  }

  // Its end.

  #beatLater(): Timer {
    return this.#o.clock.timer(TERMINAL_PING_MS, () => {
      this.#beat = this.#beatLater();
      if (this.#lostPings >= TERMINAL_LOST_PINGS) return this.#socket.terminate();
      // Answers are not read while it is paused; a connection that was closed fails then.
      if (!this.#socket.isPaused) this.#lostPings += 1;
      this.#socket.ping();
      if (this.#socket.bufferedAmount < MAX_TERMINAL_BUFFERED_BYTES) void this.#notify({ type: 'alive' });
    });
  }

  /** The service or the line ends it. */
  #end(error: LinesideError): void {
    const { reason } = this.#o.stream.signal;
    const { code, message } = reason instanceof LinesideError ? reason : error;
    void this.#notify({ type: 'end', code, message });
    this.#socket.resume();
    this.#socket.close();
  }

  async #left(code: number): Promise<void> {
    const { clock, stream } = this.#o;
    this.#beat.cancel();
    this.#break?.cancel();
    if (this.#holds && LEFT.has(code) && !stream.signal.aborted) {
      this.#ask({ what: 'release', bytes: 0 }, { command: { release: {} } });
      await endsWithin(clock, RELEASE_MS, this.#released.promise);
    }
    stream.close();
  }
}

/** INVALID_ARGUMENT: it is no command; the message says why. */
function commandOf(text: string): TerminalCommand {
  const value = parsed(text);
  const isObject = typeof value === 'object' && value !== null;
  const type = isObject ? Reflect.get(value, 'type') : undefined;
  if (!isObject || typeof type !== 'string' || !Object.hasOwn(terminalCommands, type))
    throw invalid(
      `a text message must be a JSON object whose type is one of ${Object.keys(terminalCommands).join(', ')}`,
    );
  check(terminalCommands[type as CommandName], {}, { body: value, query: {} });
  return value as TerminalCommand;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
