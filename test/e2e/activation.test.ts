/** Sockets that another program opened, as systemd does: the line needs no network of its own, and a restart is only a wait. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { lstatSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join, resolve } from 'node:path';
import { after, describe, test } from 'node:test';
import { Authority } from '../../src/shared/base/certificates.fixture.ts';
import { exchange } from '../../src/shared/base/exchange.fixture.ts';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import { bearer, RawClient, securedClient } from '../grpc/raw-client.ts';
import {
  type Daemon,
  daemonPid,
  environment,
  MAIN,
  NODE,
  startDaemon,
  temporaryDirectory,
  writeConfig,
} from './daemon.ts';
import { type Hub, startHub } from './hub.ts';
import { makeLan } from './island.ts';
import { addToken, runCli } from './run-cli.ts';

const lan = makeLan();
const skip = typeof lan === 'string' ? `no network of its own here: ${lan}` : false;
const box = typeof lan === 'string' ? { address: '198.18.0.2', wrapper: [] } : lan;
const launcher = ['/usr/bin/python3', resolve(import.meta.dirname, 'activate.py')];

const files = temporaryDirectory();
const authority = new Authority(files, 'site-ca');
const server = authority.issue('server', '/CN=box');
/** As the box has it: its own certificate and behind it that of its authority. The name of neither is the LAN's address. */
const chain = join(files, 'chain.crt');
writeFileSync(chain, Buffer.concat([server.cert, authority.root.cert]));
const tls = { cert_file: chain, key_file: server.keyFile };
const fingerprint = new X509Certificate(authority.root.cert).fingerprint256;

/** On the box, whose sockets they are; `sealed`: the process itself has no network and may make no socket but AF_UNIX. */
function activated(sockets: readonly string[], seal: 'sealed' | 'open' = 'sealed'): string[] {
  return [...box.wrapper, ...launcher, ...(seal === 'sealed' ? ['--sealed'] : []), ...sockets, '--'];
}

async function directoryWithToken(role: string): Promise<{ dir: string; token: string }> {
  const dir = temporaryDirectory();
  const token = await addToken(writeConfig(dir), 'laptop', role);
  writeFileSync(join(dir, 'token'), `${token}\n`, { mode: 0o600 });
  return { dir, token };
}

const listDevices = '/serial.SerialService/ListDevices';
const nothing = Buffer.alloc(0);

describe('the line on inherited sockets, without any network', { skip }, () => {
  const socket = join(files, 'grpc.sock');
  const sockets = [`grpc=unix:${socket}`, 'grpc=127.0.0.1:50051', 'grpc=[::]:50052'];
  const place = `${box.address}:50052`;
  let daemon: Daemon;
  let token = '';
  after(() => daemon?.process.kill('SIGKILL'));

  test('the seal holds: nothing in it can make a socket to the network', () => {
    const [command = '', ...args] = activated([]);
    const tried = spawnSync(command, [...args, '/usr/bin/python3', '-c', 'import socket; socket.socket()'], {
      encoding: 'utf8',
    });
    assert.match(tried.stderr, /Address family not supported/);
  });

  test('it listens on them, and logs that grpc.listen is not used', async () => {
    const made = await directoryWithToken('operator');
    token = made.token;
    daemon = await startDaemon({
      dir: made.dir,
      config: { tls, grpc: { keepalive_s: 1 } },
      wrapper: activated(sockets),
    });
    const ready = await daemon.waitFor(/ info ready /);
    assert.ok(ready.includes(`unix:${socket} 127.0.0.1:50051 [::]:50052`), ready);
    await daemon.waitFor(/listens on the sockets that systemd opened, not on grpc\.listen/);
  });

  test('the Unix socket and loopback need neither TLS nor token', async () => {
    await daemon.client.serial.close({});
    const asked: readonly string[] = [...box.wrapper, NODE, MAIN, 'close', '--host', '127.0.0.1:50051'];
    const [command = '', ...args] = asked;
    const local = spawnSync(command, args, { encoding: 'utf8', env: environment(), timeout: 20_000 });
    assert.equal(local.status, 0, local.stderr);
  });

  test('another machine gets answers over TLS with a token, and nothing without', async () => {
    const raw = securedClient(place, authority.root.cert);
    assert.equal((await raw.unary(listDevices, nothing, bearer(token))).code, 'OK');
    assert.equal((await raw.unary(listDevices, nothing)).code, 'UNAUTHENTICATED');
    raw.close();
    const plain = new RawClient(place);
    assert.equal((await plain.unary(listDevices, nothing, bearer(token))).code, 'UNAVAILABLE');
    plain.close();
  });

  test('while it is down after a crash, clients wait, and are answered once it is back', async () => {
    const before = daemon.logLines.length;
    process.kill(daemon.pid, 'SIGKILL');
    await until('the end of the process', () => daemonPid(daemon.process.pid) === undefined);
    const raw = securedClient(place, authority.root.cert);
    const asked = raw.unary(listDevices, nothing, bearer(token));
    const waiting = connect(socket);
    await once(waiting, 'connect');
    assert.equal(
      await Promise.race([asked.then(() => 'answered'), once(waiting, 'close').then(() => 'closed'), soon()]),
      'waits',
    );
    daemon.process.stdin?.write('\n');
    assert.equal((await asked).code, 'OK');
    await daemon.waitFor(/ info ready /, before);
    assert.equal(waiting.destroyed, false);
    waiting.destroy();
    raw.close();
  });

  test('a stop ends silent connections too, and leaves the socket where it was', async () => {
    const { ino, mode } = lstatSync(socket);
    const silent = await silentConnections([{ host: box.address, port: 50_052 }, { path: socket }]);
    const pid = await until('the process', () => daemonPid(daemon.process.pid));
    process.kill(pid, 'SIGTERM');
    assert.equal(await within('the end of the line', daemon.ended), 0, daemon.logLines.join('\n'));
    for (const one of silent) await until('the end of a silent connection', () => one.destroyed);
    assert.deepEqual({ ino: lstatSync(socket).ino, mode: lstatSync(socket).mode }, { ino, mode });
  });
});

describe('the hub on inherited sockets', { skip }, () => {
  const socket = join(files, 'http.sock');
  const sockets = [`http=unix:${socket}`, 'http=127.0.0.1:8080', 'http=[::]:8443'];
  let hub: Hub;
  let token = '';

  const ask = async (path: string, bearerToken = ''): Promise<number> => {
    const headers = bearerToken === '' ? {} : { authorization: `Bearer ${bearerToken}` };
    const place = { host: box.address, port: 8_443, path, servername: 'localhost', agent: false };
    return (await exchange({ ...place, headers, ca: authority.root.cert })).status;
  };

  test('another machine is answered over TLS with a token, this one through the Unix socket without', async () => {
    const made = await directoryWithToken('reader');
    token = made.token;
    hub = await startHub({ dir: made.dir, config: { tls }, wrapper: activated(sockets, 'open') });
    assert.equal(await ask('/api/v1/dictionaries', token), 200);
    assert.equal(await ask('/api/v1/dictionaries'), 401);
    assert.equal((await hub.http('GET', '/api/v1/dictionaries')).status, 200);
    const pinned = ['dict', 'list', '--host', box.address, '--token-file', join(hub.dir, 'token')];
    const listed = await runCli([...pinned, '--fingerprint', fingerprint]);
    assert.equal(listed.status, 0, listed.stderr);
  });

  test('a stop ends silent connections and leaves the socket where it was', async () => {
    const { ino } = lstatSync(socket);
    const silent = await silentConnections([{ host: box.address, port: 8_443 }, { path: socket }]);
    assert.equal(await hub.stop(), 0, hub.logLines.join('\n'));
    for (const one of silent) await until('the end of a silent connection', () => one.destroyed);
    assert.equal(lstatSync(socket).ino, ino);
  });
});

/** Connections on which nothing is ever said. */
async function silentConnections(
  places: readonly ({ host: string; port: number } | { path: string })[],
): Promise<readonly Socket[]> {
  return Promise.all(
    places.map(async (place) => {
      const open = connect(place);
      open.on('error', () => open.destroy());
      open.resume();
      await once(open, 'connect');
      return open;
    }),
  );
}

/** Long enough for a refusal, which is immediate. */
function soon(): Promise<string> {
  const { promise, resolve: over } = Promise.withResolvers<string>();
  setTimeout(() => over('waits'), 300);
  return promise;
}
