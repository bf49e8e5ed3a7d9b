/** Kept connections: used again where that is right, and nowhere else. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { request } from 'node:https';
import { describe, it } from 'node:test';
import { createSecureContext } from 'node:tls';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { SubscriberAgent } from './connections.ts';
import { hang, readBody, Subscriber } from './https-subscriber.fixture.ts';
import { keepMs } from './resolver.ts';
import { message, secrets, senderSite } from './sender.fixture.ts';
import { Sender } from './sender.ts';

const local = { address: '127.0.0.1', family: 4 } as const;
const clock = new FakeClock();
const { certificates, subscriber, own } = await senderSite(clock);

const connectionsOf = (): readonly number[] => subscriber.received.map(({ connection }) => connection);

describe('a kept connection', () => {
  it('takes the next delivery of its subscriber', async () => {
    for (const body of ['{"a":1}', '{"b":2}', '{"c":3}'])
      assert.equal((await own.send(subscriber.url(), body)).cause, '');
    assert.equal(new Set(connectionsOf()).size, 1);
    assert.deepEqual(
      subscriber.received.map(({ body }) => body.toString()),
      ['{"a":1}', '{"b":2}', '{"c":3}'],
    );
  });

  it('is not lent to another subscriber', async () => {
    for (const agentKey of ['1', '2']) await own.send(subscriber.url(), '{}', undefined, agentKey);
    assert.equal(new Set(connectionsOf()).size, 2);
  });

  it('is not lent to another name at the same address', async () => {
    await own.send(subscriber.url());
    await own.send(`https://other.subscriber.test:${subscriber.port}/`);
    assert.equal(new Set(connectionsOf()).size, 2);
    await own.send(subscriber.url());
    assert.equal(new Set(connectionsOf()).size, 3, 'a subscriber whose URL has changed keeps nothing of the old one');
  });

  it('ends when its address is none of the name any more, and the new address is called', async () => {
    const moved = await Subscriber.start(certificates.good, '127.0.0.2', subscriber.port);
    await own.send(subscriber.url());
    own.addresses = ['127.0.0.2'];
    clock.advance(keepMs);
    assert.equal((await own.send(subscriber.url())).cause, '');
    assert.deepEqual([subscriber.received.length, moved.received.length], [1, 1]);
    await subscriber.drained();
    own.sender.close();
    await moved.close();
  });

  it('ends when its address may not be called any more', async () => {
    let open = true;
    const target = { hostname: 'subscriber.test', port: subscriber.port, addresses: [local] };
    const egress = { target: async () => target, mayCall: () => open };
    const resolver = { forget: () => {} };
    const { caFile } = certificates;
    const sender = new Sender({ egress, resolver, timeoutMs: 10_000, caFile, version: '1', clock });
    const send = () =>
      sender.send({ url: subscriber.url(), agentKey: '1' }, secrets, message(), new AbortController().signal);
    assert.equal((await send()).cause, '');
    open = false;
    const outcome = await send();
    assert.deepEqual([outcome.cause, outcome.reasons.length], ['ssrf', 1]);
    await subscriber.drained();
    assert.equal(subscriber.received.length, 1);
  });

  it('ends with its agent, and without touching what is under way', async () => {
    await own.send(subscriber.url());
    const reached = Promise.withResolvers<ServerResponse>();
    subscriber.script = async (exchange) => {
      await readBody(exchange);
      reached.resolve(exchange.response);
    };
    const sending = own.send(subscriber.url());
    const response = await reached.promise;
    own.sender.close('1');
    response.writeHead(202).end();
    assert.equal((await sending).cause, '');
    await subscriber.drained();
  });

  it('is closed after ten minutes of use: the certificate is checked again', async () => {
    await own.send(subscriber.url());
    clock.advance(600_001);
    await own.send(subscriber.url());
    await own.send(subscriber.url());
    assert.equal(new Set(connectionsOf()).size, 2);
  });
});

describe('a kept connection that is dead', () => {
  /** The server of a kept connection ends it when the next request arrives: the race that every server has. */
  const dieOnReuse = (first: string) => {
    let connection = 0;
    subscriber.script = async (exchange) => {
      await readBody(exchange);
      if (connection === 0) connection = exchange.received.connection;
      else if (exchange.received.connection === connection) {
        if (first !== '') await new Promise((resolve) => exchange.socket.write(first, resolve));
        return void exchange.socket.destroy();
      }
      exchange.response.writeHead(202).end();
    };
  };

  it('costs no attempt: the same bytes go once more at once', async () => {
    dieOnReuse('');
    await own.send(subscriber.url());
    assert.equal((await own.send(subscriber.url(), '{"same":true}')).cause, '');
    const [, lost, again] = subscriber.received;
    assert.equal(subscriber.received.length, 3);
    assert.deepEqual(again?.body, lost?.body);
    assert.deepEqual(again?.headers, lost?.headers);
    assert.equal(again?.body.toString(), '{"same":true}');
  });

  it('was alive if it has begun to answer: that attempt has failed', async () => {
    dieOnReuse('HTTP/1.1 5');
    await own.send(subscriber.url());
    const outcome = await own.send(subscriber.url());
    assert.equal(outcome.cause, 'connect');
    assert.equal(subscriber.received.length, 2);
  });

  it('is replaced once: a server that ends each connection is not called without end', async () => {
    await own.send(subscriber.url());
    subscriber.script = async (exchange) => {
      await readBody(exchange);
      exchange.socket.destroy();
    };
    const outcome = await own.send(subscriber.url());
    assert.equal(outcome.cause, 'connect');
    assert.match(outcome.message, /closed the connection without an answer/);
    assert.equal(subscriber.received.length, 3);
  });

  it('may have been ended by a server that was restarted meanwhile', async () => {
    await Promise.all(['1', '1', '1'].map(() => own.send(subscriber.url())));
    subscriber.dropConnections();
    assert.equal((await own.send(subscriber.url())).cause, '');
  });

  it('is not replaced when its caller has cancelled', async () => {
    await own.send(subscriber.url());
    subscriber.script = hang;
    const caller = new AbortController();
    const sending = own.send(subscriber.url(), '{}', caller.signal);
    await subscriber.requests(2);
    caller.abort();
    await sending;
    await subscriber.drained();
    assert.equal(subscriber.received.length, 2);
  });
});

describe('kept connections', () => {
  it('end when they are idle', async () => {
    const egress = { mayCall: () => true };
    const trust = createSecureContext({ ca: readFileSync(certificates.caFile) });
    const agent = new SubscriberAgent({ egress, clock, trust }, new Set());
    assert.equal(agent.options.timeout, 30_000);
    agent.options.timeout = 50;
    const target = { hostname: 'subscriber.test', port: subscriber.port, addresses: [local] };
    const requestContext = { target, signal: new AbortController().signal, phase: 'connect' as const };
    await new Promise<void>((resolve, reject) => {
      const options = { agent, requestContext, method: 'POST' };
      const sent = request(subscriber.url(), options, (response) => response.resume().once('end', resolve));
      sent.once('error', reject).end('{}');
    });
    await subscriber.drained();
    assert.equal(subscriber.received.length, 1);
  });

  it('are bounded over all agents', async () => {
    for (let agentKey = 0; agentKey < 80; agentKey += 1)
      await own.send(subscriber.url(), '{}', undefined, String(agentKey));
    assert.equal(subscriber.received.length, 80);
    await own.send(subscriber.url(), '{}', undefined, '0');
    assert.equal(connectionsOf().at(-1), connectionsOf()[0], 'the first are still kept');
    await subscriber.openAtMost(64);
  });

  it('are four of an agent, however many attempts it had at a time', async () => {
    await Promise.all(Array.from({ length: 12 }, () => own.send(subscriber.url())));
    assert.equal(subscriber.received.length, 12);
    await subscriber.openAtMost(4);
  });
});
