/** One attempt to deliver: from the name's resolution to the answer's last byte, within one deadline, ended always. */

import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import type { Clock } from '../../../shared/base/clock.ts';
import { LinesideError, messageOf } from '../../../shared/base/errors.ts';
import { type Logger, silentLogger } from '../../../shared/base/logger.ts';
import type { Egress, Message, Outcome, Secrets, Sender, Target } from '../parts.ts';
import type { Phase } from './dial.ts';
import { cancelled, type Failure, failureOf, isExpected, lateIn, notAccepted, truncated } from './failure.ts';
import { post, type Reply, type SendContext } from './post.ts';
import { signatureOf } from './signature.ts';
import { SubscriberAgents } from './subscriber-agents.ts';

// Whose certificates of subscribers are believed: Node's roots, and those of webhooks.ca_file.

const block = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g;

/** '': Node's roots alone. CONFIG_INVALID where the file cannot be read or holds no certificate. */
function readTrust(caFile: string): SecureContext {
  const own = caFile === '' ? [] : certificatesOf(caFile);
  return createSecureContext({ minVersion: 'TLSv1.2', ca: [...getCACertificates('default'), ...own] });
}

function certificatesOf(file: string): readonly string[] {
  try {
    const found = readFileSync(file, 'utf8').match(block) ?? [];
    if (found.length === 0) throw new Error('it holds no certificate in PEM form');
    return found.map((pem) => new X509Certificate(pem).toString());
  } catch (error) {
    throw new LinesideError('CONFIG_INVALID', `webhooks.ca_file ${file} cannot be used: ${messageOf(error)}`, {
      cause: error,
      hint: 'name a file with the certificates of the authorities in PEM form, or leave the key empty',
    });
  }
}

export interface SenderOptions {
  readonly egress: Egress & { forget(hostname: string): void };
  readonly timeoutMs: number;
  /** '': Node's own roots alone. */
  readonly caFile: string;
  readonly version: string;
  readonly clock: Clock;
  readonly logger?: Logger;
}

const accepting: readonly number[] = [200, 201, 202, 204];
const nothing = Buffer.alloc(0);

/** CONFIG_INVALID where caFile cannot be used. */
export function createSender(options: SenderOptions): Sender {
  return new HttpsSender(options);
}

class HttpsSender implements Sender {
  readonly #options: SenderOptions;
  readonly #agents: SubscriberAgents;

  constructor(options: SenderOptions) {
    this.#options = options;
    const { egress, clock, caFile } = options;
    this.#agents = new SubscriberAgents({ egress, clock, trust: readTrust(caFile) });
  }

  async send(
    to: { readonly url: string; readonly agentKey: string },
    secrets: Secrets,
    message: Message,
    signal: AbortSignal,
  ): Promise<Outcome> {
    const { clock, timeoutMs } = this.#options;
    const begunMs = clock.monoMs();
    const attempt = new Attempt(hostOf(to.url), timeoutMs, clock, signal);
    try {
      const reply = await attempt.untilOver(this.#deliver(to, this.#headers(secrets, message), message.body, attempt));
      return outcomeOf(reply, attempt.host, clock.monoMs() - begunMs);
    } catch (error) {
      const failure = attempt.failureBy(error);
      this.#tidy(attempt, failure, error);
      return failed(failure, attempt.status, clock.monoMs() - begunMs);
    } finally {
      attempt.end();
    }
  }

  close(agentKey?: string): void {
    this.#agents.close(agentKey);
  }

  async #deliver(
    { url, agentKey }: { readonly url: string; readonly agentKey: string },
    headers: Readonly<Record<string, string>>,
    body: Buffer,
    attempt: Attempt,
  ): Promise<Reply> {
    attempt.target = await this.#options.egress.target(url, attempt.signal);
    attempt.signal.throwIfAborted();
    attempt.enter('connect');
    const { clock } = this.#options;
    const call = { url, headers, body, agent: this.#agents.agent(agentKey), sendContext: attempt, clock };
    try {
      return await post({ ...call, fresh: false });
    } catch (error) {
      // A kept connection that the other side had closed meanwhile says nothing of the subscriber. The same bytes and
      // deliveryId go once more: should the first have arrived after all, the subscriber knows them by the deliveryId.
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

  #tidy(attempt: Attempt, failure: Failure, error: unknown): void {
    // The name may lead elsewhere by now.
    if (attempt.phase === 'connect' || attempt.phase === 'tls') this.#options.egress.forget(attempt.target.hostname);
    if (failure.cause !== 'connect' || failure === cancelled || isExpected(error)) return;
    const { logger = silentLogger } = this.#options;
    logger.error('an attempt to deliver ended in an unforeseen way', { host: attempt.host, error: messageOf(error) });
  }
}

/** What is known of an attempt under way, and what ends it: its deadline, or its caller. */
class Attempt implements SendContext {
  readonly host: string;
  target: Target = { hostname: '', port: 0, addresses: [] };
  phase: Phase = 'resolve';
  reused = false;
  answered = false;
  status: number | undefined;
  readonly #controller = new AbortController();
  readonly #timeoutMs: number;
  readonly #timer: { cancel(): void };
  readonly #caller: AbortSignal;
  /** Ends everything that is under way. */
  readonly #abandon = (): void => this.#controller.abort();
  #late = false;

  constructor(host: string, timeoutMs: number, clock: Clock, caller: AbortSignal) {
    this.host = host;
    this.#timeoutMs = timeoutMs;
    this.#caller = caller;
    this.#timer = clock.timer(timeoutMs, () => {
      this.#late = true;
      this.#abandon();
    });
    caller.addEventListener('abort', this.#abandon);
    if (caller.aborted) this.#abandon();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  enter(phase: Phase): void {
    this.phase = phase;
  }

  /** An answer may come before the request is sent. */
  sent(): void {
    if (this.phase === 'send') this.phase = 'wait';
  }

  /** Rejects as soon as the attempt is over, whether the work looks at the signal or not. */
  untilOver<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const { signal } = this;
      const over = (): void => reject(signal.reason);
      signal.addEventListener('abort', over);
      work.then(resolve, reject).finally(() => signal.removeEventListener('abort', over));
      if (signal.aborted) over();
    });
  }

  failureBy(error: unknown): Failure {
    if (this.#late) {
      const late = lateIn(this.phase, this.host, this.#timeoutMs);
      // A connection that was kept stands on this side also when the network has gone.
      return this.reused && !this.answered ? { ...late, unreached: true } : late;
    }
    return this.#caller.aborted ? cancelled : failureOf(error, this.phase, this.host);
  }

  end(): void {
    this.#timer.cancel();
    this.#caller.removeEventListener('abort', this.#abandon);
  }
}

function outcomeOf({ status, answer }: Reply, host: string, elapsedMs: number): Outcome {
  const broken = answer.end === 'broken' && status >= 200 && status < 300;
  if (broken) return failed(truncated(status, host), status, elapsedMs);
  if (!accepting.includes(status))
    return { ...failed(notAccepted(status, host), status, elapsedMs), answer: answer.kept };
  const elapsed = Math.round(elapsedMs);
  return { status, cause: '', message: '', answer: answer.kept, elapsedMs: elapsed, reasons: [], unreached: false };
}

function failed(failure: Failure, status: number | undefined, elapsedMs: number): Outcome {
  return { ...failure, status, answer: nothing, elapsedMs: Math.round(elapsedMs) };
}

/** A header's value that could end its line would begin another header. Names are judged when they are registered. */
function plain(value: string): string {
  if (!/^[\x20-\x7e]*$/.test(value)) throw new TypeError('a value that cannot stand in a header');
  return value;
}

/** As the URL has it, which is not where its name leads. */
function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : 'the URL';
}
