// Runs alone: measures the memory of its process.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { answer, type Exchange, gzipBomb, huge, rawAnswer, readBody, Subscriber } from './https-subscriber.fixture.ts';
import { message, secrets, senderFixture, senderSite } from './sender.fixture.ts';
import { signatureOf } from './sender.ts';

const { certificates, subscriber, own } = await senderSite();
const never = new AbortController().signal;

describe('a delivery', () => {
  it('has exactly the body that was given, and the headers of the contract', async () => {
    const body = Buffer.from('{"x":"ä\\u0000","n":1.10}');
    const outcome = await own.send(subscriber.url('/hook?a=1#part'), body);
    assert.deepEqual(
      { ...outcome, elapsedMs: 0 },
      { status: 202, cause: '', message: '', answer: Buffer.alloc(0), elapsedMs: 0, reasons: [], unreached: false },
    );
    const { last } = subscriber;
    assert.equal(last.method, 'POST');
    assert.equal(last.path, '/hook?a=1');
    assert.ok(last.body.equals(body));
    assert.deepEqual(last.headers, {
      host: `subscriber.test:${subscriber.port}`,
      connection: 'keep-alive',
      'content-type': 'application/json',
      'content-length': String(body.length),
      'user-agent': 'lineside/1.2.3',
      'accept-encoding': 'identity',
      'x-service-signature': signatureOf(secrets.current, body),
      'x-service-delivery': '7-ab',
      'x-service-subscription': 'MES of hall 3',
    });
  });

  it('arrives whole at the largest size', async () => {
    const body = Buffer.alloc(1024 * 1024 + 1, 'delivery ');
    assert.equal((await own.send(subscriber.url(), body)).cause, '');
    assert.ok(subscriber.last.body.equals(body));
    assert.equal(subscriber.last.headers['content-length'], String(body.length));
  });

  it('is signed with the old secret as well while there is one', async () => {
    const { body, ...rest } = message();
    const both = { current: 'the new secret, long enough', previous: 'the old secret, long enough' };
    await own.sender.send({ url: subscriber.url(), agentKey: '1' }, both, { body, ...rest }, never);
    assert.equal(subscriber.last.headers['x-service-signature'], signatureOf(both.current, body));
    assert.equal(subscriber.last.headers['x-service-signature-previous'], signatureOf(both.previous, body));
  });

  for (const subscriptionName of ['a\r\nx-admin: yes', 'a\nb', 'ä', 'a\u0000']) {
    it(`does not leave with the name ${JSON.stringify(subscriptionName)} in a header`, async () => {
      const bad = { ...message(), subscriptionName };
      const outcome = await own.sender.send({ url: subscriber.url(), agentKey: '1' }, secrets, bad, never);
      assert.equal(outcome.cause, 'connect');
      assert.equal(subscriber.received.length, 0);
    });
  }
});

describe('an answer', () => {
  for (const status of [200, 201, 202, 204]) {
    it(`of ${status} accepts`, async () => {
      subscriber.script = answer(status);
      const outcome = await own.send(subscriber.url());
      assert.deepEqual([outcome.status, outcome.cause, outcome.message], [status, '', '']);
    });
  }

  const others = [
    203, 205, 206, 207, 226, 299, 400, 401, 403, 404, 408, 410, 413, 422, 429, 451, 499, 500, 502, 503, 504,
  ];
  for (const status of [...others, 599, 600, 999]) {
    it(`of ${status} does not accept, and its body is kept`, async () => {
      const body = status === 205 ? '' : 'because';
      subscriber.script = answer(status, { 'retry-after': '1' }, body);
      const outcome = await own.send(subscriber.url());
      assert.deepEqual([outcome.status, outcome.cause, outcome.unreached], [status, 'http', false]);
      const why = status < 300 ? ', which is none of 200, 201, 202 and 204' : '';
      assert.equal(outcome.message, `subscriber.test:${subscriber.port} answered ${status}${why}`);
      assert.equal(outcome.answer.toString(), body);
      assert.equal(subscriber.received.length, 1, 'got retried');
    });
  }

  for (const status of [300, 301, 302, 303, 304, 305, 307, 308]) {
    it(`of ${status} is not followed`, async () => {
      const elsewhere = await Subscriber.start(certificates.good);
      subscriber.script = answer(status, { location: elsewhere.url('/stolen') });
      const outcome = await own.send(subscriber.url());
      assert.deepEqual([outcome.status, outcome.cause], [status, 'http']);
      assert.match(outcome.message, /redirects are not followed/);
      assert.equal(elsewhere.connections, 0);
      await elsewhere.close();
    });
  }

  for (const head of ['upgrade: x\r\nconnection: upgrade\r\n\r\nhello', '\r\n']) {
    it(`of 101 lets go of the connection and does not accept: ${JSON.stringify(head)}`, async () => {
      subscriber.script = rawAnswer(`HTTP/1.1 101 Switching Protocols\r\n${head}`);
      const outcome = await own.send(subscriber.url());
      assert.deepEqual([outcome.status, outcome.cause], [101, 'http']);
      await subscriber.drained();
    });
  }

  it('begins after 100, 102 and 103, which are none', async () => {
    subscriber.script = async (exchange) => {
      await readBody(exchange);
      exchange.response.writeContinue();
      exchange.response.writeProcessing();
      exchange.response.writeEarlyHints({ link: '</style.css>; rel=preload' });
      exchange.response.writeHead(202).end();
    };
    const outcome = await own.send(subscriber.url());
    assert.deepEqual([outcome.status, outcome.cause], [202, '']);
  });

  for (const begin of ['100 Continue', '103 Early Hints']) {
    it(`that only ever begins with ${begin} is aborted`, async () => {
      subscriber.script = async (exchange) => {
        await readBody(exchange);
        exchange.socket.write(`HTTP/1.1 ${begin}\r\n\r\n`.repeat(1_000));
      };
      const outcome = await own.send(subscriber.url());
      assert.deepEqual([outcome.status, outcome.cause], [undefined, 'http']);
    });
  }

  it('that comes before the body was read counts, and a second later the rest of the request ends', async () => {
    const clock = new FakeClock();
    const timed = senderFixture({ caFile: certificates.caFile, clock });
    let goOn: () => void = () => {};
    subscriber.script = ({ request, socket }: Exchange) => {
      request.pause();
      goOn = () => request.resume();
      socket.write('HTTP/1.1 413 Too Large\r\ncontent-length: 9\r\n\r\ntoo large');
    };
    // More than the kernel takes in for a peer that does not read.
    const outcome = await timed.send(subscriber.url(), Buffer.alloc(32 * 1024 * 1024));
    assert.deepEqual([outcome.status, outcome.cause, outcome.answer.toString()], [413, 'http', 'too large']);
    clock.advance(1_000);
    // A server that does not read does not see its peer go.
    goOn();
    await subscriber.drained();
    assert.equal(clock.pendingTimers, 0);
  });

  it('that comes before the body was read leaves the connection to a server that then reads it', async () => {
    const clock = new FakeClock();
    const timed = senderFixture({ caFile: certificates.caFile, clock });
    const before = subscriber.connections;
    const read = Promise.withResolvers<void>();
    subscriber.script = async (exchange) => {
      exchange.response.writeHead(413).end('too large');
      await readBody(exchange);
      read.resolve();
    };
    const outcome = await timed.send(subscriber.url(), Buffer.alloc(32 * 1024 * 1024));
    assert.equal(outcome.status, 413);
    await read.promise;
    subscriber.script = answer(202);
    assert.equal((await timed.send(subscriber.url())).cause, '');
    assert.deepEqual([subscriber.connections - before, clock.pendingTimers], [1, 0]);
    timed.sender.close();
  });
});

describe('the body of an answer', () => {
  it('is kept up to 4 KiB, and the connection with it', async () => {
    subscriber.script = answer(500, {}, Buffer.alloc(60 * 1024, 'x'));
    const before = subscriber.connections;
    const outcome = await own.send(subscriber.url());
    assert.equal(outcome.answer.length, 4 * 1024);
    await own.send(subscriber.url());
    assert.equal(subscriber.connections, before + 1);
  });

  it('is cut after 64 KiB; the status counts, and the connection is not kept', async () => {
    subscriber.script = answer(200, {}, Buffer.alloc(65 * 1024, 'x'));
    const before = subscriber.connections;
    const outcome = await own.send(subscriber.url());
    assert.deepEqual([outcome.cause, outcome.answer.length], ['', 4 * 1024]);
    await subscriber.drained();
    await own.send(subscriber.url());
    assert.equal(subscriber.connections, before + 2);
  });

  for (const chunked of [false, true]) {
    it(`of 1 GB is not taken (${chunked ? 'chunked' : 'with its length'})`, async () => {
      const before = subscriber.bytesWritten;
      subscriber.script = huge(1024 ** 3, chunked);
      const outcome = await own.send(subscriber.url());
      assert.deepEqual([outcome.status, outcome.cause, outcome.answer.length], [200, '', 4 * 1024]);
      await subscriber.drained();
      const took = subscriber.bytesWritten - before;
      assert.ok(took < 32 * 1024 ** 2, `${took} bytes went into the socket and the kernel's buffers`);
    });
  }

  it('is not unpacked', async () => {
    const before = process.memoryUsage().rss;
    subscriber.script = gzipBomb();
    const outcome = await own.send(subscriber.url());
    assert.equal(outcome.cause, '');
    assert.equal(outcome.answer.subarray(0, 2).toString('hex'), '1f8b');
    assert.ok(process.memoryUsage().rss - before < 150 * 1024 ** 2, 'what was unpacked is 200 MB');
  });

  for (const [what, text, status, cause, message, body] of [
    [
      'that breaks off leaves an acceptance in doubt: it is none',
      '200 OK\r\ncontent-length: 100\r\n\r\nhalf',
      200,
      'connect',
      /answered 200 and closed the connection before the end of the answer/,
      '',
    ],
    ['that breaks off leaves a refusal one', '400 Bad\r\ncontent-length: 100\r\n\r\nhalf', 400, 'http', /400/, 'half'],
    ['may end with the connection', '200 OK\r\nconnection: close\r\n\r\nall of it', 200, '', /^$/, 'all of it'],
  ] as const) {
    it(what, async () => {
      subscriber.script = rawAnswer(`HTTP/1.1 ${text}`, 'close');
      const outcome = await own.send(subscriber.url());
      assert.deepEqual([outcome.status, outcome.cause, outcome.answer.toString()], [status, cause, body]);
      assert.match(outcome.message, message);
    });
  }
});

describe('a signature', () => {
  it('is the known vector in lower-case hexadecimal; a secret is taken as UTF-8', () => {
    for (const [secret, body, hex] of [
      [
        "It's a Secret to Everybody",
        'Hello, World!',
        '757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
      ],
      // printf '{}' | openssl dgst -sha256 -hmac 'schlüssel-schlüssel'
      ['schlüssel-schlüssel', '{}', '11f02dee71864d1d7f9b5747ed2daae390fabb9b18113b688a437011bd48657a'],
    ] as const) {
      assert.equal(signatureOf(secret, Buffer.from(body)), `sha256=${hex}`);
    }
  });

  it('is of bytes, not of text: a body that is no UTF-8 keeps its own', () => {
    const [one, other] = [Buffer.from([0xff, 0xfe]), Buffer.from([0xfe, 0xff])];
    assert.notEqual(signatureOf('a secret of sixteen', one), signatureOf('a secret of sixteen', other));
  });
});
