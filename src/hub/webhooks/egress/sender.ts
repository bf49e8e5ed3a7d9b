/** One attempt to deliver: signed, from the name's resolution to the answer's last byte, within one deadline, ended always. */
import { createHmac, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import type { Clock } from '../../../shared/base/clock.ts';
import { LinesideError, messageOf } from '../../../shared/base/errors.ts';
import { type Logger, silentLogger } from '../../../shared/base/logger.ts';
import type { Secrets } from '../subscriptions/subscription.ts';
import { SubscriberAgents } from './connections.ts';
import type { EgressGuard } from './guard.ts';
import { cancelled, type Failure, failedOutcome, isExpected, notAccepted, type Outcome, truncated } from './outcome.ts';
import { Attempt, post, type Reply } from './post.ts';
import { type Resolver, unlessAborted } from './resolver.ts';

/** What is sent. */
export interface Message {
  readonly deliveryId: string;
  readonly subscriptionName: string;
  readonly body: Buffer;
}

/** `agentKey`: whose kept connections it may use (a subscription's id, or "ping"). */
export interface Destination {
  readonly url: string;
  readonly agentKey: string;
}

export interface SenderOptions {
  readonly egress: Pick<EgressGuard, 'target' | 'mayCall'>;
  readonly resolver: Pick<Resolver, 'forget'>;
  readonly timeoutMs: number;
  /** '': Node's own roots alone. */
  readonly caFile: string;
  readonly version: string;
  readonly clock: Clock;
  readonly logger?: Logger;
}

const accepting: readonly number[] = [200, 201, 202, 204];

export class Sender {
  readonly #options: SenderOptions;
  readonly #agents: SubscriberAgents;

  /** CONFIG_INVALID where caFile cannot be used. */
  constructor(options: SenderOptions) {
    this.#options = options;
    const { egress, clock, caFile } = options;
    this.#agents = new SubscriberAgents({ egress, clock, trust: readTrust(caFile) });
  }

  /** Never rejects, and ends within the time-out. `signal`: cancelled by the caller, which asks for no outcome. */
  async send(to: Destination, secrets: Secrets, message: Message, signal: AbortSignal): Promise<Outcome> {
    const { clock, timeoutMs } = this.#options;
    const begunMs = clock.monoMs();
    const attempt = new Attempt(hostOf(to.url), timeoutMs, clock, signal);
    try {
      const reply = await unlessAborted(
        this.#deliver(to, this.#headers(secrets, message), message.body, attempt),
        attempt.signal,
      );
      return outcomeOf(reply, attempt.host, clock.monoMs() - begunMs);
    } catch (error) {
      const failure = attempt.failureBy(error);
      this.#tidy(attempt, failure, error);
      return failedOutcome(failure, attempt.status, clock.monoMs() - begunMs);
    } finally {
      attempt.end();
    }
  }

  /** Closes kept connections; of this agent alone where one is named. */
  close(agentKey?: string): void {
    this.#agents.close(agentKey);
  }

  async #deliver(
    { url, agentKey }: Destination,
    headers: Readonly<Record<string, string>>,
    body: Buffer,
    attempt: Attempt,
  ): Promise<Reply> {
    attempt.target = await this.#options.egress.target(url, attempt.signal);
    attempt.signal.throwIfAborted();
    attempt.enter('connect');
    const { clock } = this.#options;
    const call = { url, headers, body, agent: this.#agents.agent(agentKey), attempt, clock };
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
    if (attempt.phase === 'connect' || attempt.phase === 'tls') this.#options.resolver.forget(attempt.target.hostname);
    if (failure.cause !== 'connect' || failure === cancelled || isExpected(error)) return;
    const { logger = silentLogger } = this.#options;
    logger.error('an attempt to deliver ended in an unforeseen way', { host: attempt.host, error: messageOf(error) });
  }
}

/** X-Service-Signature: HMAC-SHA256 of the exact bytes that are sent, in lower-case hexadecimal. */
export function signatureOf(secret: string, body: Buffer): string {
  return `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
}

const block = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g;

/** Trusted are Node's roots, and the certificates of webhooks.ca_file ('': none). CONFIG_INVALID where the file cannot be read or holds no certificate. */
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

function outcomeOf({ status, answer }: Reply, host: string, elapsedMs: number): Outcome {
  const broken = answer.end === 'broken' && status >= 200 && status < 300;
  if (broken) return failedOutcome(truncated(status, host), status, elapsedMs);
  const accepted = { cause: '', message: '', reasons: [], unreached: false } as const;
  const result = accepting.includes(status) ? accepted : notAccepted(status, host);
  return { ...result, status, answer: answer.kept, elapsedMs: Math.round(elapsedMs) };
}

/** A header's value that could end its line would begin another header. Names are checked when they are registered. */
function plain(value: string): string {
  if (!/^[\x20-\x7e]*$/.test(value)) throw new TypeError('a value that cannot stand in a header');
  return value;
}

/** As the URL has it, which is not where its name leads. */
function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : 'the URL';
}
