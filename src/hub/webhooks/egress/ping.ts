/** A test-ping: one signed delivery with one event of its own, sent now, so that an operator sees what a URL does. */
import { type Clock, endsWithin } from '../../../shared/base/clock.ts';
import { LinesideError } from '../../../shared/base/errors.ts';
import type { Instant } from '../../../shared/base/instant.ts';
import type { PingRequest, PingResult } from '../face.ts';
import { refuse, secretFaults } from '../subscriptions/subscription.ts';
import { maxUrlCharacters } from './endpoint.ts';
import type { EgressGuard } from './guard.ts';
import { type Failure, failedOutcome, type Outcome } from './outcome.ts';
import type { Message, Sender } from './sender.ts';

export interface PingerOptions {
  readonly sender: Pick<Sender, 'send' | 'close'>;
  readonly egress: Pick<EgressGuard, 'faults'>;
  /** Of the check of the URL, and again of the delivery, which the sender bounds itself. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly now: () => Instant;
  /** For the deliveryId: as many bytes, in hexadecimal. */
  readonly randomHex: (bytes: number) => string;
}

/** People press the button; more at a time would only keep connections from deliveries. */
const maxPings = 4;
const agentKey = 'ping';
const idBytes = 8;

/** INVALID_ARGUMENT for what cannot be tried at all; TOO_MANY. Whatever the URL then does is a result. */
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
      // The next one is to find out about name, connection and certificate again.
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
  // The guard names every fault of the URL; the sender, at the connection, the first that it meets.
  const checked = egress.faults(url).then((found) => {
    faults = found;
  });
  if (!(await endsWithin(clock, timeoutMs, checked))) {
    return notSent({ cause: 'timeout', message: `${timeoutMs} ms were over while checking the URL` });
  }
  if (faults.length > 0) return notSent({ cause: 'ssrf', message: 'the URL may not be called' }, faults);
  // A test-ping is not cancelled: it ends by the sender's time-out.
  const never = new AbortController().signal;
  return sender.send({ url, agentKey }, { current: secret, previous: undefined }, pingMessage(now(), randomHex), never);
}

function notSent(failure: Pick<Failure, 'cause' | 'message'>, reasons: readonly string[] = []): Outcome {
  return failedOutcome({ ...failure, reasons, unreached: true }, undefined, 0);
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
