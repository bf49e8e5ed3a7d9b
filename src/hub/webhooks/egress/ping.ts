/** A test-ping: one signed delivery with one event of its own, sent now, so that an operator sees what a URL does. */
import { type Clock, endsWithin } from '../../../shared/base/clock.ts';
import { LinesideError } from '../../../shared/base/errors.ts';
import type { Instant } from '../../../shared/base/instant.ts';
import type { Cause, PingRequest, PingResult } from '../face.ts';
import type { Egress, Message, Outcome, Sender } from '../parts.ts';

export interface PingerOptions {
  readonly sender: Sender;
  readonly egress: Pick<Egress, 'faults'>;
  /** Of the judgement of the URL, and again of the delivery, which the sender bounds itself. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly now: () => Instant;
  /** For the deliveryId: as many bytes, in hexadecimal. */
  readonly randomHex: (bytes: number) => string;
}

/** People press the button; more at a time would only keep connections from deliveries. */
const maxPings = 4;
const agentKey = 'ping';
const maxUrlLength = 2_048;
const secretBytes = { least: 16, most: 1_024 };
const idBytes = 8;

/** INVALID_ARGUMENT for what cannot be tried at all; TOO_MANY. Whatever the URL then does is a result. */
export function createPinger(options: PingerOptions): (request: PingRequest) => Promise<PingResult> {
  let running = 0;
  return async (request) => {
    const reasons = requestFaults(request);
    if (reasons.length > 0) {
      throw new LinesideError('INVALID_ARGUMENT', 'the test-ping cannot be sent', { reasons });
    }
    if (running >= maxPings) {
      throw new LinesideError('TOO_MANY', `${maxPings} test-pings are under way`, {
        hint: 'try again in some seconds',
      });
    }
    running += 1;
    try {
      return await ping(options, request);
    } finally {
      running -= 1;
      // The next one is to find out about name, connection and certificate again.
      if (running === 0) options.sender.close(agentKey);
    }
  };
}

function requestFaults({ url, secret }: { readonly url: unknown; readonly secret: unknown }): readonly string[] {
  const reasons: string[] = [];
  if (typeof url !== 'string') reasons.push('url: must be a text');
  else if (url === '') reasons.push('url: must not be empty');
  else if (!URL.canParse(url)) reasons.push('url: cannot be parsed as a URL');
  else if (url.length > maxUrlLength) reasons.push(`url: must have at most ${maxUrlLength} characters`);
  if (typeof secret !== 'string') reasons.push('secret: must be a text');
  else if (!fits(Buffer.byteLength(secret))) {
    reasons.push(`secret: must have ${secretBytes.least} to ${secretBytes.most} bytes`);
  }
  return reasons;
}

function fits(bytes: number): boolean {
  return bytes >= secretBytes.least && bytes <= secretBytes.most;
}

async function ping(
  { sender, egress, timeoutMs, clock, now, randomHex }: PingerOptions,
  request: PingRequest,
): Promise<PingResult> {
  const begunMs = clock.monoMs();
  const elapsed = (): number => Math.round(clock.monoMs() - begunMs);
  let faults: readonly string[] = [];
  // The guard names every fault of the URL; the sender, at the connection, the first that it meets.
  const checked = egress.faults(request.url).then((found) => {
    faults = found;
  });
  if (!(await endsWithin(clock, timeoutMs, checked))) {
    return failed(elapsed(), 'timeout', `${timeoutMs} ms were over while judging the URL`, []);
  }
  if (faults.length > 0) return failed(elapsed(), 'ssrf', 'the URL may not be called', faults);
  const secrets = { current: request.secret, previous: undefined };
  // A test-ping is not taken back: it ends by the sender's time-out.
  const outcome = await sender.send({ url: request.url, agentKey }, secrets, pingMessage(now(), randomHex), never);
  return resultOf(outcome, elapsed());
}

const never = new AbortController().signal;

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

function failed(elapsedMs: number, kind: Cause, message: string, reasons: readonly string[]): PingResult {
  const error = { kind, message, ...(reasons.length > 0 && { reasons }) };
  return { success: false, statusCode: null, responseBody: '', elapsedMs, error };
}
