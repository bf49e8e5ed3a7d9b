/** Sockets of this very process stand in for inherited ones where their numbers fit; test/e2e/activation.test.ts has real ones. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LinesideError } from '../base/errors.ts';
import { inheritedSockets, listenersFor } from './inherited.ts';

const address = { kind: 'unix', path: '/run/lineside/grpc.sock', fd: 3 } as const;

function invalid(pattern: RegExp): (error: unknown) => boolean {
  return (error) => error instanceof LinesideError && error.code === 'CONFIG_INVALID' && pattern.test(error.message);
}

test('sockets for another process are left alone, and no child is told of them', async () => {
  const env = { LISTEN_PID: '1', LISTEN_FDS: '2', LISTEN_FDNAMES: 'grpc:grpc', LISTEN_PIDFDID: '9', HOME: '/root' };
  assert.deepEqual(await inheritedSockets(env), []);
  assert.deepEqual(env, { HOME: '/root' });
});

test('a number that is none, or absurd, is refused before any descriptor is looked at', async () => {
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
