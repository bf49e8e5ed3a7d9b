import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import { answer, type Certificates, makeCertificates, Subscriber } from './https-subscriber.fixture.ts';
import { type SenderFixture, secrets, senderFixture } from './sender.fixture.ts';
import { signatureOf } from './signature.ts';

let certificates: Certificates;
let subscriber: Subscriber;
let own: SenderFixture;

before(async () => {
  certificates = makeCertificates();
  subscriber = await Subscriber.start(certificates.good);
  own = senderFixture({ caFile: certificates.caFile });
});
afterEach(() => own.sender.close());
after(async () => {
  await subscriber.close();
  certificates.remove();
});

describe('a delivery', () => {
  it('has exactly the body that was given, and the headers of the contract', async () => {
    subscriber.script = answer(202);
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
});
