/** Whom the sender believes. In none of the refusals does the other side see a byte of a request. */

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { ServerOptions } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, it } from 'node:test';
import { silentServer } from './https-subscriber.fixture.ts';
import { senderFixture, senderSite } from './sender.fixture.ts';

const { certificates, subscriber, own, attemptAt } = await senderSite();
const { good } = certificates;

/** Of a subscriber that is not believed, or does not believe the device: no request is sent to it. */
const refused: readonly (readonly [what: string, server: ServerOptions, words: RegExp])[] = [
  ['a certificate that has expired', certificates.expired, /has expired \(is the device's clock right\?\)/],
  ['a certificate that is not valid yet', certificates.early, /is not valid yet \(is the device's clock right\?\)/],
  ['one for another name', certificates.otherName, /^the certificate is for other names than subscriber\.test:\d+$/],
  ['a certificate that is self-signed', certificates.selfSigned, /is self-signed \(webhooks\.ca_file/],
  [
    'a handshake older than TLS 1.2',
    { ...good, minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' },
    /^TLS with subscriber\.test:\d+ failed: .*version/,
  ],
  ['a handshake that wants a certificate of the device', { ...good, requestCert: true, rejectUnauthorized: true }, /./],
];
for (const [what, server, words] of refused) {
  it(`${what} is refused, whatever NODE_TLS_REJECT_UNAUTHORIZED says`, async () => {
    process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
    try {
      const { cause, status, unreached, message, requests } = await attemptAt(server);
      assert.deepEqual([cause, status, unreached, requests], ['tls', undefined, false, 0]);
      assert.match(message, words);
    } finally {
      delete process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
    }
  });
}

it('an authority of the site is believed with webhooks.ca_file alone', async () => {
  const { cause, message, requests } = await attemptAt(good, { caFile: '' });
  assert.deepEqual([cause, requests], ['tls', 0]);
  assert.match(message, /authority that is not known here/);
  assert.equal((await own.send(subscriber.url())).cause, '');
});

it('a certificate is verified for the address if the URL has one', async () => {
  assert.equal((await own.send(`https://127.0.0.1:${subscriber.port}/`)).cause, '');
  assert.match((await attemptAt(good, {}, '127.0.0.2')).message, /is for other names than 127\.0\.0\.2/);
});

it('a handshake with what is no TLS fails', async () => {
  const plain = await silentServer('HTTP/1.1 400 Bad Request\r\n\r\n');
  const outcome = await own.send(`https://subscriber.test:${plain.port}/`);
  assert.equal(outcome.cause, 'tls');
  assert.match(outcome.message, /^TLS with subscriber\.test:\d+ failed: [a-z ]+$/);
  await plain.close();
});

const dir = mkdtempSync(join(tmpdir(), 'lineside-ca-'));
after(() => rmSync(dir, { recursive: true, force: true }));
for (const [what, content] of [
  ['is missing', undefined],
  ['is empty', ''],
  ['holds no PEM', 'hello'],
  ['holds a damaged certificate', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'],
] as const) {
  it(`a webhooks.ca_file that ${what} is refused at the start, by its name`, () => {
    const caFile = join(dir, `${what}.pem`);
    if (content !== undefined) writeFileSync(caFile, content);
    assert.throws(() => senderFixture({ caFile }), { code: 'CONFIG_INVALID', message: /webhooks\.ca_file/ });
  });
}
