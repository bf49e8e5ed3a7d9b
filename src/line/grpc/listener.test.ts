/** Who may connect, how many, and for how long without a call that may be made. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import koffi from 'koffi';
import { createServer as createGrpcServer } from 'nice-grpc';
import { startTestServer } from '../../../test/grpc/fakes.ts';
import { offersIntermediateSuitesOnly } from '../../shared/auth/tls-suites.fixture.ts';
import { addToken } from '../../shared/auth/token-file.ts';
import { Authority } from '../../shared/base/certificates.fixture.ts';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { silentLogger } from '../../shared/base/logger.ts';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';
import { until } from '../../shared/base/wait.fixture.ts';
import { MAX_CONNECTIONS, MAX_NEWCOMER_MS } from './limits.ts';
import { listen } from './server.ts';

/** A descriptor of a listening socket on which no process accepts, and its port. */
async function handedOver(): Promise<{ fd: number; port: number }> {
  const opener = createServer();
  opener.listen({ port: 0, host: '127.0.0.1', backlog: 2 * MAX_CONNECTIONS });
  await once(opener, 'listening');
  const { port } = opener.address() as AddressInfo;
  const duplicate: (fd: number) => number = koffi.load(null).func('dup', 'int', ['int']);
  const fd = duplicate(Number(Reflect.get(Reflect.get(opener, '_handle') as object, 'fd')));
  opener.close();
  return { fd, port };
}

/** Clients that are gone at the end of the test. */
function visitors(t: TestContext) {
  const clients: Socket[] = [];
  t.after(() => {
    for (const client of clients) client.destroy();
  });
  return async (port: number, localAddress = '127.0.0.1'): Promise<Socket> => {
    const client = connect({ port, host: '127.0.0.1', localAddress });
    clients.push(client);
    client.on('error', () => undefined);
    await once(client, 'connect');
    return client;
  };
}

/** HTTP/2 sends its settings to each client that it serves. */
async function isServed(client: Socket): Promise<boolean> {
  const said = once(client, 'data').then(() => true);
  return await Promise.race([said, once(client, 'close').then(() => false)]);
}

test('strangers have a bounded number of connections, and one that ends makes room', async (t) => {
  const { fd, port } = await handedOver();
  const dropped: string[] = [];
  const server = createGrpcServer();
  const address = { kind: 'tcp', host: '127.0.0.1', port, loopback: true, fd } as const;
  const listener = await listen(address, {
    server,
    identity: undefined,
    newcomers: undefined,
    dropped: (peer) => dropped.push(peer),
  });
  const come = visitors(t);
  try {
    const first = await come(port);
    assert.equal(await isServed(first), true);
    for (let i = 1; i < MAX_CONNECTIONS; i++) assert.equal(await isServed(await come(port)), true, `the ${i}th`);
    assert.equal(await isServed(await come(port)), false);
    assert.deepEqual(dropped, ['127.0.0.1']);
    first.destroy();
    let served = false;
    for (let tries = 0; tries < 50 && !served; tries++) served = await isServed(await come(port));
    assert.equal(served, true);
  } finally {
    listener.close();
    await listener.cut();
  }
});

test('one address of the LAN has a quarter of the connections, and other addresses are served', async (t) => {
  await using s = await startTestServer({ grpc: { listen: ['0.0.0.0:0'], insecure: true } });
  const port = Number(s.address.split(':')[1]);
  const come = visitors(t);
  for (let i = 0; i < MAX_CONNECTIONS / 4; i++) assert.equal(await isServed(await come(port)), true, `the ${i}th`);
  assert.equal(await isServed(await come(port)), false);
  assert.equal(await isServed(await come(port, '127.0.0.2')), true);
});

test('a connection from another machine needs a call with credentials in time; on loopback it does not', async (t) => {
  const dir = temporaryDirectory(t);
  const ca = new Authority(dir, 'ca');
  const pair = ca.issue('box', '/CN=box');
  const tokens = join(dir, 'tokens.json');
  const token = addToken(tokens, 'viewer', ['viewer'], new Date());
  const clock = new FakeClock();
  await using s = await startTestServer(
    {
      grpc: { listen: ['0.0.0.0:0', '127.0.0.1:0'] },
      tls: { cert_file: pair.certFile, key_file: pair.keyFile },
      auth: { tokens_file: tokens },
    },
    silentLogger,
    clock,
  );
  const [lan = 0, loopback = 0] = s.servers.addresses.map((address) => Number(address.split(':')[1]));
  const come = visitors(t);
  // One says nothing at all, one has its handshake done, one is refused, one may call.
  const silent = await come(lan);
  const shaken = connectTls({ host: '127.0.0.1', port: lan, rejectUnauthorized: false, ALPNProtocols: ['h2'] });
  shaken.on('error', () => undefined);
  await once(shaken, 'secureConnect');
  const secure = credentials.createSsl(ca.root.cert);
  const [refused, admitted] = [0, 1].map(
    () => new Client(`127.0.0.1:${lan}`, secure, { 'grpc.use_local_subchannel_pool': 1 }),
  );
  assert.ok(refused && admitted);
  t.after(() => {
    for (const client of [refused, admitted]) client.close();
    shaken.destroy();
  });
  const same = (bytes: Buffer): Buffer => bytes;
  const call = (client: Client, metadata: Metadata): Promise<number> =>
    new Promise((resolve) => {
      const path = '/serial.SerialService/ListDevices';
      client.makeUnaryRequest(path, same, same, Buffer.alloc(0), metadata, (error: ServiceError | null) =>
        resolve(error?.code ?? status.OK),
      );
    });
  /** StreamLog: until its connection is closed. */
  const standing = (client: Client, metadata: Metadata): { ended: boolean } => {
    const path = '/serial.SerialService/StreamLog';
    const stream = client.makeServerStreamRequest(path, same, same, Buffer.alloc(0), metadata);
    const seen = { ended: false };
    stream.on('error', () => {
      seen.ended = true;
    });
    stream.resume();
    return seen;
  };
  const withToken = new Metadata();
  withToken.set('authorization', `Bearer ${token}`);
  assert.equal(await call(refused, new Metadata()), status.UNAUTHENTICATED);
  assert.equal(await call(admitted, withToken), status.OK);
  const stream = standing(admitted, withToken);
  await until('the stream stands', () => s.log.readers === 1);
  const own = await come(loopback);
  assert.equal(await isServed(own), true);
  const ends = [silent, shaken].map((socket) => once(socket, 'close'));
  for (const socket of [silent, shaken]) socket.resume();
  const ofRefused = refused.getChannel();
  clock.advance(MAX_NEWCOMER_MS);
  await Promise.all(ends);
  await until('the refused one is closed', () => ofRefused.getConnectivityState(false) !== 2);
  assert.equal(stream.ended, false);
  assert.equal(await call(admitted, withToken), status.OK);
  assert.equal(own.destroyed, false);
});

test('TLS has the suites of the intermediate profile only', async (t) => {
  const dir = temporaryDirectory(t);
  const pair = new Authority(dir, 'ca').issue('box', '/CN=box');
  await using s = await startTestServer({
    grpc: { listen: ['0.0.0.0:0'] },
    tls: { cert_file: pair.certFile, key_file: pair.keyFile },
  });
  await offersIntermediateSuitesOnly(Number(s.address.split(':')[1]), 'h2');
});
