/** --fingerprint against real TLS servers of both interfaces: whoever is not that box learns nothing. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, describe, it } from 'node:test';
import { createServer, type TlsOptions } from 'node:tls';
import { makeCa, signed } from '../../shared/base/certificates.fixture.ts';
import { type Outcome, run } from '../drive.fixture.ts';
import { FakeHub } from '../hub/fake-hub.fixture.ts';
import { FakeService } from '../line/fake-service.fixture.ts';
import { fingerprintText, parseFingerprint } from './fingerprint.ts';

let dir: string;
let box: { cert: Buffer; key: Buffer };
let own: string;
let other: string;
const at = (name: string): string => join(dir, name);
const ends: (() => unknown)[] = [];

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'lineside-pin-'));
  // Two authorities of one name: the first is the box's, the second an impostor's.
  makeCa(dir);
  signed(dir, 'box', 'DNS:some-other-name.test');
  const ca = await readFile(at('ca.pem'));
  box = { cert: Buffer.concat([await readFile(at('box.pem')), ca]), key: await readFile(at('box.key')) };
  own = fingerprintOf(ca);
  await writeFile(at('true-ca.pem'), ca);
  makeCa(dir);
  signed(dir, 'impostor', 'IP:127.0.0.1');
  other = fingerprintOf(await readFile(at('ca.pem')));
  await writeFile(at('token'), 'secret-1\n');
});
after(() => rm(dir, { recursive: true }));
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

function fingerprintOf(pem: Buffer): string {
  return new X509Certificate(pem).fingerprint256;
}

async function service(): Promise<string> {
  const made = new FakeService();
  made.token = 'secret-1';
  ends.push(() => made.stop());
  return `127.0.0.1:${await made.listen('127.0.0.1:0', box)}`;
}

async function hub(): Promise<string> {
  const made = new FakeHub();
  made.token = 'secret-1';
  ends.push(() => made.stop());
  return `127.0.0.1:${await made.listen(0, box)}`;
}

/** Somebody who speaks TLS and keeps every byte that is said to him. */
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
  return run([command, '--host', host, ...pin, '--token-file', at('token'), '--timeout', '5'], { env });
}

describe('a box known by the fingerprint of its authority', () => {
  it('is trusted by both interfaces whatever its certificate is called', async () => {
    const [line, reference] = [await service(), await hub()];
    const forms = [own, own.toLowerCase().replaceAll(':', '')];
    for (const form of forms) {
      assert.equal((await ask('config', line, form)).stdout, 'closed\n');
      assert.equal((await ask('alerts', reference, form)).stdout, 'no alerts\n');
    }
    const env = { LINESIDE_FINGERPRINT: own };
    const byVariable = await run(['config', '--host', line, '--tls', '--token-file', at('token')], { env });
    assert.equal(byVariable.stdout, 'closed\n', byVariable.stderr);
    const byName = await run(['config', '--host', line, '--ca', at('true-ca.pem'), '--token-file', at('token')], {
      env,
    });
    assert.match(byName.stderr, /certificate is for another name/, 'the name counts where the authority is given');
  });

  it('is told from another one by both values, and the other one is sent nothing', async () => {
    for (const command of ['config', 'alerts']) {
      const { host, heard, met } = await listener(box);
      const outcome = await ask(command, host, other);
      assert.equal(outcome.status, 3);
      assert.ok(outcome.stderr.includes(`is ${own}, not ${other}`), outcome.stderr);
      assert.match(outcome.stderr, /Nothing was sent\./);
      assert.deepEqual([heard(), met()], [0, 1]);
    }
  });

  it("is told from one that shows the box's authority behind a certificate of its own", async () => {
    const ca = await readFile(at('true-ca.pem'));
    const cert = Buffer.concat([await readFile(at('impostor.pem')), ca]);
    for (const command of ['config', 'alerts']) {
      const { host, heard } = await listener({ cert, key: await readFile(at('impostor.key')) });
      const outcome = await ask(command, host, own);
      assert.equal(outcome.status, 3, outcome.stderr);
      assert.match(outcome.stderr, /no certificate of an authority|not trusted here|signature/);
      assert.equal(heard(), 0);
    }
  });

  it('must present its authority, speak TLS, and be there', async () => {
    const alone = await listener({ cert: await readFile(at('impostor.pem')), key: await readFile(at('impostor.key')) });
    assert.match((await ask('config', alone.host, own)).stderr, /no certificate of an authority.*tls\.cert_file/);
    const plain = createTcpServer((socket) => socket.resume().end('no TLS here\n')).listen(0, '127.0.0.1');
    await once(plain, 'listening');
    const host = `127.0.0.1:${(plain.address() as AddressInfo).port}`;
    assert.match((await ask('config', host, own)).stderr, /does not speak TLS|broke the connection off/);
    plain.close();
    await once(plain, 'close');
    assert.match((await ask('config', host, own)).stderr, /connection refused/);
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
      assert.equal((await run(['config', '--host', 'box', '--fingerprint', own, ...more])).status, 2, more.join(' '));
    }
    assert.equal((await run(['config', '--fingerprint', own])).status, 2, 'it needs a host');
  });
});
