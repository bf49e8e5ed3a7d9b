/** Sockets that were opened by somebody else: what whoever connects may cost. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { ServerCredentials } from '@grpc/grpc-js';
import koffi from 'koffi';
import { createServer as createGrpcServer } from 'nice-grpc';
import { listenOn } from './inherited-listener.ts';
import { MAX_CONNECTIONS } from './limits.ts';

/** A descriptor of a listening socket that nobody accepts on, and its port. */
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

test('strangers have a bounded number of connections, and one that ends makes room', async () => {
  const { fd, port } = await handedOver();
  const dropped: string[] = [];
  const server = createGrpcServer();
  const listener = await listenOn(fd, server, ServerCredentials.createInsecure(), (peer) => dropped.push(peer));
  const clients: Socket[] = [];
  const come = async (): Promise<Socket> => {
    const client = connect(port, '127.0.0.1');
    clients.push(client);
    client.on('error', () => undefined);
    await once(client, 'connect');
    return client;
  };
  /** HTTP/2 says its settings to whoever comes. */
  const isServed = async (client: Socket): Promise<boolean> => {
    const said = once(client, 'data').then(() => true);
    return await Promise.race([said, once(client, 'close').then(() => false)]);
  };
  try {
    for (let i = 0; i < MAX_CONNECTIONS; i++) assert.equal(await isServed(await come()), true, `the ${i}th`);
    assert.equal(await isServed(await come()), false);
    assert.deepEqual(dropped, ['127.0.0.1']);
    const [first] = clients;
    first?.destroy();
    let served = false;
    for (let tries = 0; tries < 50 && !served; tries++) served = await isServed(await come());
    assert.equal(served, true);
  } finally {
    for (const client of clients) client.destroy();
    listener.close();
    listener.cut();
    server.forceShutdown();
  }
});
