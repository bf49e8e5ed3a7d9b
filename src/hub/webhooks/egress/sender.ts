/** One attempt to deliver: a signed POST by got, from name resolution to the answer's last byte within one timeout. */
import { createHmac } from 'node:crypto';
import type { ClientRequest } from 'node:http';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex, Readable } from 'node:stream';
import type { Request } from 'got';
import { type Clock, withLimit } from '../../../shared/base/clock.ts';
import { LinesideError, messageOf } from '../../../shared/base/errors.ts';
import { type Logger, silentLogger } from '../../../shared/base/logger.ts';
import type { Secrets } from '../subscriptions/subscription.ts';
import {
  type AgentOptions,
  type ConnectOptions,
  ignoreError,
  type RequestContext,
  readTrust,
  SubscriberAgent,
} from './connections.ts';
import type { EgressGuard, Target } from './guard.ts';
import {
  cancelled,
  type Failure,
  failedOutcome,
  failureOf,
  isExpected,
  lateIn,
  notAccepted,
  type Outcome,
  truncated,
} from './outcome.ts';
import { type Resolver, unlessAborted } from './resolver.ts';

export interface Message {
  readonly deliveryId: string;
  readonly subscriptionName: string;
  readonly body: Buffer;
}

/** `agentKey`: owner of the kept connections (a subscription's id, or "ping"). */
export interface Destination {
  readonly url: string;
  readonly agentKey: string;
}

export interface SenderOptions {
  readonly egress: Pick<EgressGuard, 'target' | 'mayCall'>;
  readonly resolver: Pick<Resolver, 'forget'>;
  /** For an attempt, from the name's resolution to the answer's last byte. */
  readonly timeoutMs: number;
  /** '': only Node's roots. */
  readonly caFile: string;
  readonly version: string;
  readonly clock: Clock;
  readonly logger?: Logger;
}

const accepting: readonly number[] = [200, 201, 202, 204];

export class Sender {
  readonly #options: SenderOptions;
  readonly #connectOptions: ConnectOptions;
  readonly #agents = new Map<string, SubscriberAgent>();
  readonly #kept = new Set<Duplex>();

  /** Throws CONFIG_INVALID for caFile. */
  constructor(options: SenderOptions) {
    this.#options = options;
    const { egress, clock, caFile } = options;
    this.#connectOptions = { egress, clock, trust: readTrust(caFile) };
  }

  /** Never rejects, and completes within the timeout. `signal`: the caller needs no outcome any more. */
  async send(to: Destination, secrets: Secrets, message: Message, signal: AbortSignal): Promise<Outcome> {
    const { clock, timeoutMs } = this.#options;
    const begunMs = clock.monoMs();
    const target = { hostname: '', port: 0, addresses: [] };
    const attempt: Attempt = { host: URL.parse(to.url)?.host ?? 'the URL', target, phase: 'resolve', signal };
    try {
      // got does not always remove its listener, so a signal of AbortSignal.any would keep the whole request: some 10 KB for each.
      const reply = await withLimit(clock, timeoutMs, signal, (limited) => {
        attempt.signal = limited;
        return unlessAborted(this.#deliver(to, this.#headers(secrets, message), message.body, attempt), limited);
      });
      return outcomeOf(reply, attempt.host, clock.monoMs() - begunMs);
    } catch (error) {
      const failure = this.#failure(attempt, error, signal);
      this.#tidy(attempt, failure, error);
      return failedOutcome(failure, attempt.status, clock.monoMs() - begunMs);
    }
  }

  /** Closes kept connections: of one agent, or all. */
  close(agentKey?: string): void {
    for (const key of agentKey === undefined ? [...this.#agents.keys()] : [agentKey]) {
      this.#agents.get(key)?.close();
      this.#agents.delete(key);
    }
  }

  #agent(key: string): SubscriberAgent {
    const agent = this.#agents.get(key) ?? new SubscriberAgent(this.#connectOptions, this.#kept);
    this.#agents.set(key, agent);
    return agent;
  }

  async #deliver(
    { url, agentKey }: Destination,
    headers: Readonly<Record<string, string>>,
    body: Buffer,
    attempt: Attempt,
  ): Promise<Reply> {
    attempt.target = await this.#options.egress.target(url, attempt.signal);
    attempt.signal.throwIfAborted();
    attempt.phase = 'connect';
    const { clock } = this.#options;
    const call = { url, headers, body, agent: this.#agent(agentKey), attempt, clock };
    try {
      return await post({ ...call, fresh: false });
    } catch (error) {
      // The peer closed a kept connection meanwhile, which says nothing about the subscriber. The same bytes are sent once
      // more: if the first arrived after all, the subscriber recognises the deliveryId.
      if (!attempt.reused || attempt.answered || attempt.signal.aborted) throw error;
      return await post({ ...call, fresh: true });
    }
  }

  #headers(secrets: Secrets, { deliveryId, subscriptionName, body }: Message): Readonly<Record<string, string>> {
    return {
      'content-type': 'application/json',
      'user-agent': `lineside/${this.#options.version}`,
      'accept-encoding': 'identity',
      'x-service-signature': signatureOf(secrets.current, body),
      ...(secrets.previous !== undefined && { 'x-service-signature-previous': signatureOf(secrets.previous, body) }),
      'x-service-delivery': plain(deliveryId),
      'x-service-subscription': plain(subscriptionName),
    };
  }

  #failure(attempt: Attempt, error: unknown, caller: AbortSignal): Failure {
    const { host, phase, reused, answered } = attempt;
    if (error instanceof LinesideError && error.code === 'REQUEST_TIMEOUT') {
      const late = lateIn(phase, host, this.#options.timeoutMs);
      // A kept connection looks established even when the network is down.
      return reused && !answered ? { ...late, unreached: true } : late;
    }
    return caller.aborted ? cancelled : failureOf(error, phase, host);
  }

  #tidy(attempt: Attempt, failure: Failure, error: unknown): void {
    // The name may have another address by now.
    if (attempt.phase === 'connect' || attempt.phase === 'tls') this.#options.resolver.forget(attempt.target.hostname);
    if (failure.cause !== 'connect' || failure === cancelled || isExpected(error)) return;
    const { logger = silentLogger } = this.#options;
    logger.error('an attempt to deliver failed unexpectedly', { host: attempt.host, error: messageOf(error) });
  }
}

/** X-Service-Signature: HMAC-SHA256 of the exact bytes, in lower-case hexadecimal. */
export function signatureOf(secret: string, body: Buffer): string {
  return `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
}

function outcomeOf({ status, answer }: Reply, host: string, elapsedMs: number): Outcome {
  const broken = answer.end === 'broken' && status >= 200 && status < 300;
  if (broken) return failedOutcome(truncated(status, host), status, elapsedMs);
  const accepted = { cause: '', message: '', reasons: [], unreached: false } as const;
  const result = accepting.includes(status) ? accepted : notAccepted(status, host);
  return { ...result, status, answer: answer.kept, elapsedMs: Math.round(elapsedMs) };
}

/** Prevents header injection. Names are checked at registration too. */
function plain(value: string): string {
  if (!/^[\x20-\x7e]*$/.test(value)) throw new TypeError('a value that cannot stand in a header');
  return value;
}

/** The state of an attempt. */
interface Attempt extends RequestContext {
  /** As in the URL, never a resolved address. */
  readonly host: string;
  target: Target;
  /** Its caller's; then of its timeout, too. */
  signal: AbortSignal;
  /** The request was sent over a kept connection. */
  reused?: boolean;
  /** At least one byte of an answer was received. */
  answered?: boolean;
  status?: number;
}

interface Post {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly agent: SubscriberAgent;
  readonly attempt: Attempt;
  /** On a new connection. */
  readonly fresh: boolean;
  readonly clock: Clock;
}

interface Reply {
  readonly status: number;
  readonly answer: Answer;
}

/** Limit of interim answers (100, 102, 103). */
const maxInformational = 32;
const lateRequestMs = 1_000;

/** Rejects when there is no status. */
async function post(call: Post): Promise<Reply> {
  const { attempt } = call;
  // Only a hub with subscribers needs it in memory.
  const { default: got } = await import('got');
  attempt.signal.throwIfAborted();
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
      // The agent dials checked addresses: any other lookup must fail.
      dnsLookup: refuseLookup,
      request: (url, options) => {
        native = requestOver(call, url, options);
        return native;
      },
    });
    // This listener stays: with a status the answer reports errors, and later errors must not be unhandled.
    stream.on('error', (error) => {
      // The cause says more than got's own error.
      if (attempt.status === undefined) reject(error.cause instanceof Error ? error.cause : error);
    });
    stream.once('close', () => {
      if (attempt.status === undefined) reject(new Error('closed'));
    });
    // Not got's option "body": it is sent in pieces over several turns of the event loop, and a subscriber that answers
    // before got ends the request loses its connection.
    stream.end(call.body);
    const switched = (status: number, socket: Socket): void => {
      attempt.status = status;
      resolve({ status, answer: { kept: Buffer.alloc(0), end: 'cut' } });
      socket.destroy();
      stream.destroy();
    };
    // got listens for it, so Node leaves the connection to got's listeners, of which there are none.
    stream.once('upgrade', (response: { statusCode: number }, socket: Socket) => switched(response.statusCode, socket));
    stream.once('response', ({ statusCode, socket }) => {
      // Node takes a 101 without a protocol for an ordinary answer and would keep the connection.
      if (statusCode < 200) return switched(statusCode, socket);
      attempt.status = statusCode;
      attempt.phase = 'read';
      readAnswer(stream).then((answer) => {
        resolve({ status: statusCode, answer });
        if (answer.end !== 'whole') stream.destroy();
        else if (native?.writableFinished === false) letFinish(native, stream, call.clock);
      }, reject);
    });
  });
}

/** Answered before the request was sent completely, which mostly follows at once; else it would block the connection. */
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
  // Emitted before the first byte is written.
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
    attempt.phase = 'send';
  });
  request.once('finish', () => {
    // The answer may have come before.
    if (attempt.phase === 'send') attempt.phase = 'wait';
  });
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

/** Enough to understand an error page. */
const keptAnswerBytes = 4 * 1024;
/** An answer is read up to this size, so that its connection can be kept; a longer one is cut. */
const readAnswerBytes = 64 * 1024;

interface Answer {
  /** The first keptAnswerBytes. */
  readonly kept: Buffer;
  /** cut: by us, at readAnswerBytes. broken: by the subscriber. */
  readonly end: 'whole' | 'cut' | 'broken';
}

/** Never rejects. Only reviewers read the answer's body. */
function readAnswer(body: Readable): Promise<Answer> {
  const pieces: Buffer[] = [];
  let kept = 0;
  let read = 0;
  return new Promise((resolve) => {
    const settle = (end: Answer['end']): void => resolve({ kept: Buffer.concat(pieces), end });
    body.on('data', (piece: Buffer) => {
      read += piece.length;
      if (kept < keptAnswerBytes) {
        // Copied, because the piece is a view of the socket's whole buffer.
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
