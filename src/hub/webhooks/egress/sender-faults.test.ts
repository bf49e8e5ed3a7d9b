/** Attempts that get no answer, or not the whole of it: which cause, in which words, and that nothing is left behind. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { drip, freePort, hang, rawAnswer, silentServer } from './https-subscriber.fixture.ts';
import { senderFixture, senderSite } from './sender.fixture.ts';

const timeoutMs = 10_000;
const clock = new FakeClock();
const { certificates, subscriber, own } = await senderSite(clock);

/** The subscriber reads each request and never answers; resolves when it has read one. */
function readAndHang(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  subscriber.script = async (exchange) => {
    await hang(exchange);
    resolve();
  };
  return promise;
}

describe('the deadline', () => {
  it('ends an attempt whose name is not resolved, which has reached nothing', async () => {
    const { promise: looked, resolve: asked } = Promise.withResolvers<void>();
    const lookup = () => {
      asked();
      return new Promise<never>(() => {});
    };
    const slow = senderFixture({ caFile: certificates.caFile, clock, lookup });
    const sending = slow.send('https://slow.test/');
    await looked;
    clock.advance(timeoutMs);
    const outcome = await sending;
    assert.deepEqual([outcome.cause, outcome.unreached, outcome.status], ['timeout', true, undefined]);
    assert.equal(outcome.message, '10000 ms were over while resolving the name slow.test');
    assert.equal(outcome.elapsedMs, timeoutMs);
  });

  it('ends a TLS handshake that does not', async () => {
    const silent = await silentServer();
    const sending = own.send(`https://subscriber.test:${silent.port}/`);
    await silent.connected();
    clock.advance(timeoutMs);
    const outcome = await sending;
    assert.deepEqual([outcome.cause, outcome.unreached], ['timeout', false]);
    assert.match(outcome.message, /in the TLS handshake with subscriber\.test:\d+$/);
    await silent.close();
  });

  it('ends a request that is not taken', async () => {
    let goOn: () => void = () => {};
    subscriber.script = ({ request }) => {
      request.pause();
      goOn = () => request.resume();
    };
    const sending = own.send(subscriber.url(), Buffer.alloc(32 * 1024 * 1024));
    await subscriber.requests(1);
    clock.advance(timeoutMs);
    const outcome = await sending;
    assert.equal(outcome.cause, 'timeout');
    assert.match(outcome.message, /while sending the request to/);
    // A server that does not read does not see its peer go.
    goOn();
  });

  it('ends the wait for an answer', async () => {
    const body = readAndHang();
    const sending = own.send(subscriber.url());
    await body;
    clock.advance(timeoutMs);
    const outcome = await sending;
    assert.deepEqual([outcome.cause, outcome.status, outcome.unreached], ['timeout', undefined, false]);
    assert.match(outcome.message, /^10000 ms were over while waiting for the answer of subscriber\.test:\d+$/);
  });

  it('ends the wait on a kept connection, which has reached nothing: the network may have gone since', async () => {
    assert.equal((await own.send(subscriber.url())).cause, '');
    const { connections } = subscriber;
    const body = readAndHang();
    const sending = own.send(subscriber.url());
    await body;
    clock.advance(timeoutMs);
    const outcome = await sending;
    assert.deepEqual([outcome.cause, outcome.status, outcome.unreached], ['timeout', undefined, true]);
    assert.match(outcome.message, /while waiting for the answer of/);
    assert.equal(subscriber.connections, connections);
  });

  it('ends an answer that comes byte by byte: it accepts nothing', async () => {
    const hurried = senderFixture({ caFile: certificates.caFile, timeoutMs: 1_500 });
    subscriber.script = drip(200, 20);
    const outcome = await hurried.send(subscriber.url());
    assert.deepEqual([outcome.cause, outcome.status], ['timeout', 200]);
    assert.match(outcome.message, /while reading the answer of/);
    await subscriber.drained();
  });

  it('leaves alone what ended before it', async () => {
    assert.equal((await own.send(subscriber.url())).cause, '');
    clock.advance(timeoutMs * 2);
    assert.equal((await own.send(subscriber.url())).cause, '');
  });
});

describe('a caller that cancels', () => {
  it('gets its answer at once, and the connection ends', async () => {
    subscriber.script = hang;
    const caller = new AbortController();
    const sending = own.send(subscriber.url(), '{}', caller.signal);
    await subscriber.requests(1);
    caller.abort();
    assert.equal((await sending).message, 'cancelled');
    await subscriber.drained();
  });

  it('before the start sends nothing', async () => {
    const connections = subscriber.connections;
    await own.send(subscriber.url(), '{}', AbortSignal.abort());
    assert.equal(subscriber.connections, connections);
  });
});

describe('a subscriber that', () => {
  it('refuses the connection is named, and its address is not', async () => {
    const port = await freePort();
    const outcome = await own.send(`https://refusing.subscriber.test:${port}/`);
    assert.deepEqual([outcome.cause, outcome.unreached], ['connect', true]);
    assert.equal(outcome.message, `refusing.subscriber.test:${port} refused the connection`);
    const { lookups } = own;
    await own.send(`https://refusing.subscriber.test:${port}/`);
    assert.equal(own.lookups, lookups + 1, 'its name is resolved again after a failed connection');
  });

  it('has no address', async () => {
    const lookup = async () => {
      throw Object.assign(new Error('getaddrinfo'), { code: 'ENOTFOUND' });
    };
    const lost = senderFixture({ caFile: certificates.caFile, clock, lookup });
    const outcome = await lost.send('https://nowhere.test/');
    assert.deepEqual([outcome.cause, outcome.unreached], ['dns', true]);
    assert.equal(outcome.message, 'the name nowhere.test cannot be resolved (ENOTFOUND)');
  });

  for (const [how, script, cause] of [
    ['closes without an answer', rawAnswer('', 'close'), 'connect'],
    ['resets', rawAnswer('', 'reset'), 'connect'],
    ['closes within the status line', rawAnswer('HTTP/1.1 2', 'close'), 'connect'],
    ['closes within the headers', rawAnswer('HTTP/1.1 200 OK\r\nserver: x', 'close'), 'connect'],
    ['speaks no HTTP', rawAnswer('SSH-2.0-OpenSSH_9\r\n', 'wait'), 'http'],
    ['sends endless headers', rawAnswer(`HTTP/1.1 200 OK\r\n${'x: y\r\n'.repeat(100_000)}`, 'wait'), 'http'],
    ['sends two lengths', rawAnswer('HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx'), 'http'],
  ] as const) {
    it(`${how} has not answered`, async () => {
      subscriber.script = script;
      const outcome = await own.send(subscriber.url());
      assert.deepEqual([outcome.status, outcome.cause, outcome.unreached], [undefined, cause, false]);
      assert.doesNotMatch(outcome.message, /127\.0\.0\.1/);
      assert.notEqual(outcome.message, '');
      await subscriber.drained();
    });
  }
});
