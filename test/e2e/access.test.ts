/**
 * From another machine, over TLS with a token. That the service does not start on such an address without both is shown in
 * src/shared/config/parse.test.ts; what each role may call in src/line/grpc/access.test.ts; the messages of the command line
 * about TLS and tokens in src/cli/connection/tls.test.ts.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { Authority } from '../../src/shared/base/certificates.fixture.ts';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import { bearer, securedClient } from '../grpc/raw-client.ts';
import { type Daemon, startDaemon, type Toml, temporaryDirectory, writeConfig } from './daemon.ts';
import { makeLan } from './island.ts';
import { addToken, runCli, startCli } from './run-cli.ts';

const lan = makeLan();
const skip = typeof lan === 'string' ? `no network of its own here: ${lan}` : false;
const address = typeof lan === 'string' ? '198.18.0.2' : lan.address;
const wrapper = typeof lan === 'string' ? [] : lan.wrapper;

const files = temporaryDirectory();
const authority = new Authority(files, 'site-ca');
const server = authority.issue('server', '/CN=box');

const listen = [`${address}:0`, 'unix:grpc.sock'];
const tls = { cert_file: server.certFile, key_file: server.keyFile };

/** The tokens have to be there before the service starts on such an address: made with a file that listens nowhere. */
async function guarded(): Promise<{ dir: string; config: Toml; tokens: Record<string, string> }> {
  const dir = temporaryDirectory();
  const configFile = writeConfig(dir);
  const tokens: Record<string, string> = {};
  for (const role of ['viewer', 'operator']) {
    const token = await addToken(configFile, role, role);
    writeFileSync(join(dir, `${role}.token`), `${token}\n`, { mode: 0o600 });
    tokens[role] = token;
  }
  return { dir, config: { grpc: { listen }, tls }, tokens };
}

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
    const raw = securedClient(daemon.address, authority.root.cert);
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
