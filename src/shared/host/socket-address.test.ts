import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressOf } from './socket-address.ts';

const bytes = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex.replaceAll(' ', ''), 'hex'));
const v6 = (address: string): string => `0a00 c383 00000000 ${address} 00000000`;
const path = (text: string): string => `0100${Buffer.from(text).toString('hex')}`;

const good: readonly (readonly [string, string, object])[] = [
  ['a Unix path ends at its zero', path('/run/a.sock\0junk'), { kind: 'unix', path: '/run/a.sock' }],
  ['a Unix path may fill its room', path('/run/a.sock'), { kind: 'unix', path: '/run/a.sock' }],
  ['an abstract name', path('\0lineside'), { kind: 'unix', path: '@lineside' }],
  [
    'IPv4 loopback',
    '0200 c383 7f000001 0000000000000000',
    { kind: 'tcp', host: '127.0.0.1', port: 50_051, loopback: true },
  ],
  ['every IPv4 address', '0200 0050 00000000', { kind: 'tcp', host: '0.0.0.0', port: 80, loopback: false }],
  ['IPv6 loopback', v6('00000000000000000000000000000001'), { kind: 'tcp', host: '::1', port: 50_051, loopback: true }],
  [
    'both families at once are the LAN',
    v6('00000000000000000000000000000000'),
    { kind: 'tcp', host: '::', port: 50_051, loopback: false },
  ],
  [
    'an IPv6 address of the LAN',
    v6('fe800000000000000000000000000001'),
    { kind: 'tcp', host: 'fe80::1', port: 50_051, loopback: false },
  ],
];

for (const [what, hex, expected] of good) {
  test(`sockaddr: ${what}`, () => assert.deepEqual(addressOf(bytes(hex), 7), { ...expected, fd: 7 }));
}

const bad: readonly (readonly [string, string, RegExp])[] = [
  ['without a name', '0100', /without a name/],
  ['of another family', '1100 0000 0000', /address family 17/],
  ['of nothing at all', '', /address family 0/],
  ['cut short', '0200 c383 7f', /address family 2/],
];
for (const [what, hex, pattern] of bad) {
  test(`sockaddr: refuses one ${what}`, () => assert.throws(() => addressOf(bytes(hex), 3), pattern));
}
