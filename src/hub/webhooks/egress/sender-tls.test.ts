/** Whom the sender believes. In none of the refusals does the other side see a byte of a request. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { LinesideError } from '../../../shared/base/errors.ts';
import { type Certificates, makeCertificates, Subscriber, silentServer } from './https-subscriber.fixture.ts';
import { senderFixture } from './sender.fixture.ts';

let certificates: Certificates;
before(() => {
  certificates = makeCertificates();
});
after(() => certificates.remove());

describe('a certificate', () => {
  const refused: readonly [string, keyof Omit<Certificates, 'caFile' | 'remove'>, RegExp][] = [
    ['that has expired', 'expired', /has expired \(is the device's clock right\?\)/],
    ['that is not valid yet', 'early', /is not valid yet \(is the device's clock right\?\)/],
    ['for another name', 'otherName', /^the certificate is for other names than subscriber\.test:\d+$/],
    ['that is self-signed', 'selfSigned', /is self-signed \(webhooks\.ca_file/],
  ];
  for (const [what, pair, words] of refused) {
    it(`${what} is refused`, async () => {
      const subscriber = await Subscriber.start(certificates[pair]);
      const own = senderFixture({ caFile: certificates.caFile });
      const outcome = await own.send(subscriber.url());
      assert.deepEqual([outcome.cause, outcome.status, outcome.unreached], ['tls', undefined, false]);
      assert.match(outcome.message, words);
      await subscriber.drained();
      assert.equal(subscriber.received.length, 0);
      await subscriber.close();
    });
  }

  it('of an authority of the site is believed with webhooks.ca_file alone', async () => {
    const subscriber = await Subscriber.start(certificates.good);
    const outcome = await senderFixture({ caFile: '' }).send(subscriber.url());
    assert.equal(outcome.cause, 'tls');
    assert.match(outcome.message, /authority that is not known here/);
    assert.equal(subscriber.received.length, 0);
    const own = senderFixture({ caFile: certificates.caFile });
    assert.equal((await own.send(subscriber.url())).cause, '');
    own.sender.close();
    await subscriber.close();
  });

  it('is judged by the address where the URL has one', async () => {
    const subscriber = await Subscriber.start(certificates.good);
    const own = senderFixture({ caFile: certificates.caFile });
    assert.equal((await own.send(`https://127.0.0.1:${subscriber.port}/`)).cause, '');
    own.sender.close();
    await subscriber.close();
    const other = await Subscriber.start(certificates.good, '127.0.0.2');
    assert.match((await own.send(`https://127.0.0.2:${other.port}/`)).message, /is for other names than 127\.0\.0\.2/);
    await other.close();
  });

  it('is looked at whatever NODE_TLS_REJECT_UNAUTHORIZED says', async () => {
    const subscriber = await Subscriber.start(certificates.selfSigned);
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
    try {
      const outcome = await senderFixture({ caFile: certificates.caFile }).send(subscriber.url());
      assert.equal(outcome.cause, 'tls');
    } finally {
      delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    }
    await subscriber.close();
  });
});

describe('a handshake', () => {
  it('older than TLS 1.2 fails', async () => {
    const old = { ...certificates.good, minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' };
    const subscriber = await Subscriber.start(old as never);
    const outcome = await senderFixture({ caFile: certificates.caFile }).send(subscriber.url());
    assert.equal(outcome.cause, 'tls');
    assert.match(outcome.message, /^TLS with subscriber\.test:\d+ failed: .*version/);
    await subscriber.close();
  });

  it('with what is no TLS fails', async () => {
    const plain = await silentServer('HTTP/1.1 400 Bad Request\r\n\r\n');
    const outcome = await senderFixture({ caFile: certificates.caFile }).send(`https://subscriber.test:${plain.port}/`);
    assert.equal(outcome.cause, 'tls');
    assert.match(outcome.message, /^TLS with subscriber\.test:\d+ failed: [a-z ]+$/);
    await plain.close();
  });

  it('that wants a certificate of the device fails, and says so', async () => {
    const subscriber = await Subscriber.start({ ...certificates.good, requestCert: true, rejectUnauthorized: true });
    const outcome = await senderFixture({ caFile: certificates.caFile }).send(subscriber.url());
    assert.equal(outcome.cause, 'tls');
    assert.equal(subscriber.received.length, 0);
    await subscriber.close();
  });
});

describe('webhooks.ca_file', () => {
  const dir = mkdtempSync(join(tmpdir(), 'lineside-ca-'));
  after(() => rmSync(dir, { recursive: true, force: true }));
  for (const [what, content] of [
    ['is missing', undefined],
    ['is empty', ''],
    ['holds no PEM', 'hello'],
    ['holds a damaged certificate', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'],
  ] as const) {
    it(`that ${what} is refused at the start, by its name`, () => {
      const caFile = join(dir, `${what}.pem`);
      if (content !== undefined) writeFileSync(caFile, content);
      assert.throws(
        () => senderFixture({ caFile }),
        (error) =>
          error instanceof LinesideError &&
          error.code === 'CONFIG_INVALID' &&
          error.message.includes('webhooks.ca_file'),
      );
    });
  }
});
