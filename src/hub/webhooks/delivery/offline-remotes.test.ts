/** Remote endpoints with real sockets: which are probed, and what counts as an established connection. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../../shared/base/clock.ts';
import { EgressGuard } from '../egress/guard.ts';
import { Resolver } from '../egress/resolver.ts';
import type { Subscription } from '../subscriptions/subscription.ts';
import { type Probed, RemoteHosts } from './offline.ts';

interface Site {
  readonly urls?: readonly string[];
  readonly others?: readonly string[];
  readonly allow?: readonly string[];
  /** What the names lead to; 'none ever': a lookup has no end. */
  readonly names?: Readonly<Record<string, string>> | 'none ever';
}

function remotes({ urls = [], others = [], allow = [], names = {} }: Site): RemoteHosts {
  const subscription = urls.map((url, id) => ({ id, url, active: !url.includes('paused') }) as Subscription);
  const cache = {
    all: () => subscription,
    blocked: ({ url }: Subscription) => (url.includes('blocked') ? 'no token' : ''),
  };
  const resolver = new Resolver(systemClock, async (hostname) => {
    if (names === 'none ever') return new Promise<never>(() => {});
    const address = names[hostname];
    if (address === undefined) throw Object.assign(new Error('no'), { code: 'ENOTFOUND' });
    return [{ address, family: 4 }];
  });
  const egress = new EgressGuard({ allowCidrs: allow, allowPorts: [], clock: systemClock, resolver });
  return new RemoteHosts({ cache, egress, resolver, otherRemotes: others });
}

async function probed(site: Site): Promise<Probed | undefined> {
  const hosts = remotes(site);
  const [remote] = hosts.all();
  assert.ok(remote);
  return hosts.probe(remote, new AbortController().signal);
}

async function portOf(t: TestContext): Promise<number> {
  const listening = createServer().listen(0);
  t.after(() => listening.close());
  await once(listening, 'listening');
  return (listening.address() as AddressInfo).port;
}

test('each host and port once; those of this machine, and subscribers that are paused or blocked, are left out', () => {
  const hosts = remotes({
    urls: [
      'https://MES.example/a',
      'https://mes.example:443/b',
      'https://mes.example:8443/',
      'https://paused.example/',
      'https://blocked.example/',
      'https://localhost/',
      'https://127.0.0.1:8443/',
    ],
    others: ['broker:9092', '[2001:db8::1]:443', 'localhost:9092'],
  });
  assert.deepEqual(
    hosts.all().map(({ hostname, port, guarded }) => [hostname, port, guarded]),
    [
      ['mes.example', 443, true],
      ['mes.example', 8443, true],
      ['broker', 9092, false],
      ['[2001:db8::1]', 443, false],
    ],
  );
});

test('a name that does not resolve takes no connection', async () => {
  assert.deepEqual(await probed({ urls: ['https://mes.example/'] }), { host: 'mes.example', answers: false });
  assert.deepEqual(await probed({ others: ['broker.example:9092'] }), { host: 'broker.example', answers: false });
});

test('a subscriber that may not be called is none that could answer', async () => {
  assert.equal(await probed({ urls: ['https://10.1.2.3/'] }), undefined);
});

test('a name that leads to this machine is no remote host', async (t) => {
  const port = await portOf(t);
  const names = { 'mes.example': '127.0.0.1' };
  assert.equal(await probed({ urls: [`https://mes.example:${port}/`], names, allow: ['127.0.0.0/8'] }), undefined);
  assert.equal(await probed({ others: [`mes.example:${port}`], names }), undefined);
  const own = Object.values(networkInterfaces()).flatMap((list = []) => list.filter(({ family }) => family === 'IPv4'));
  for (const { address } of own) {
    assert.equal(await probed({ others: [`box.example:${port}`], names: { 'box.example': address } }), undefined);
  }
});

test('a probe ends with its signal', async () => {
  const hosts = remotes({ others: ['broker.example:9092'], names: 'none ever' });
  const over = new AbortController();
  const probing = hosts.probe({ hostname: 'broker.example', port: 9092, guarded: false }, over.signal);
  over.abort();
  assert.deepEqual(await probing, { host: 'broker.example', answers: false });
});
