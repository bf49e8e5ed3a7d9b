/**
 * From another machine: nothing without TLS and credentials. What each role may call is asked in src/line/grpc/access.test.ts,
 * what the command line says of TLS and tokens in src/cli/connection/tls.test.ts.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { Authority, type Pair } from '../../src/shared/base/certificates.fixture.ts';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import { bearer, type RawClient, securedClient } from '../grpc/raw-client.ts';
import { type Daemon, runDaemonToEnd, startDaemon, type Toml, temporaryDirectory, writeConfig } from './daemon.ts';
import { makeLan } from './lan.ts';
import { addToken, runCli, startCli } from './run-cli.ts';

const lan = makeLan();
const skip = typeof lan === 'string' ? `no network of its own here: ${lan}` : false;
const address = typeof lan === 'string' ? '198.18.0.2' : lan.address;
const wrapper = typeof lan === 'string' ? [] : lan.wrapper;

const files = temporaryDirectory();
const authority = new Authority(files, 'site-ca');
const server = authority.issue('server', '/CN=box');
const clientAuthority = new Authority(files, 'client-ca');
const laptop = clientAuthority.issue('laptop', '/CN=laptop');
const display = clientAuthority.issue('display', '/CN=display');
const stranger = new Authority(files, 'other-ca').issue('stranger', '/CN=laptop');

const listen = [`${address}:0`, 'unix:grpc.sock'];
const tls = { cert_file: server.certFile, key_file: server.keyFile };

/** The tokens have to be there before the service starts on such an address: made with a file that listens nowhere. */
async function guarded(more: Toml = {}): Promise<{ dir: string; config: Toml; tokens: Record<string, string> }> {
  const dir = temporaryDirectory();
  const configFile = writeConfig(dir);
  const tokens: Record<string, string> = {};
  for (const role of ['viewer', 'operator']) {
    const token = await addToken(configFile, role, role);
    writeFileSync(join(dir, `${role}.token`), `${token}\n`, { mode: 0o600 });
    tokens[role] = token;
  }
  return { dir, config: { grpc: { listen }, tls, ...more }, tokens };
}

const client = (target: string, certificate?: Pair): RawClient =>
  securedClient(target, authority.root.cert, certificate);

/** How a method for viewers and one for operators answer. */
async function verdicts(raw: RawClient, token?: string): Promise<string[]> {
  const ask = (method: string) => raw.unary(`/serial.SerialService/${method}`, Buffer.alloc(0), bearer(token));
  const answers = [await ask('ListDevices'), await ask('Close')];
  raw.close();
  return answers.map(({ code }) => code);
}

const nothing = ['UNAUTHENTICATED', 'UNAUTHENTICATED'];

describe('an address that other machines reach', { skip }, () => {
  const noTls = /needs TLS: set tls\.cert_file and tls\.key_file/;
  const noCredentials = /needs credentials: add a token/;
  const insecure = { LINESIDE_GRPC_INSECURE: 'true' };
  for (const [without, options, says, saysNot] of [
    ['TLS and credentials, both said at once', {}, [noTls, noCredentials], []],
    ['credentials', { tls }, [noCredentials], [noTls]],
    ['TLS', { token: true }, [noTls], [noCredentials]],
    ['both when only the environment says insecure', { env: insecure }, [noTls, noCredentials], []],
  ] as const) {
    test(`is refused without ${without}, with exit status 2`, async () => {
      const dir = 'token' in options ? (await guarded()).dir : temporaryDirectory();
      const config = { grpc: { listen }, ...('tls' in options && { tls }) };
      const { status, log } = await runDaemonToEnd({ dir, config, wrapper, ...('env' in options && options) });
      assert.equal(status, 2, log);
      for (const pattern of says) assert.match(log, pattern);
      for (const pattern of saysNot) assert.doesNotMatch(log, pattern);
    });
  }
});

describe('TLS and tokens', { skip }, () => {
  let daemon: Daemon;
  let tokens: Record<string, string>;
  after(async () => {
    assert.equal(await daemon.stop(), 0);
  });

  test('the service starts', async () => {
    const made = await guarded();
    tokens = made.tokens;
    daemon = await startDaemon({ ...made, wrapper });
    assert.match(daemon.address, new RegExp(`^${address.replaceAll('.', '\\.')}:\\d+$`));
  });

  test('the command line reaches it with --ca and --token-file', async () => {
    const host = ['--host', daemon.address, '--server-name', 'localhost', '--ca', authority.root.certFile];
    const file = (name: string): string[] => ['--token-file', join(daemon.dir, `${name}.token`)];
    const listed = await runCli(['devices', '--json', ...host, ...file('viewer')]);
    assert.equal(listed.status, 0, listed.stderr);
    assert.ok(Array.isArray((JSON.parse(listed.stdout) as { devices: unknown }).devices));
    assert.equal((await runCli(['close', ...host, ...file('operator')])).status, 0);
    const denied = await runCli(['close', ...host, ...file('viewer')]);
    assert.equal(denied.status, 4);
    assert.match(denied.stderr, /operator/);
    assert.equal((await runCli(['close', ...host])).status, 4, 'without a token');
  });

  test('a revoked token is refused soon, without a restart, and what it follows ends', async () => {
    const host = ['--host', daemon.address, '--server-name', 'localhost', '--ca', authority.root.certFile];
    const token = ['--token-file', join(daemon.dir, 'viewer.token')];
    const following = startCli(['log', '--follow', '--text', '--last', '1', ...host, ...token]);
    const ended = once(following.process, 'close') as Promise<[number]>;
    await daemon.client.serial.logRaw({ dir: 1, rawData: Buffer.from('before it was revoked') });
    await until('the entry', () => following.stdout().includes('before it was revoked'));
    const raw = client(daemon.address);
    const ask = () => raw.unary('/serial.SerialService/ListDevices', Buffer.alloc(0), bearer(tokens['viewer']));
    assert.equal((await ask()).code, 'OK');
    const revoked = await runCli(['token', 'revoke', 'viewer', '--config', daemon.configFile]);
    assert.equal(revoked.status, 0, revoked.stderr);
    await until('the refusal', async () => (await ask()).code === 'UNAUTHENTICATED');
    raw.close();
    const [status] = await within('the end of what it follows', ended, 60_000);
    assert.equal(status, 4, following.stderr());
    assert.match(following.stderr(), /revoked/);
  });
});

describe('client certificates', { skip }, () => {
  test('have the roles that the configuration gives their names, and a stranger has none', async () => {
    const auth = { operator_certs: ['laptop'], viewer_certs: ['*'] };
    const config = { grpc: { listen }, tls: { ...tls, client_ca_file: clientAuthority.root.certFile }, auth };
    const daemon = await startDaemon({ config, wrapper });
    const may = (certificate?: Pair): Promise<string[]> => verdicts(client(daemon.address, certificate));
    assert.deepEqual(await may(laptop), ['OK', 'OK']);
    assert.deepEqual(await may(display), ['OK', 'PERMISSION_DENIED']);
    assert.deepEqual([await may(), await may(stranger)], [nothing, nothing]);
    const host = ['--host', daemon.address, '--server-name', 'localhost', '--ca', authority.root.certFile];
    const closed = await runCli(['close', ...host, '--cert', laptop.certFile, '--key', laptop.keyFile]);
    assert.equal(closed.status, 0, closed.stderr);
    assert.equal(await daemon.stop(), 0);
  });
});

describe('insecure = true', { skip }, () => {
  test('opens the address to whoever reaches it', async () => {
    const daemon = await startDaemon({ config: { grpc: { listen, insecure: true } }, wrapper });
    const closed = await runCli(['close', '--host', daemon.address, '--plaintext']);
    assert.equal(closed.status, 0, closed.stderr);
    const secure = await runCli(['close', '--host', daemon.address]);
    assert.equal(secure.status, 3, 'TLS unless told otherwise');
    assert.equal(await daemon.stop(), 0);
  });
});
