/** A test-ping: one signed delivery with a test event, so that an operator sees what a URL does. */
import { type Clock, endsWithin } from '../../../shared/base/clock.ts';
import { LinesideError } from '../../../shared/base/errors.ts';
import type { Instant } from '../../../shared/base/instant.ts';
import type { Cause, PingRequest, PingResult } from '../face.ts';
import { refuse, secretFaults } from '../subscriptions/subscription.ts';
import { maxUrlCharacters } from './endpoint.ts';
import type { EgressGuard } from './guard.ts';
import { failedOutcome, failure, type Outcome } from './outcome.ts';
import type { Message, Sender } from './sender.ts';

export interface PingerOptions {
  readonly sender: Pick<Sender, 'send' | 'close'>;
  readonly egress: Pick<EgressGuard, 'faults'>;
  /** For the check of the URL; the sender has its own. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly now: () => Instant;
  /** So many random bytes in hexadecimal. */
  readonly randomHex: (bytes: number) => string;
}

/** Operators start them one by one; more at a time would take connections from deliveries. */
const maxPings = 4;
const agentKey = 'ping';
const idBytes = 8;

/** Throws INVALID_ARGUMENT, TOO_MANY. A failure of the URL is a result. */
export function createPinger(options: PingerOptions): (request: PingRequest) => Promise<PingResult> {
  let running = 0;
  return async (request) => {
    refuse('the request', requestFaults(request));
    if (running >= maxPings) {
      throw new LinesideError('TOO_MANY', `${maxPings} test-pings are under way`, {
        hint: 'try again in some seconds',
      });
    }
    running += 1;
    const begunMs = options.clock.monoMs();
    try {
      const outcome = await ping(options, request);
      return resultOf(outcome, Math.round(options.clock.monoMs() - begunMs));
    } finally {
      running -= 1;
      // The next test-ping must check name, connection and certificate again.
      if (running === 0) options.sender.close(agentKey);
    }
  };
}

function requestFaults({ url, secret }: PingRequest): readonly string[] {
  const reasons: string[] = [];
  if (url === '') reasons.push('/url must not be empty');
  else if (!URL.canParse(url)) reasons.push('/url cannot be parsed as a URL');
  else if (url.length > maxUrlCharacters) reasons.push(`/url must have at most ${maxUrlCharacters} characters`);
  return [...reasons, ...secretFaults(secret)];
}

async function ping(
  { sender, egress, timeoutMs, clock, now, randomHex }: PingerOptions,
  { url, secret }: PingRequest,
): Promise<Outcome> {
  let faults: readonly string[] = [];
  // The guard reports all faults of the URL; the sender only the first.
  const checked = egress.faults(url).then((found) => {
    faults = found;
  });
  if (!(await endsWithin(clock, timeoutMs, checked))) {
    return notSent('timeout', `${timeoutMs} ms were over while checking the URL`);
  }
  if (faults.length > 0) return notSent('ssrf', 'the URL may not be called', faults);
  const never = new AbortController().signal;
  return sender.send({ url, agentKey }, { current: secret, previous: undefined }, pingMessage(now(), randomHex), never);
}

function notSent(cause: Cause, message: string, reasons: readonly string[] = []): Outcome {
  return failedOutcome({ ...failure(cause, message, true), reasons }, undefined, 0);
}

function pingMessage(now: Instant, randomHex: (bytes: number) => string): Message {
  const deliveryId = `ping-${randomHex(idBytes)}`;
  const subscriptionName = 'test-ping';
  const event = { schemaVersion: '1.0.0', eventType: 'test.ping', occurredAt: now, data: {} };
  const body = { deliveryId, subscriptionName, occurredAt: now, events: [event] };
  return { deliveryId, subscriptionName, body: Buffer.from(JSON.stringify(body)) };
}

function resultOf({ cause, status, answer, message, reasons }: Outcome, elapsedMs: number): PingResult {
  const seen = { statusCode: status ?? null, responseBody: answer.toString('utf8'), elapsedMs };
  if (cause === '') return { success: true, ...seen };
  return { success: false, ...seen, error: { kind: cause, message, ...(reasons.length > 0 && { reasons }) } };
}
