/**
 * The connections of one listener: their number, the order of their requests, problems for requests that Node cannot parse,
 * clients that do not read their answers, and the end of all of them when the service stops.
 */
import { type IncomingMessage, type RequestListener, type Server, ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock, Timer } from '../../shared/base/clock.ts';
import { LinesideError, systemCode } from '../../shared/base/errors.ts';
import type { AddressShare } from '../../shared/base/listeners.ts';
import { MAX_UNANSWERED, SLOW_STALLED_MS } from './limits.ts';
import { problemHeaders, problemOf } from './problem.ts';

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

interface Open {
  isSilent: boolean;
  /** In the order of the requests; the first is being answered. */
  readonly unanswered: Exchange[];
  /** Unanswered requests and those answered within this turn of the event loop: a client that waits has not seen these answers. */
  count: number;
  /** Bytes written that the kernel has taken, and since when the number has not changed. */
  taken: number;
  sinceMs: number;
}

export interface ConnectionEvents {
  readonly clock: Clock;
  readonly request: RequestListener;
  /** Called for each request that never reached `request`. */
  readonly broken: (status: number) => void;
  /** Called for each connection that is closed because it passed a limit. */
  readonly dropped: (peer: string, why: string) => void;
}

interface ConnectionsOptions extends ConnectionEvents {
  /** A client that has not read its answers for so long is disconnected. */
  readonly stalledMs: number;
  /** undefined: each address may have all connections. */
  readonly share: AddressShare | undefined;
}

/** What came behind the head of a request for another protocol; undefined: it is a usual request. */
const behindUpgrade = new WeakMap<IncomingMessage, Buffer>();

export function bytesBehindUpgrade(request: IncomingMessage): Buffer | undefined {
  return behindUpgrade.get(request);
}

/** Answers that may take a slow link long; their route bounds their number. */
const slow = new WeakSet<ServerResponse>();

export function mayBeSlow(response: ServerResponse): void {
  slow.add(response);
}

/** Requests whose body may take longer than http.request_timeout_ms to arrive; their route has limits of its own. */
const long = new WeakSet<IncomingMessage>();

export function mayArriveSlowly(request: IncomingMessage): void {
  long.add(request);
}

export class Connections {
  readonly #o: ConnectionsOptions;
  /** TCP connections; with TLS also those whose handshake is under way. */
  readonly #sockets = new Set<Socket>();
  /** Those that can carry requests; with TLS, the sockets on top. */
  readonly #open = new Map<Socket, Open>();
  #check: Timer;
  #made = 0;

  constructor(server: Server, isTls: boolean, options: ConnectionsOptions) {
    this.#o = options;
    server.on('connection', (socket: Socket) => this.#admit(socket));
    server.on(isTls ? 'secureConnection' : 'connection', (socket: Socket) => this.#add(socket));
    const take: RequestListener = (request, response) => this.#take({ request, response });
    // The app asks a client for the body once it wants it; other expectations are not worth a refusal.
    for (const event of ['request', 'checkContinue', 'checkExpectation']) server.on(event, take);
    server.on('upgrade', (request, socket: Socket, head) => this.#upgrade(request, socket, head));
    server.on('clientError', (error: Error, socket: Socket) => this.#refuse(error, socket));
    this.#check = this.#checkLater();
  }

  get count(): number {
    return this.#sockets.size;
  }

  /** Ends those without any request; Node itself ends those between two requests. */
  endSilent(): void {
    for (const [socket, { isSilent }] of this.#open) if (isSilent && socket.bytesRead === 0) socket.destroy();
  }

  cut(): void {
    for (const socket of [...this.#open.keys(), ...this.#sockets]) socket.destroy();
  }

  stop(): void {
    this.#check.cancel();
  }

  #admit(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    if (this.#o.share?.admits(socket) === false) {
      this.#drop(socket, 'this address has its share of http.max_connections');
    }
  }

  #drop(socket: Socket, why: string): void {
    this.#o.dropped(socket.remoteAddress ?? 'unix', why);
    socket.destroy();
  }

  #add(socket: Socket): void {
    this.#open.set(socket, { isSilent: true, unanswered: [], count: 0, taken: 0, sinceMs: this.#o.clock.monoMs() });
    socket.once('close', () => this.#open.delete(socket));
  }

  /** Node hands over all requests of one read at once, thousands of them, also those behind a closed connection. */
  #take(exchange: Exchange): void {
    const { socket } = exchange.request;
    const open = this.#open.get(socket);
    if (open === undefined || socket.destroyed) return;
    if (open.count >= MAX_UNANSWERED) {
      this.#drop(socket, `more than ${MAX_UNANSWERED} requests without an answer`);
      stopParser(socket);
      return;
    }
    open.isSilent = false;
    open.count += 1;
    open.unanswered.push(exchange);
    if (open.unanswered.length === 1) this.#answer(socket, open);
  }

  /** To the app as any other request; its handler gives the socket to the other protocol, or answers, which ends the connection. */
  #upgrade(request: IncomingMessage, socket: Socket, head: Buffer): void {
    socket.on('error', () => socket.destroy());
    const open = this.#open.get(socket);
    // Answers to earlier requests would stand between the frames.
    if (open === undefined || open.unanswered.length > 0) {
      socket.destroy();
      return;
    }
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket);
    response.once('finish', () => socket.destroySoon());
    behindUpgrade.set(request, head);
    this.#take({ request, response });
  }

  /** One at a time: answers leave in this order anyway, and 16 large ones would wait in memory for a slow client. */
  #answer(socket: Socket, open: Open): void {
    const [first] = open.unanswered;
    if (first === undefined || socket.destroyed) return;
    const { request, response } = first;
    response.once('close', () => {
      open.unanswered.shift();
      setImmediate(() => {
        open.count -= 1;
      });
      this.#answer(socket, open);
    });
    const fault = faultOfHead(request);
    if (fault === undefined) this.#o.request(request, response);
    else this.#answerFault(response, fault);
  }

  #answerFault(response: ServerResponse, fault: LinesideError): void {
    const { problem, body, headers } = this.#problem(fault);
    response.writeHead(problem.status, headers).end(body);
  }

  #checkLater(): Timer {
    const { clock, stalledMs } = this.#o;
    return clock.timer(stalledMs / 2, () => {
      for (const [socket, open] of this.#open) this.#endIfStalled(socket, open);
      this.#check = this.#checkLater();
    });
  }

  /** By what the client reads, not by what it sends: it may continue to send requests. */
  #endIfStalled(socket: Socket, open: Open): void {
    const nowMs = this.#o.clock.monoMs();
    const taken = socket.bytesWritten - socket.writableLength;
    if (socket.writableLength === 0 || taken !== open.taken) {
      open.taken = taken;
      open.sinceMs = nowMs;
    } else if (nowMs - open.sinceMs >= this.#stalledMs(open)) {
      socket.destroy();
    }
  }

  #stalledMs({ unanswered: [first] }: Open): number {
    return first !== undefined && slow.has(first.response) ? SLOW_STALLED_MS : this.#o.stalledMs;
  }

  #refuse(error: Error, socket: Socket): void {
    const open = this.#open.get(socket);
    // A TLS handshake that failed or timed out: there is no channel for an answer.
    if (open === undefined) {
      socket.destroy();
      return;
    }
    const [first] = open.unanswered;
    // Node says it once for each request.
    if (systemCode(error) === 'ERR_HTTP_REQUEST_TIMEOUT' && first !== undefined && long.has(first.request)) return;
    // Whole requests before the one that cannot be parsed still get their answers.
    const last = open.unanswered.findLast(({ request }) => request.complete)?.response;
    if (last !== undefined && !last.writableFinished && systemCode(error).startsWith('HPE_')) {
      last.once('finish', () => socket.destroySoon());
      return;
    }
    const isAnswering = open.unanswered.some(({ response }) => response.headersSent);
    if (!socket.writable || isAnswering || systemCode(error) === 'ECONNRESET') {
      socket.destroy();
      return;
    }
    const fault = faultOf(systemCode(error));
    const { problem, body, headers } = this.#problem(fault);
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.end(`HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}\r\n${lines.join('')}\r\n${body}`);
    // The client has its answer, and may continue to send without end.
    socket.destroySoon();
  }

  /** The answer to a request that does not reach the app, and the end of its connection. */
  #problem(fault: LinesideError) {
    this.#made += 1;
    const problem = problemOf(fault, `unread-${this.#made}`);
    const body = JSON.stringify(problem);
    this.#o.broken(problem.status);
    const headers = { ...problemHeaders(fault.code), 'content-length': Buffer.byteLength(body), connection: 'close' };
    return { problem, body, headers };
  }
}

/**
 * Node parses on to the end of its read when the socket is destroyed: 2,000 requests as objects, 10 MB. Its parser, which it
 * keeps on the socket, stops at a negative answer. If a later version hides the parser, only this saving is lost.
 */
function stopParser(socket: Socket): void {
  const parser: unknown = Reflect.get(socket, 'parser');
  if (typeof parser === 'object' && parser !== null) Reflect.set(parser, 'onIncoming', () => -1);
}

/** Faults that Node's parser accepts: HTTP/0.9, and a second Host, which a proxy may have judged instead of the first (RFC 9112, 3.2). */
function faultOfHead({ httpVersionMajor, rawHeaders }: IncomingMessage): LinesideError | undefined {
  if (httpVersionMajor < 1) return new LinesideError('MALFORMED', 'the request line names no HTTP version');
  const hosts = rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === 'host').length;
  return hosts > 1 ? new LinesideError('MALFORMED', 'the request has more than one Host header') : undefined;
}

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
