import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { ReadStream } from 'node:tty';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { duplicate } from '../../../shared/base/libc.ts';
import { openPty } from '../simulated/pty.ts';
import { CLOSE_LIMIT_MS } from './device.ts';
import { guardPort } from './port-guard.ts';
import { eightNone, ptyPort } from './pty-rig.fixture.ts';
import { TtyDevice } from './tty.ts';

test('close ends within its limit although the last close of the port hangs', async (t) => {
  const pty = openPty();
  t.after(() => pty.close());
  const clock = new FakeClock();
  const port = ptyPort(pty);
  const guard = await guardPort(port);
  // Of the master, which libuv does not reopen: no descriptor is left over.
  const stream = new ReadStream(duplicate(pty.masterFd));
  const hanging = Promise.withResolvers<void>();
  const reached = Promise.withResolvers<void>();
  const bound = {
    close: () => {
      reached.resolve();
      return hanging.promise;
    },
  };
  const effective = { ...eightNone, unverified: true, driver: '' };
  const device = new TtyDevice({ port, effective, guard, bound, stream, clock });
  const closing = device.close();
  let ended = false;
  void closing.then(() => void (ended = true));
  await reached.promise;
  clock.advance(CLOSE_LIMIT_MS - 1);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(ended, false);
  clock.advance(1);
  await closing;
  if (!stream.closed) await once(stream, 'close');
  hanging.resolve();
});
