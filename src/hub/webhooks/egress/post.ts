/** One POST by got over a lane's connections: its status, and what of its answer is kept. */
import type { ClientRequest } from 'node:http';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import type { Request } from 'got';
import got from 'got';
import type { Clock } from '../../../shared/base/clock.ts';
import { ignoreError, type RequestContext } from './dial.ts';
import type { AgentOptions, SubscriberAgent } from './subscriber-agents.ts';

/** The journey of an attempt, with what its end depends on. */
export interface SendContext extends RequestContext {
  /** The request went to a connection that had been kept. */
  reused: boolean;
  /** At least a byte of an answer has come. */
  answered: boolean;
  status: number | undefined;
  sent(): void;
}

export interface Post {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly agent: SubscriberAgent;
  readonly sendContext: SendContext;
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
  const { sendContext } = call;
  let native: ClientRequest | undefined;
  return new Promise((resolve, reject) => {
    const stream = got.stream(call.url, {
      method: 'POST',
      headers: { ...call.headers, 'content-length': String(call.body.length) },
      signal: sendContext.signal,
      followRedirect: false,
      throwHttpErrors: false,
      decompress: false,
      retry: { limit: 0 },
      // The lane dials addresses that are judged already: whatever else would ask for a name gets none.
      dnsLookup: refuseLookup,
      request: (url, options) => {
        native = requestOver(call, url, options);
        return native;
      },
    });
    // It stays: once there is a status, an error is the answer's to tell; after the end, it must not be an unhandled one.
    stream.on('error', (error) => {
      // got's own error says less than the one that it is about.
      if (sendContext.status === undefined) reject(error.cause instanceof Error ? error.cause : error);
    });
    stream.once('close', () => {
      if (sendContext.status === undefined) reject(new Error('closed'));
    });
    // Not as got's option "body": that is sent in pieces with turns of the loop between, and a subscriber that answers before
    // got has called the request ended (one busy turn of ours is enough) loses its connection.
    stream.end(call.body);
    const switched = (status: number, socket: Socket): void => {
      sendContext.status = status;
      resolve({ status, answer: { kept: Buffer.alloc(0), end: 'cut' } });
      socket.destroy();
      stream.destroy();
    };
    // got listens for it, so that Node leaves the connection to a listener, of which there is none.
    stream.once('upgrade', (response: { statusCode: number }, socket: Socket) => switched(response.statusCode, socket));
    stream.once('response', ({ statusCode, socket }) => {
      // A 101 that names no protocol is an answer to Node, which would keep the connection.
      if (statusCode < 200) return switched(statusCode, socket);
      sendContext.status = statusCode;
      sendContext.enter('read');
      readAnswer(stream).then((answer) => {
        resolve({ status: statusCode, answer });
        if (answer.end !== 'whole') stream.destroy();
        else if (native?.writableFinished === false) letFinish(native, stream, call.clock);
      }, reject);
    });
  });
}

/**
 * Answered before Node knows that the whole request is out: mostly it is, and says so in a moment. One whose rest the other
 * side does not take would go on holding the connection.
 */
function letFinish(request: ClientRequest, stream: Request, clock: Clock): void {
  const timer = clock.timer(lateRequestMs, () => stream.destroy());
  const done = (): void => timer.cancel();
  request.once('finish', done);
  request.once('close', done);
}

function requestOver({ agent, sendContext, fresh }: Post, url: URL, options: RequestOptions): ClientRequest {
  agent.prune(sendContext.target, fresh);
  const native: AgentOptions = { ...options, agent: agent, requestContext: sendContext };
  const request = httpsRequest(url, native);
  request.on('error', ignoreError);
  // Node emits it before it writes the first byte.
  request.once('socket', (socket) => {
    sendContext.reused = request.reusedSocket;
    sendContext.answered = false;
    if (!agent.leadsTo(socket, sendContext.target)) {
      request.destroy(new Error('a kept connection that leads elsewhere'));
      return;
    }
    socket.once('data', () => {
      sendContext.answered = true;
    });
    sendContext.enter('send');
  });
  request.once('finish', () => sendContext.sent());
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

// An answer's body is read within bounds, whatever the other side sends: what it says beyond its status is for people alone.

/** Enough of an error page to see what it is about. */
const keptAnswerBytes = 4 * 1024;
/** Read on so far, so that the connection of an ordinary answer can be kept; then it is cut. */
const readAnswerBytes = 64 * 1024;

interface Answer {
  /** The first keptAnswerBytes. */
  readonly kept: Buffer;
  /** whole: to its end. cut: by us, at readAnswerBytes. broken: by the other side, before its end. */
  readonly end: 'whole' | 'cut' | 'broken';
}

/** Never rejects. `body` is destroyed where it is cut. */
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
