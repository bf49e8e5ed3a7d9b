/** Sockets of this very process stand in for inherited ones where their numbers fit; test/e2e/activation.test.ts has real ones. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { LinesideError } from '../base/errors.ts';
import { addressOf, inheritedSockets, listenersFor, promisedIn, socketUnits } from './systemd-sockets.ts';

const address = { kind: 'unix', path: '/run/lineside/grpc.sock', fd: 3 } as const;

function invalid(pattern: RegExp): (error: unknown) => boolean {
  return (error) => error instanceof LinesideError && error.code === 'CONFIG_INVALID' && pattern.test(error.message);
}

test('sockets for another process are left alone, and no child gets their variables', async () => {
  const env = { LISTEN_PID: '1', LISTEN_FDS: '2', LISTEN_FDNAMES: 'grpc:grpc', LISTEN_PIDFDID: '9', HOME: '/root' };
  assert.deepEqual(await inheritedSockets(env), []);
  assert.deepEqual(env, { HOME: '/root' });
});

test('a number that is none, or absurd, is refused before any descriptor is used', async () => {
  for (const count of ['x', '-1', '1e1', '65', ''])
    await assert.rejects(
      inheritedSockets({ LISTEN_PID: '7', LISTEN_FDS: count }, 7),
      invalid(/not a number of sockets/),
    );
});

test('a descriptor that is no socket is named', async () => {
  const beyond = { LISTEN_PID: '7', LISTEN_FDS: '60', LISTEN_FDNAMES: 'grpc' };
  await assert.rejects(inheritedSockets(beyond, 7), invalid(/descriptor \d+ \("(grpc)?"\).* cannot be used: /));
});

test('the sockets of a name replace the addresses of that section', () => {
  const other = { ...address, fd: 4, path: '/run/other.sock' };
  const sockets = [
    { name: 'grpc', fd: 3, address },
    { name: 'grpc', fd: 4, address: other },
  ];
  assert.deepEqual(listenersFor(sockets, ['grpc', 'http']), { grpc: [address, other] });
  assert.deepEqual(listenersFor([], ['grpc']), {});
});

test('a name that has no use in this process is refused', () => {
  const sockets = [{ name: 'http', fd: 3, address }];
  assert.throws(() => listenersFor(sockets, ['grpc']), invalid(/descriptor 3 is named "http", not grpc/));
});

const bytes = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex.replaceAll(' ', ''), 'hex'));
const v6 = (address: string): string => `0a00 c383 00000000 ${address} 00000000`;
const unixPath = (text: string): string => `0100${Buffer.from(text).toString('hex')}`;

const good: readonly (readonly [string, string, object])[] = [
  ['a Unix path ends at its zero', unixPath('/run/a.sock\0junk'), { kind: 'unix', path: '/run/a.sock' }],
  ['a Unix path may fill its room', unixPath('/run/a.sock'), { kind: 'unix', path: '/run/a.sock' }],
  ['an abstract name', unixPath('\0lineside'), { kind: 'unix', path: '@lineside' }],
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

const shown = `Listen=/run/lineside/http.sock (Stream)
Id=lineside-hub.socket
LoadState=loaded
ActiveState=inactive

Listen=[::]:8443 (Stream)
Listen=10.0.0.7:8444 (Stream)
Id=lineside-hub-lan.socket
LoadState=loaded
ActiveState=active

Id=lineside-local.socket
LoadState=masked
ActiveState=inactive

Id=lineside-lan.socket
LoadState=not-found
ActiveState=inactive
`;
const hub = { unit: 'lineside-hub.socket', isOpen: false, addresses: ['/run/lineside/http.sock'] };
const lan = { unit: 'lineside-hub-lan.socket', isOpen: true, addresses: ['[::]:8443', '10.0.0.7:8444'] };

test('the socket units that systemd shows, without those that promise nothing', () => {
  assert.deepEqual(promisedIn(shown, true), [hub, lan]);
  assert.deepEqual(promisedIn(shown, false), [hub], 'no certificate, no listener of the LAN');
  assert.deepEqual(promisedIn('', true), []);
});

test('every socket unit of the service is asked for', () => {
  const units = readdirSync(resolve(import.meta.dirname, '../../../systemd')).filter(
    // The administration helper is no part of the service.
    (name) => name.endsWith('.socket') && name !== 'lineside-admin.socket',
  );
  assert.deepEqual([...socketUnits].sort(), units.sort());
});
