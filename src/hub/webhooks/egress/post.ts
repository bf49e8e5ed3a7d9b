/** One POST by got over a subscriber's connections: its status, what is kept of its answer, and what ends it. */
import type { ClientRequest } from 'node:http';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import got, { type Request } from 'got';
import type { Clock } from '../../../shared/base/clock.ts';
import {
  type AgentOptions,
  ignoreError,
  type Phase,
  type RequestContext,
  type SubscriberAgent,
} from './connections.ts';
import type { Target } from './guard.ts';
import { cancelled, type Failure, failureOf, lateIn } from './outcome.ts';

/** What is known of an attempt under way, and what ends it: its deadline, or its caller. */
export class Attempt implements RequestContext {
  readonly host: string;
  target: Target = { hostname: '', port: 0, addresses: [] };
  phase: Phase = 'resolve';
  /** The request went to a connection that had been kept. */
  reused = false;
  /** At least a byte of an answer has come. */
  answered = false;
  status: number | undefined;
  /** Ends everything that is under way. */
  readonly signal: AbortSignal;
  readonly #late = new AbortController();
  readonly #timeoutMs: number;
  readonly #timer: { cancel(): void };
  readonly #caller: AbortSignal;

  constructor(host: string, timeoutMs: number, clock: Clock, caller: AbortSignal) {
    this.host = host;
    this.signal = AbortSignal.any([caller, this.#late.signal]);
    this.#timeoutMs = timeoutMs;
    this.#caller = caller;
    this.#timer = clock.timer(timeoutMs, () => this.#late.abort());
  }

  enter(phase: Phase): void {
    this.phase = phase;
  }

  /** An answer may come before the request is sent. */
  sent(): void {
    if (this.phase === 'send') this.phase = 'wait';
  }

  failureBy(error: unknown): Failure {
    if (this.#late.signal.aborted) {
      const late = lateIn(this.phase, this.host, this.#timeoutMs);
      // A connection that was kept is established on this side also when the network has gone.
      return this.reused && !this.answered ? { ...late, unreached: true } : late;
    }
    return this.#caller.aborted ? cancelled : failureOf(error, this.phase, this.host);
  }

  end(): void {
    this.#timer.cancel();
  }
}

interface Post {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly agent: SubscriberAgent;
  readonly attempt: Attempt;
  /** On a connection of its own, not on a kept one. */
  readonly fresh: boolean;
  readonly clock: Clock;
}

export interface Reply {
  readonly status: number;
  readonly answer: Answer;
}

/** 100, 102 and 103 are no answer; a peer that sends them without end is cut. */
const maxInformational = 32;
const lateRequestMs = 1_000;

/** Rejects with the error that ended it without a status, or before its answer could be read. */
export function post(call: Post): Promise<Reply> {
  const { attempt } = call;
  let native: ClientRequest | undefined;
  return new Promise((resolve, reject) => {
    const stream = got.stream(call.url, {
      method: 'POST',
      headers: { ...call.headers, 'content-length': String(call.body.length) },
      signal: attempt.signal,
      followRedirect: false,
      throwHttpErrors: false,
      decompress: false,
      retry: { limit: 0 },
      // The agent dials addresses that are checked already: whatever else would ask for a name gets none.
      dnsLookup: refuseLookup,
      request: (url, options) => {
        native = requestOver(call, url, options);
        return native;
      },
    });
    // It stays: once there is a status, an error is the answer's to tell; after the end, it must not be an unhandled one.
    stream.on('error', (error) => {
      // got's own error says less than the one that it is about.
      if (attempt.status === undefined) reject(error.cause instanceof Error ? error.cause : error);
    });
    stream.once('close', () => {
      if (attempt.status === undefined) reject(new Error('closed'));
    });
    // Not as got's option "body": that is sent in pieces with turns of the loop between, and a subscriber that answers before
    // got has called the request ended (one busy turn of ours is enough) loses its connection.
    stream.end(call.body);
    const switched = (status: number, socket: Socket): void => {
      attempt.status = status;
      resolve({ status, answer: { kept: Buffer.alloc(0), end: 'cut' } });
      socket.destroy();
      stream.destroy();
    };
    // got listens for it, so that Node leaves the connection to a listener, of which there is none.
    stream.once('upgrade', (response: { statusCode: number }, socket: Socket) => switched(response.statusCode, socket));
    stream.once('response', ({ statusCode, socket }) => {
      // A 101 that names no protocol is an answer to Node, which would keep the connection.
      if (statusCode < 200) return switched(statusCode, socket);
      attempt.status = statusCode;
      attempt.enter('read');
      readAnswer(stream).then((answer) => {
        resolve({ status: statusCode, answer });
        if (answer.end !== 'whole') stream.destroy();
        else if (native?.writableFinished === false) letFinish(native, stream, call.clock);
      }, reject);
    });
  });
}

/**
 * Answered before Node knows that the whole request is out: mostly it is, and says so in a moment. One whose rest the
 * subscriber does not take would keep holding the connection.
 */
function letFinish(request: ClientRequest, stream: Request, clock: Clock): void {
  const timer = clock.timer(lateRequestMs, () => stream.destroy());
  const done = (): void => timer.cancel();
  request.once('finish', done);
  request.once('close', done);
}

function requestOver({ agent, attempt, fresh }: Post, url: URL, options: RequestOptions): ClientRequest {
  agent.prune(attempt.target, fresh);
  const native: AgentOptions = { ...options, agent, requestContext: attempt };
  const request = httpsRequest(url, native);
  request.on('error', ignoreError);
  // Node emits it before it writes the first byte.
  request.once('socket', (socket) => {
    attempt.reused = request.reusedSocket;
    attempt.answered = false;
    if (!agent.leadsTo(socket, attempt.target)) {
      request.destroy(new Error('a kept connection that leads elsewhere'));
      return;
    }
    socket.once('data', () => {
      attempt.answered = true;
    });
    attempt.enter('send');
  });
  request.once('finish', () => attempt.sent());
  let informational = 0;
  const count = (): void => {
    informational += 1;
    if (informational > maxInformational) request.destroy(new EndlessInformation());
  };
  request.on('continue', count);
  request.on('information', count);
  return request;
}

class EndlessInformation extends Error {
  readonly code = 'HPE_ENDLESS_INFORMATION';
}

function refuseLookup(_hostname: string, ...rest: readonly unknown[]): void {
  const callback = rest.at(-1);
  if (typeof callback === 'function') callback(new Error('no name is looked up here'));
}

/** Enough of an error page to see what it is about. */
const keptAnswerBytes = 4 * 1024;
/** Read on so far, so that the connection of an ordinary answer can be kept; then it is cut. */
const readAnswerBytes = 64 * 1024;

interface Answer {
  /** The first keptAnswerBytes. */
  readonly kept: Buffer;
  /** whole: to its end. cut: by us, at readAnswerBytes. broken: by the subscriber, before its end. */
  readonly end: 'whole' | 'cut' | 'broken';
}

/** Within bounds, whatever the subscriber sends: the answer beyond its status is for people alone. Never rejects. */
function readAnswer(body: Readable): Promise<Answer> {
  const pieces: Buffer[] = [];
  let kept = 0;
  let read = 0;
  return new Promise((resolve) => {
    const settle = (end: Answer['end']): void => resolve({ kept: Buffer.concat(pieces), end });
    body.on('data', (piece: Buffer) => {
      read += piece.length;
      if (kept < keptAnswerBytes) {
        // A copy: the piece is a view that would hold the socket's whole buffer.
        const first = Buffer.from(piece.subarray(0, keptAnswerBytes - kept));
        pieces.push(first);
        kept += first.length;
      }
      if (read <= readAnswerBytes) return;
      settle('cut');
      body.destroy();
    });
    body.once('end', () => settle('whole'));
    body.once('error', () => settle('broken'));
    body.once('close', () => settle('broken'));
  });
}
