import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { hasIpv4Route, hasIpv6Route, hasRoute } from './offline.ts';

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
    assert.equal(hasIpv4Route(`${head4}${row}                   \n`), is);
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
  test(`IPv6, ${what}: ${is ? 'a way out' : 'none'}`, () => assert.equal(hasIpv6Route(row), is));
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

test('a kernel without IPv6 is judged by IPv4 alone', () => {
  assert.equal(routeBy({ '/proc/net/route': head4 }), false);
  assert.equal(routeBy({ '/proc/net/route': `${head4}${ipv4[0]?.[1]}\n` }), true);
});

test('where the tables cannot be read nothing is known, and nothing is held back for it', () => {
  assert.equal(routeBy({}), true);
});

test('by itself it reads the tables of the kernel', () => {
  const [ipv4Text, ipv6Text] = ['/proc/net/route', '/proc/net/ipv6_route'].map((path) =>
    existsSync(path) ? readFileSync(path, 'utf8') : '',
  );
  assert.equal(hasRoute(), hasIpv4Route(ipv4Text ?? '') || hasIpv6Route(ipv6Text ?? ''));
});
