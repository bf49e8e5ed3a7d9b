/** Clients that send thousands of requests without waiting for an answer: they cost little memory, and others are served. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { after, describe, test } from 'node:test';
import { routeAccess } from '../../src/api/http/access.ts';
import { Authority } from '../grpc/certificates.ts';
import { temporaryDirectory, writeConfig } from './daemon.ts';
import { Flood, httpRequests, peakBytes, placeOf, residentBytes } from './flood.ts';
import { type Hub, startHub } from './hub.ts';
import { runCli } from './run-cli.ts';
import { within } from './wait.ts';

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
  const config = writeConfig(dir);
  const flags = roles.flatMap((role) => ['--role', role]);
  const made = await runCli(['token', 'add', 'flooder', ...flags, '--config', config]);
  assert.equal(made.status, 0, made.stderr);
  return { dir, token: made.stdout.trim().split('\n').at(-1) ?? '' };
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
    // The options of the units.
    const env = { NODE_OPTIONS: /^NODE_OPTIONS=(.*)$/m.exec(readFileSync('systemd/lineside.env', 'utf8'))?.[1] ?? '' };
    hub = await startHub({ dir: made.dir, config: { http: { listen }, tls }, env });
    assert.equal(
      (await hub.http('POST', '/api/v1/dictionaries', { name: 'tools', title: 'T', scope: 'PUBLIC' })).status,
      201,
    );
    const items = Array.from({ length: 500 }, (_, i) => ({
      dictionary: 'tools',
      businessKey: `saw-${i}`,
      data: { text: 'x'.repeat(1_000) },
    }));
    assert.equal((await hub.http('POST', '/api/v1/imports', { items })).status, 200);
  });

  for (const { name, tls: isTls } of places) {
    test(`over ${name}: each route, with and without a token`, async () => {
      const pid = hub.pid();
      const place = isTls ? placeOf(lanAddress(await hub.waitFor(/ info hub ready /)), true) : placeOf(hub.address);
      // Each route once: what it loads, it keeps.
      for (const route of Object.keys(routeAccess)) await hub.http(...requestFor(route), '{}', { token });
      const beforeBytes = residentBytes(pid);
      // Resets the peak (proc_pid_clear_refs(5)).
      writeFileSync(`/proc/${pid}/clear_refs`, '5');
      for (const [route, access] of Object.entries(routeAccess)) {
        for (const used of access === 'open' ? [undefined] : [undefined, token]) {
          const requests = httpRequests(REQUESTS, ...requestFor(route), used);
          const what = `${route} ${used === undefined ? 'without' : 'with'} a token`;
          await flood(
            what,
            () => new Flood(place, requests),
            async () => {
              assert.equal((await hub.http('GET', '/healthz')).status, 200);
            },
          );
          const grownBytes = peakBytes(pid) - beforeBytes;
          assert.ok(grownBytes <= MAX_GROWTH_BYTES, `${what}: the hub grew by ${(grownBytes / MIB).toFixed(1)} MiB`);
        }
      }
    });
  }
});

/** "GET /api/v1/dictionaries/:name" as a request. */
function requestFor(route: string): [method: string, path: string] {
  const [method = '', pattern = ''] = route.split(' ');
  const values: Readonly<Record<string, string>> = { name: 'tools', key: 'saw-1', id: '1', file: 'console.js' };
  return [method, pattern.replaceAll(/:([a-z]+)/g, (_, name: string) => values[name] ?? '')];
}
