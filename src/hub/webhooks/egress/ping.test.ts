import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { systemClock } from '../../../shared/base/clock.ts';
import { LinesideError } from '../../../shared/base/errors.ts';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import type { PingRequest } from '../face.ts';
import { answer, readBody } from './https-subscriber.fixture.ts';
import { createPinger, type PingerOptions } from './ping.ts';
import { senderSite } from './sender.fixture.ts';
import { signatureOf } from './sender.ts';

const now = '2026-03-01T09:30:00+00:00';
const secret = 'sixteen bytes at least';
const { subscriber, own } = await senderSite();

function pinger(changes: Partial<PingerOptions> = {}) {
  return createPinger({
    sender: own.sender,
    egress: own.egress,
    timeoutMs: 10_000,
    clock: systemClock,
    now: () => now,
    randomHex: (bytes) => 'a1'.repeat(bytes),
    ...changes,
  });
}

describe('a test-ping', () => {
  it('is a signed delivery with one test.ping event', async () => {
    subscriber.script = answer(202, {}, 'thanks');
    const result = await pinger()({ url: subscriber.url(), secret });
    assert.deepEqual(
      { ...result, elapsedMs: 0 },
      { success: true, statusCode: 202, responseBody: 'thanks', elapsedMs: 0 },
    );
    const { body, headers } = subscriber.last;
    assert.deepEqual(JSON.parse(body.toString()), {
      deliveryId: 'ping-a1a1a1a1a1a1a1a1',
      subscriptionName: 'test-ping',
      occurredAt: now,
      events: [{ schemaVersion: '1.0.0', eventType: 'test.ping', occurredAt: now, data: {} }],
    });
    assert.equal(headers['x-service-signature'], signatureOf(secret, body));
    assert.equal(headers['x-service-delivery'], 'ping-a1a1a1a1a1a1a1a1');
    assert.equal(headers['x-service-subscription'], 'test-ping');
  });

  it('checks name, connection and certificate again each time', async () => {
    const ping = pinger();
    for (let count = 0; count < 2; count += 1) await ping({ url: subscriber.url(), secret });
    assert.equal(new Set(subscriber.received.map(({ connection }) => connection)).size, 2);
  });

  it('ends in time although the URL is judged without end', async () => {
    const clock = new FakeClock();
    const ping = pinger({ egress: { faults: () => new Promise(() => {}) }, clock });
    const pinging = ping({ url: subscriber.url(), secret });
    clock.advance(10_000);
    const result = await pinging;
    assert.deepEqual([result.error?.kind, result.elapsedMs, clock.pendingTimers], ['timeout', 10_000, 0]);
  });
});

describe('a request for a test-ping', () => {
  const wrong: readonly [string, PingRequest][] = [
    ['with a secret of 15 bytes', { url: 'https://a.test/', secret: 'x'.repeat(15) }],
    ['with a secret of 1,025 bytes', { url: 'https://a.test/', secret: 'x'.repeat(1_025) }],
    ['with a URL that cannot be parsed', { url: '0', secret }],
    ['with an empty URL', { url: '', secret }],
    ['with a URL of 2,049 characters', { url: `https://a.test/${'x'.repeat(2_034)}`, secret }],
  ];
  for (const [what, request] of wrong) {
    it(`${what} is refused`, async () => {
      await assert.rejects(pinger()(request), (error) => {
        assert.ok(error instanceof LinesideError);
        assert.deepEqual([error.code, error.reasons.length], ['INVALID_ARGUMENT', 1]);
        return true;
      });
    });
  }

  it('is refused while four are under way, and taken again afterwards', async () => {
    const answers: (() => void)[] = [];
    const { promise: there, resolve: allThere } = Promise.withResolvers<void>();
    subscriber.script = async (exchange) => {
      await readBody(exchange);
      answers.push(() => exchange.response.writeHead(202).end());
      if (answers.length === 4) allThere();
    };
    const ping = pinger();
    const running = Array.from({ length: 4 }, () => ping({ url: subscriber.url(), secret }));
    await there;
    await assert.rejects(ping({ url: subscriber.url(), secret }), { code: 'TOO_MANY' });
    for (const call of answers) call();
    assert.ok((await Promise.all(running)).every(({ success }) => success));
    subscriber.script = answer(202);
    assert.ok((await ping({ url: subscriber.url(), secret })).success);
  });
});
