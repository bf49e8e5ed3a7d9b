/** Where connections lead, and whom the sender believes: to an address that was checked for this attempt, and nowhere else. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { ServerOptions } from 'node:https';
import { connect, createServer, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { createSecureContext } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { type ConnectOptions, dial, type RequestContext, sameAddress } from './connections.ts';
import { EgressRefused, type Target } from './guard.ts';
import { freePort, Subscriber, silentServer } from './https-subscriber.fixture.ts';
import { senderFixture, senderSite } from './sender.fixture.ts';

const { certificates, subscriber, own, attemptAt } = await senderSite();

describe('a name', () => {
  for (const address of ['10.1.2.3', '169.254.169.254', '::ffff:10.1.2.3', 'fd00::1']) {
    it(`that leads to ${address} is not called, also beside another address, and the address is not shown`, async () => {
      const before = subscriber.connections;
      for (const [at, addresses] of [[address], ['127.0.0.1', address]].entries()) {
        own.addresses = addresses;
        const outcome = await own.send(subscriber.url().replace('//', `//${at}.`));
        assert.deepEqual([outcome.cause, outcome.status, outcome.unreached], ['ssrf', undefined, false]);
        assert.ok(outcome.reasons.length > 0);
        assert.ok(!JSON.stringify({ ...outcome, answer: '' }).includes(address), outcome.reasons.join());
      }
      assert.equal(subscriber.connections, before);
      own.sender.close();
    });
  }

  it('that leads elsewhere when asked again is asked once for an attempt: what was checked is dialled', async () => {
    const rebound = await Subscriber.start(certificates.good, '127.0.0.2', subscriber.port);
    let asked = 0;
    const lookup = async () => [`127.0.0.${++asked}`];
    const moving = senderFixture({ caFile: certificates.caFile, lookup });
    assert.equal((await moving.send(subscriber.url())).cause, '');
    moving.sender.close();
    assert.deepEqual([asked, subscriber.received.length, rebound.connections], [1, 1, 0]);
    await rebound.close();
  });

  it('with an address that does not answer is reached at the next', async () => {
    own.addresses = ['127.0.0.3', '127.0.0.1'];
    assert.equal((await own.send(`https://next.subscriber.test:${subscriber.port}/`)).cause, '');
  });
});

describe('a dial', () => {
  const clock = new FakeClock();
  const context = () => createSecureContext({});
  const targetOf = (port: number, ...addresses: string[]): Target => {
    return { hostname: 'subscriber.test', port, addresses: addresses.map((address) => ({ address, family: 4 })) };
  };
  const contextTo = (target: Target, signal = new AbortController().signal): RequestContext => {
    return { target, signal, phase: 'connect' };
  };
  const connectOptions = (more: Partial<ConnectOptions>): ConnectOptions => {
    return { egress: { mayCall: () => true }, clock, trust: context(), ...more };
  };

  it('that arrives at an address which is none of the target is ended before a byte is written', async () => {
    const stranger = await Subscriber.start(certificates.good, '127.0.0.2');
    const misled = connectOptions({ connect: () => connect(stranger.port, '127.0.0.2') });
    await assert.rejects(dial(contextTo(targetOf(stranger.port, '127.0.0.1')), misled), EgressRefused);
    await stranger.drained();
    assert.equal(stranger.bytesRead, 0);
    await stranger.close();
  });

  it('that arrives where it may not call is ended before a byte is written', async () => {
    const before = subscriber.bytesRead;
    let checked = 0;
    const changing = connectOptions({ egress: { mayCall: () => ++checked === 1 } });
    await assert.rejects(dial(contextTo(targetOf(subscriber.port, '127.0.0.1')), changing), EgressRefused);
    await subscriber.drained();
    assert.equal(subscriber.bytesRead, before);
  });

  it('ends with its attempt while no address answers, and ends its socket', async () => {
    const socket = new Socket();
    const silent = connectOptions({ connect: () => socket });
    const caller = new AbortController();
    const dialled = dial(contextTo(targetOf(443, '127.0.0.1', '127.0.0.2', '127.0.0.3'), caller.signal), silent);
    caller.abort();
    await assert.rejects(dialled);
    assert.ok(socket.destroyed);
  });

  it('tries six addresses of a name at most, those that were checked, and reports the refusal', async () => {
    const tried: string[] = [];
    const watching = connectOptions({
      connect(options) {
        assert.equal(options.autoSelectFamilyAttemptTimeout, 1_500);
        return connect(options).on('connectionAttemptFailed', (address) => tried.push(address));
      },
    });
    const many = Array.from({ length: 50 }, (_, index) => `127.0.0.${index + 1}`);
    await assert.rejects(dial(contextTo(targetOf(await freePort(), ...many)), watching), { code: 'ECONNREFUSED' });
    assert.deepEqual(tried, many.slice(0, 6));
  });

  it('takes one address for itself however it is written', () => {
    assert.ok(sameAddress('2001:DB8:0::1', '2001:db8::1'));
    assert.ok(!sameAddress('127.0.0.1', '127.0.0.2'));
    assert.ok(!sameAddress('nonsense', 'other nonsense'));
  });
});

describe('proxies of the environment', () => {
  it('see no connection', async () => {
    let asked = 0;
    const proxy = createServer((socket) => {
      asked += 1;
      socket.destroy();
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    const address = proxy.address();
    const url = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`;
    const names = ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy', 'ALL_PROXY', 'all_proxy'];
    const variables = {
      ...Object.fromEntries(names.map((name) => [name, url])),
      NODE_USE_ENV_PROXY: '1',
      NO_PROXY: '',
    };
    const child = fileURLToPath(new URL('./proxy-child.fixture.ts', import.meta.url));
    const { stdout } = await promisify(execFile)(process.execPath, [child, subscriber.url(), certificates.caFile], {
      env: { ...process.env, ...variables, no_proxy: '' },
    });
    assert.deepEqual(JSON.parse(stdout), { status: 202, cause: '' });
    assert.equal(asked, 1, "Node's own agent asked it, and the sender did not");
    assert.equal(subscriber.received.length, 1);
    await new Promise((resolve) => proxy.close(resolve));
  });
});

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
