/**
 * The connections of one listener: what Node says of broken requests as problems, clients that take nothing of their
 * answers, and how they end when the service stops.
 */
import type { RequestListener, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock, Timer } from '../../base/clock.ts';
import { LinesideError, systemCode } from '../../base/errors.ts';
import { SLOW_STALLED_MS } from './limits.ts';
import { problemHeaders, problemOf } from './problem.ts';

interface Open {
  /** Nothing was ever asked on it, it waits for its next request, or an answer is under way. */
  state: 'silent' | 'idle' | ServerResponse;
  /** Bytes that the client's side has taken of what was written, and since when it has been as many. */
  taken: number;
  sinceMs: number;
}

export interface ConnectionsOptions {
  /** A client that takes nothing of its answers for so long is cut off. */
  readonly stalledMs: number;
  readonly clock: Clock;
  /** Told of each request that never reached the app. */
  readonly broken: (status: number) => void;
}

/** Answers that may go over a slow link, of which their route bounds the number. */
const slow = new WeakSet<ServerResponse>();

export function mayBeSlow(response: ServerResponse): void {
  slow.add(response);
}

export class Connections {
  readonly #o: ConnectionsOptions;
  readonly #open = new Map<Socket, Open>();
  /** With TLS, those beneath; a handshake that never ends is known here only. */
  readonly #beneath = new Set<Socket>();
  #look: Timer;
  #made = 0;

  constructor(server: Server, isTls: boolean, options: ConnectionsOptions) {
    this.#o = options;
    server.on(isTls ? 'secureConnection' : 'connection', (socket: Socket) => this.#add(socket));
    if (isTls) server.on('connection', (socket: Socket) => this.#addBeneath(socket));
    const begin: RequestListener = (request, response) => this.#begin(request.socket, response);
    for (const event of ['request', 'checkContinue', 'checkExpectation']) server.on(event, begin);
    server.on('clientError', (error: Error, socket: Socket) => this.#refuse(error, socket));
    this.#look = this.#lookLater();
  }

  /** Open now; with TLS, those whose handshake is under way too. */
  get count(): number {
    return Math.max(this.#open.size, this.#beneath.size);
  }

  /** Ends those on which nothing was ever asked; Node itself ends those between two requests. */
  endSilent(): void {
    for (const [socket, { state }] of this.#open) if (state === 'silent' && socket.bytesRead === 0) socket.destroy();
  }

  /** Ends all that are left. */
  cut(): void {
    for (const socket of [...this.#open.keys(), ...this.#beneath]) socket.destroy();
  }

  stop(): void {
    this.#look.cancel();
  }

  #add(socket: Socket): void {
    this.#open.set(socket, { state: 'silent', taken: 0, sinceMs: this.#o.clock.monoMs() });
    socket.once('close', () => this.#open.delete(socket));
  }

  #addBeneath(socket: Socket): void {
    this.#beneath.add(socket);
    socket.once('close', () => this.#beneath.delete(socket));
  }

  #begin(socket: Socket, response: ServerResponse): void {
    const open = this.#open.get(socket);
    if (open === undefined) return;
    open.state = response;
    response.once('close', () => {
      if (open.state === response) open.state = 'idle';
    });
  }

  #lookLater(): Timer {
    const { clock, stalledMs } = this.#o;
    return clock.timer(stalledMs / 2, () => {
      for (const [socket, open] of this.#open) this.#judge(socket, open);
      this.#look = this.#lookLater();
    });
  }

  /** By what it takes, not by what it sends: it may go on asking. */
  #judge(socket: Socket, open: Open): void {
    const nowMs = this.#o.clock.monoMs();
    const taken = socket.bytesWritten - socket.writableLength;
    if (socket.writableLength === 0 || taken !== open.taken) {
      open.taken = taken;
      open.sinceMs = nowMs;
    } else if (nowMs - open.sinceMs >= this.#stalledMs(open)) {
      socket.destroy();
    }
  }

  #stalledMs({ state }: Open): number {
    return typeof state === 'object' && slow.has(state) ? SLOW_STALLED_MS : this.#o.stalledMs;
  }

  #refuse(error: Error, socket: Socket): void {
    const open = this.#open.get(socket);
    // A TLS handshake that failed or never ended: there is nothing that could carry an answer, nor the end of one.
    if (open === undefined) {
      socket.destroy();
      return;
    }
    const { state } = open;
    const answer = typeof state === 'object' ? state : undefined;
    // What cannot be read came behind a whole request: that one still gets its answer.
    if (
      answer !== undefined &&
      answer.req.complete &&
      !answer.writableFinished &&
      systemCode(error).startsWith('HPE_')
    ) {
      answer.once('finish', () => socket.destroySoon());
      return;
    }
    if (!socket.writable || answer?.headersSent === true || systemCode(error) === 'ECONNRESET') {
      socket.destroy();
      return;
    }
    this.#made += 1;
    const fault = faultOf(systemCode(error));
    const problem = problemOf(fault, `unread-${this.#made}`);
    const body = JSON.stringify(problem);
    const headers = { ...problemHeaders(fault.code), 'content-length': Buffer.byteLength(body), connection: 'close' };
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    this.#o.broken(problem.status);
    socket.end(`HTTP/1.1 ${problem.status} ${phrases[fault.code] ?? 'Bad Request'}\r\n${lines.join('')}\r\n${body}`);
    // It may go on sending for ever: it has been told.
    socket.destroySoon();
  }
}

const phrases: Readonly<Record<string, string>> = {
  REQUEST_TIMEOUT: 'Request Timeout',
  HEADERS_TOO_LARGE: 'Request Header Fields Too Large',
};

function faultOf(code: string): LinesideError {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new LinesideError('REQUEST_TIMEOUT', 'the request did not arrive whole in time', {
        hint: 'see http.request_timeout_ms',
      });
    case 'HPE_HEADER_OVERFLOW':
      return new LinesideError('HEADERS_TOO_LARGE', 'the request line and headers are too large');
    default:
      return new LinesideError('MALFORMED', 'this is not HTTP/1.1');
  }
}
