/** Clients that send thousands of requests without waiting for an answer: they cost little memory, and others are served. */
import assert from 'node:assert/strict';
import { type ClientHttp2Stream, connect as connectHttp2 } from 'node:http2';
import { after, describe, test } from 'node:test';
import { routesOf } from '../../src/hub/http/server.fixture.ts';
import type { JsonObject } from '../../src/hub/outbox/event.ts';
import { Authority } from '../../src/shared/base/certificates.fixture.ts';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import { LineServiceDefinition, SerialServiceDefinition } from '../../src/shared/proto/services.ts';
import { type Daemon, startDaemon, temporaryDirectory, writeConfig } from './daemon.ts';
import { dataPaths, Flood, grpcCalls, httpRequests, peakBytes, resetPeak, residentBytes } from './flood.ts';
import { type Hub, startHub } from './hub.ts';
import { addToken } from './run-cli.ts';

const MIB = 1024 * 1024;
const CONNECTIONS = 4;
const REQUESTS = 12_000;
/** What all floods of a test together may add to the process. */
const MAX_GROWTH_BYTES = 60 * MIB;
/** How long another caller may wait beside a flood. */
const MAX_WAIT_MS = 2_000;

const files = temporaryDirectory();
const server = new Authority(files, 'site-ca').issue('server', '/CN=box');
const tls = { cert_file: server.certFile, key_file: server.keyFile };

async function prepared(...roles: readonly string[]): Promise<{ dir: string; token: string }> {
  const dir = temporaryDirectory();
  return { dir, token: await addToken(writeConfig(dir), 'flooder', ...roles) };
}

/** The last of the addresses of a "ready" line: the one for other machines. */
function lanAddress(ready: string): string {
  return /\b0\.0\.0\.0:\d+/.exec(ready)?.[0] ?? '';
}

/** Floods, asks beside them, and waits until the service has done with every connection of the flood. */
async function flood(what: string, start: () => Flood, ask: () => Promise<unknown>): Promise<void> {
  const floods = Array.from({ length: CONNECTIONS }, start);
  try {
    const beganMs = performance.now();
    await ask();
    const waitedMs = performance.now() - beganMs;
    assert.ok(waitedMs < MAX_WAIT_MS, `${what}: another caller waited ${waitedMs.toFixed(0)} ms`);
    await within(`${what}: all is answered or closed`, Promise.all(floods.map(({ over }) => over)));
  } finally {
    for (const one of floods) one.end();
  }
}

function checkGrowth(what: string, pid: number, beforeBytes: number): void {
  const grownBytes = peakBytes(pid) - beforeBytes;
  assert.ok(grownBytes <= MAX_GROWTH_BYTES, `${what}: the process grew by ${(grownBytes / MIB).toFixed(1)} MiB`);
}

describe('HTTP requests that are pipelined', () => {
  let hub: Hub;
  let token = '';
  const places: { readonly name: string; readonly tls: boolean }[] = [
    { name: 'plain', tls: false },
    { name: 'TLS', tls: true },
  ];
  after(() => hub?.stop());

  test('the hub starts, with records to show', async () => {
    const made = await prepared('admin', 'writer', 'viewer', 'operator', 'refdata-restricted');
    token = made.token;
    const listen = ['127.0.0.1:0', 'unix:http.sock', '0.0.0.0:0'];
    hub = await startHub({ dir: made.dir, config: { http: { listen }, tls } });
    assert.equal(
      (await hub.http('POST', '/api/v1/dictionaries', { name: 'd', title: 'T', scope: 'PUBLIC' })).status,
      201,
    );
    const items = Array.from({ length: 500 }, (_, i) => ({
      dictionary: 'd',
      businessKey: i === 0 ? 'k' : `saw-${i}`,
      data: { text: 'x'.repeat(1_000) },
    }));
    assert.equal((await hub.http('POST', '/api/v1/imports', { items })).status, 200);
  });

  for (const { name, tls: isTls } of places) {
    test(`over ${name}: each route, with and without a token`, async () => {
      const pid = hub.pid();
      const place = isTls ? dataPaths(lanAddress(await hub.waitFor(/ info hub ready /)), true) : dataPaths(hub.address);
      // Each route once: what it loads, it keeps.
      const routes = routesOf((await hub.http('GET', '/openapi.json')).body as JsonObject);
      assert.ok(routes.length > 50, 'the document has the routes');
      for (const { method, path } of routes) await hub.http(method, path, '{}', { token });
      const beforeBytes = residentBytes(pid);
      resetPeak(pid);
      for (const { method, path, access } of routes) {
        for (const used of access === 'open' ? [undefined] : [undefined, token]) {
          const requests = httpRequests(REQUESTS, method, path, used);
          const what = `${method} ${path} ${used === undefined ? 'without' : 'with'} a token`;
          await flood(
            what,
            () => new Flood(place, requests),
            async () => {
              assert.equal((await hub.http('GET', '/healthz')).status, 200);
            },
          );
          checkGrowth(what, pid, beforeBytes);
        }
      }
    });
  }
});

describe('gRPC calls without regard to the limits', () => {
  const methods = [...Object.values(SerialServiceDefinition), ...Object.values(LineServiceDefinition)];
  const standard = ['/grpc.health.v1.Health/Check', '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo'];
  const paths = [...methods.map(({ path }) => path), ...standard];
  let line: Daemon;
  let token = '';
  after(() => line?.stop());

  test('the line starts', async () => {
    const made = await prepared('viewer', 'operator');
    token = made.token;
    const listen = ['127.0.0.1:0', 'unix:grpc.sock', '0.0.0.0:0'];
    line = await startDaemon({ dir: made.dir, config: { grpc: { listen }, tls } });
  });

  for (const name of ['plain', 'TLS without a token', 'TLS with a token']) {
    test(`${name}: each method`, async () => {
      const isTls = name !== 'plain';
      const place = isTls ? dataPaths(lanAddress(await line.waitFor(/ info ready /)), true) : dataPaths(line.address);
      const used = name === 'TLS with a token' ? token : undefined;
      await line.client.line.getStatus({});
      const beforeBytes = residentBytes(line.pid);
      resetPeak(line.pid);
      for (const path of paths) {
        const calls = grpcCalls(REQUESTS, path, used);
        await flood(
          `${name} ${path}`,
          () => new Flood(place, calls),
          () => line.client.line.getStatus({}),
        );
        checkGrowth(`${name} ${path}`, line.pid, beforeBytes);
      }
    });
  }

  test('messages of 1 MiB that are never whole', async () => {
    const entry = { dir: 1, rawData: Buffer.alloc(MIB) };
    const message = SerialServiceDefinition.logRaw.requestSerialize(entry);
    const head = Buffer.alloc(5);
    head.writeUInt32BE(message.length, 1);
    const unfinished = Buffer.concat([head, message.subarray(0, -1)]);
    await line.client.line.getStatus({});
    const beforeBytes = residentBytes(line.pid);
    resetPeak(line.pid);
    // The client queues what the server does not take, 128 messages each.
    const sessions = Array.from({ length: CONNECTIONS }, () =>
      connectHttp2(`http://${line.address}`, { maxSessionMemory: 256 }),
    );
    const begin = (session: (typeof sessions)[number]): ClientHttp2Stream => {
      const headers = { ':method': 'POST', 'content-type': 'application/grpc', te: 'trailers' };
      const call = session.request({ ...headers, ':path': SerialServiceDefinition.logRaw.path });
      call.on('error', () => undefined);
      call.write(unfinished);
      return call;
    };
    try {
      const calls = sessions.map((session) => {
        session.on('error', () => undefined);
        return Array.from({ length: 128 }, () => begin(session));
      });
      // Until the server takes no more of them.
      const isQuiet = (before: number, now: number): boolean => before === now && now > 0;
      let sent = 0;
      let quiet = 0;
      await until('the server to stop reading', async () => {
        const asked = performance.now();
        await line.client.line.getStatus({});
        assert.ok(performance.now() - asked < MAX_WAIT_MS, 'another caller waits');
        const now = sessions.reduce((sum, session) => sum + (session.socket?.bytesWritten ?? 0), 0);
        quiet = isQuiet(sent, now) ? quiet + 1 : 0;
        sent = now;
        return quiet === 50;
      });
      checkGrowth('unfinished messages', line.pid, beforeBytes);
      // Others are still taken: a place comes free when a message is whole, or its call is over.
      for (const call of calls.flat()) call.close();
      await within('a large entry is stored', line.client.serial.logRaw(entry as never));
    } finally {
      for (const session of sessions) session.destroy();
    }
  });
});
