/** TLS of both interfaces against real servers: what each shows and asks for, and a box that is known by a fingerprint. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { afterEach, describe, it } from 'node:test';
import { createServer, type TlsOptions } from 'node:tls';
import { makeCa, signed } from '../../shared/base/certificates.fixture.ts';
import { type Outcome, run, testFiles } from '../drive.fixture.ts';
import { FakeHub } from '../hub/fake-hub.fixture.ts';
import { FakeService } from '../line/fake-service.fixture.ts';
import { fingerprintText, parseFingerprint } from './endpoint.ts';

const { dir, at, file } = testFiles();
const ends: (() => unknown)[] = [];
// Two authorities of one name: the first is the box's, the second an impostor's.
makeCa(dir);
signed(dir, 'box', 'DNS:box.test,IP:127.0.0.1');
signed(dir, 'client', 'DNS:client.test');
const authority = readFileSync(at('ca.pem'));
const trueCa = file('true-ca.pem', authority);
const box = { cert: Buffer.concat([readFileSync(at('box.pem')), authority]), key: readFileSync(at('box.key')) };
const own = fingerprintOf(authority);
makeCa(dir);
signed(dir, 'impostor', 'IP:127.0.0.1');
const impostor = { cert: readFileSync(at('impostor.pem')), key: readFileSync(at('impostor.key')) };
const other = fingerprintOf(readFileSync(at('ca.pem')));
const token = file('token', 'secret-1\n');
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

function fingerprintOf(pem: Buffer): string {
  return new X509Certificate(pem).fingerprint256;
}

type Serve = (tls?: 'with its token' | 'asks for a certificate') => Promise<string>;

/** The two interfaces: a command that each answers, what it prints, and a server on loopback. */
const faces: readonly (readonly [command: string, prints: string, serve: Serve])[] = [
  ['settings', 'closed\n', service],
  ['alerts', 'no alerts\n', hub],
];

async function service(tls?: Parameters<Serve>[0]): Promise<string> {
  const made = new FakeService();
  made.token = tls === 'with its token' ? 'secret-1' : undefined;
  ends.push(() => made.stop());
  const asks = tls === 'asks for a certificate' ? { clientCa: authority } : {};
  return `127.0.0.1:${await made.listen('127.0.0.1:0', tls === undefined ? tls : { ...box, ...asks })}`;
}

async function hub(tls?: Parameters<Serve>[0]): Promise<string> {
  const made = new FakeHub();
  made.token = tls === 'with its token' ? 'secret-1' : undefined;
  ends.push(() => made.stop());
  const asks = tls === 'asks for a certificate' ? { ca: authority, requestCert: true } : {};
  return `127.0.0.1:${await made.listen(0, tls === undefined ? tls : { ...box, ...asks })}`;
}

function fails(outcome: Outcome, status: number, text: RegExp): void {
  assert.deepEqual([outcome.status, outcome.stdout], [status, ''], outcome.stderr);
  assert.match(outcome.stderr, /^lineside: cannot .+: .+\. .+\n/);
  assert.match(outcome.stderr, text);
}

for (const [command, prints, serve] of faces)
  describe(`${command} from the laptop`, () => {
    it('speaks TLS with the authority, the token and the name that it is given', async () => {
      const host = await serve('with its token');
      const trusted = [command, '--host', host, '--ca', trueCa];
      const known = [...trusted, '--token-file', token];
      assert.equal((await run(known)).stdout, prints);
      assert.equal((await run([...known, '--server-name', 'box.test'])).status, 0);
      const env = { LINESIDE_CA: trueCa, LINESIDE_TOKEN_FILE: token };
      assert.equal((await run([command, '--host', host, '--tls'], { env })).stdout, prints);
      fails(await run(trusted), 4, /--token-file FILE/);
      fails(await run([...trusted, '--token-file', file('other', 'secret-2\n')]), 4, /no valid token/);
      fails(await run([...trusted, '--token-file', file('bad', 'two words\n')]), 1, /does not hold one token/);
      const missing = await run([...trusted, '--token-file', at('none')]);
      const said = `lineside: cannot read ${at('none')}: there is no such file or directory.\n`;
      assert.deepEqual([missing.status, missing.stderr], [1, said]);
      fails(await run([command, '--host', host, '--tls']), 3, /not trusted here\. .*--ca FILE/);
      fails(await run([...known, '--server-name', 'other.test']), 3, /another name\. .*--server-name/);
      fails(await run([command, '--host', host, '--timeout', '3']), 3, /ended the connection|broke|want --tls/);
    });

    it('shows its client certificate', async () => {
      const trusted = [command, '--host', await serve('asks for a certificate'), '--ca', trueCa];
      const certificate = ['--cert', at('client.pem'), '--key', at('client.key')];
      assert.equal((await run([...trusted, ...certificate])).status, 0);
      assert.equal((await run(trusted)).status, 3);
    });

    it('says when the remote speaks no TLS, when nothing listens there, and when there is no such host', async () => {
      const host = await serve();
      assert.equal((await run([command, '--host', host])).status, 0);
      fails(await run([command, '--host', host, '--tls']), 3, /does not speak TLS/);
      await ends.pop()?.();
      fails(await run([command, '--host', host]), 3, /connection refused\. Is the service running\?/);
      fails(await run([command, '--host', 'no-such-host.invalid']), 3, /cannot be resolved|no such host/);
      const { stderr } = await run([command, '--json', '--host', host]);
      const { error } = JSON.parse(stderr) as { error: { code: string; exitStatus: number } };
      assert.deepEqual([error.code, error.exitStatus], ['ECONNREFUSED', 3]);
    });
  });

it('the line is found by the environment alone', async () => {
  const env = { LINESIDE_HOST: await service('with its token'), LINESIDE_CA: trueCa, LINESIDE_TOKEN_FILE: token };
  assert.equal((await run(['settings', '--tls'], { env })).stdout, 'closed\n');
});

/** A TLS peer that keeps every byte that it receives. */
async function listener(options: TlsOptions): Promise<{ host: string; heard: () => number; met: () => number }> {
  let heard = 0;
  let met = 0;
  const server = createServer({ ...options, ALPNProtocols: ['h2', 'http/1.1'] }, (socket) => {
    socket.on('data', (data: Buffer) => (heard += data.length));
    socket.on('error', () => undefined);
  });
  server.on('connection', () => (met += 1));
  server.on('tlsClientError', () => undefined);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  ends.push(() => server.close());
  return { host: `127.0.0.1:${(server.address() as AddressInfo).port}`, heard: () => heard, met: () => met };
}

function ask(command: string, host: string, fingerprint: string, env: Record<string, string> = {}): Promise<Outcome> {
  const pin = fingerprint === '' ? [] : ['--fingerprint', fingerprint];
  return run([command, '--host', host, ...pin, '--token-file', token, '--timeout', '5'], { env });
}

describe('a box known by the fingerprint of its authority', () => {
  it('is trusted by both interfaces whatever its certificate is called', async () => {
    for (const [command, prints, serve] of faces)
      for (const form of [own, own.toLowerCase().replaceAll(':', '')])
        assert.equal((await ask(command, await serve('with its token'), form)).stdout, prints);
    const env = { LINESIDE_FINGERPRINT: own };
    const known = ['settings', '--host', await service('with its token'), '--tls', '--token-file', token];
    const byVariable = await run(known, { env });
    assert.equal(byVariable.stdout, 'closed\n', byVariable.stderr);
    const byName = await run([...known, '--ca', trueCa, '--server-name', 'other.test'], { env });
    assert.match(byName.stderr, /certificate is for another name/, 'the name counts where the authority is given');
  });

  it('is distinguished from another one by both values, and the other one is sent nothing', async () => {
    for (const [command] of faces) {
      const { host, heard, met } = await listener(box);
      const outcome = await ask(command, host, other);
      assert.equal(outcome.status, 3);
      assert.ok(outcome.stderr.includes(`is ${own}, not ${other}`), outcome.stderr);
      assert.match(outcome.stderr, /Nothing was sent\./);
      assert.deepEqual([heard(), met()], [0, 1]);
    }
  });

  it("is distinguished from one that shows the box's authority behind a certificate of its own", async () => {
    const cert = Buffer.concat([impostor.cert, authority]);
    for (const [command] of faces) {
      const { host, heard } = await listener({ ...impostor, cert });
      const outcome = await ask(command, host, own);
      assert.equal(outcome.status, 3, outcome.stderr);
      assert.match(outcome.stderr, /no certificate of an authority|not trusted here|signature/);
      assert.equal(heard(), 0);
    }
  });

  it('must present its authority, speak TLS, and be there', async () => {
    const alone = await listener(impostor);
    assert.match((await ask('settings', alone.host, own)).stderr, /no certificate of an authority.*tls\.cert_file/);
    const plain = createTcpServer((socket) => socket.resume().end('no TLS here\n')).listen(0, '127.0.0.1');
    await once(plain, 'listening');
    const host = `127.0.0.1:${(plain.address() as AddressInfo).port}`;
    assert.match((await ask('settings', host, own)).stderr, /does not speak TLS|broke the connection off/);
    plain.close();
    await once(plain, 'close');
    assert.match((await ask('settings', host, own)).stderr, /connection refused/);
  });
});

describe('a fingerprint', () => {
  it('is 64 hexadecimal digits, in either case, with colons or spaces', () => {
    const digits = 'ab'.repeat(32);
    for (const text of [digits, digits.toUpperCase(), fingerprintText(digits), digits.replace(/(.{8})/g, '$1 ')])
      assert.equal(parseFingerprint(text), digits);
    for (const text of ['', 'ab', `${digits}0`, `${digits.slice(1)}g`, digits.slice(2)])
      assert.equal(parseFingerprint(text), undefined, text);
  });

  it('goes with no other word on whom to trust', async () => {
    for (const more of [['--ca', 'f'], ['--server-name', 'n'], ['--plaintext'], ['--fingerprint', 'ab:cd']]) {
      assert.equal((await run(['settings', '--host', 'box', '--fingerprint', own, ...more])).status, 2, more.join(' '));
    }
    assert.equal((await run(['settings', '--fingerprint', own])).status, 2, 'it needs a host');
  });
});
