/** Remote hosts with real sockets: which are probed, and what counts as an answer. Which tables of the kernel hold a route. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../../shared/base/clock.ts';
import { EgressGuard } from '../egress/guard.ts';
import { Resolver } from '../egress/resolver.ts';
import type { Subscription } from '../subscriptions/subscription.ts';
import { hasRoute, type Probed, RemoteHosts } from './offline.ts';

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

const head4 = 'Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n';

const ipv4: readonly (readonly [what: string, row: string, is: boolean])[] = [
  ['a default route', 'eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0', true],
  ['a network at the wire', 'eth0\t0001A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0', true],
  ['a modem', 'wwan0\t00000000\t00000000\t0001\t0\t0\t700\t00000000\t0\t0\t0', true],
  ['a tunnel', 'wg0\t0000640A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0', true],
  ['loopback', 'lo\t0000007F\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0', false],
  ['loopback by another interface', 'dummy0\t0000007F\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0', false],
  ['link-local', 'eth0\t0000FEA9\t00000000\t0001\t0\t0\t1000\t0000FFFF\t0\t0\t0', false],
  ['multicast', 'eth0\t000000E0\t00000000\t0001\t0\t0\t0\t000000F0\t0\t0\t0', false],
  ['one that refuses', '*\t00000000\t00000000\t0201\t0\t0\t0\t00000000\t0\t0\t0', false],
  ['one that is down', 'eth0\t00000000\t0101A8C0\t0002\t0\t0\t100\t00000000\t0\t0\t0', false],
  ['169.253.0.0, which is no link-local', 'eth0\t0000FDA9\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0', true],
  ['240.0.0.0, which is no multicast', 'eth0\t000000F0\t00000000\t0001\t0\t0\t0\t000000F0\t0\t0\t0', true],
  ['half a row', 'eth0\t0000', false],
];
for (const [what, row, is] of ipv4) {
  test(`IPv4, ${what}: ${is ? 'a way out' : 'none'}`, () => {
    assert.equal(routeBy({ '/proc/net/route': `${head4}${row}                   \n` }), is);
  });
}

const zeros = '0'.repeat(32);

function row6(destination: string, prefix: string, flags: string, name: string): string {
  const to = destination.padEnd(32, '0');
  return `${to} ${prefix} ${zeros} 00 ${zeros} 00000100 00000001 00000000 ${flags} ${name.padStart(8)}\n`;
}

const ipv6: readonly (readonly [what: string, row: string, is: boolean])[] = [
  ['a default route', row6('', '00', '00450003', 'eth0'), true],
  ['a network at the wire', row6('fd00', '40', '00000001', 'eth0'), true],
  ['a public network', row6('20010db8', '40', '00000001', 'eth0'), true],
  ['link-local', row6('fe80', '40', '00000001', 'eth0'), false],
  ['the end of link-local', row6('febf', '40', '00000001', 'eth0'), false],
  ['multicast', row6('ff00', '08', '00000001', 'eth0'), false],
  ['loopback', row6(`${'0'.repeat(31)}1`, '80', '80200001', 'lo'), false],
  ['an address of its own', row6('fd000000000000000000000000000002', '80', '80200001', 'eth0'), false],
  ['an anycast address of its own', row6('fd00', '80', '80300001', 'eth0'), false],
  ['the refusal that every table ends with', row6('', '00', '00200200', 'lo'), false],
  ['a default route that refuses', row6('', '00', '00200201', 'eth0'), false],
  ['one that is down', row6('', '00', '00000002', 'eth0'), false],
];
for (const [what, row, is] of ipv6) {
  test(`IPv6, ${what}: ${is ? 'a way out' : 'none'}`, () => assert.equal(routeBy({ '/proc/net/ipv6_route': row }), is));
}

function routeBy(tables: Readonly<Record<string, string>>): boolean {
  return hasRoute((path) => {
    const text = tables[path];
    if (text === undefined) throw Object.assign(new Error('no such file'), { code: 'ENOENT' });
    return text;
  });
}

test('a route of either kind is a way out, and an empty pair of tables is none', () => {
  const none4 = head4;
  const one4 = `${head4}${ipv4[0]?.[1]}\n`;
  const none6 = row6('', '00', '00200200', 'lo');
  assert.equal(routeBy({ '/proc/net/route': none4, '/proc/net/ipv6_route': none6 }), false);
  assert.equal(routeBy({ '/proc/net/route': one4, '/proc/net/ipv6_route': none6 }), true);
  assert.equal(routeBy({ '/proc/net/route': none4, '/proc/net/ipv6_route': row6('fd00', '40', '1', 'eth0') }), true);
});

test('if the tables cannot be read nothing is known, and no delivery is deferred for it', () => {
  assert.equal(routeBy({}), true);
});

test('by default it reads the tables of the kernel', () => {
  const paths = ['/proc/net/route', '/proc/net/ipv6_route'].filter((path) => existsSync(path));
  assert.equal(hasRoute(), routeBy(Object.fromEntries(paths.map((path) => [path, readFileSync(path, 'utf8')]))));
});
