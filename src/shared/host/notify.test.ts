import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { recordingLogger } from '../base/logger.fixture.ts';
import { silentLogger } from '../base/logger.ts';
import { temporaryDirectory } from '../base/temporary.fixture.ts';
import { createNotifier } from './notify.ts';
import { openNotifySocket } from './notify-socket.fixture.ts';

type Env = Record<string, string | undefined>;

for (const [what, nameIn] of [
  ['a path', (dir: string) => join(dir, 'notify')],
  ['an abstract name', (dir: string) => `@${dir}/notify`],
] as const) {
  test(`notifies systemd of everything through ${what}`, async (t) => {
    const socket = await openNotifySocket(t, nameIn(temporaryDirectory(t)));
    const notifier = await createNotifier({ NOTIFY_SOCKET: socket.name, WATCHDOG_USEC: '60000000' }, silentLogger);
    assert.equal(notifier?.watchdogIntervalMs, 60_000);
    notifier.notify({ READY: '1', STATUS: 'open /dev/ttyAMA0, größer' });
    notifier.notify({ STOPPING: '1', STATUS: 'stopping:\n  two lines' });
    await socket.waitFor(({ fields }) => fields['STOPPING'] === '1');
    assert.deepEqual(
      socket.messages.map((message) => message.text),
      ['READY=1\nSTATUS=open /dev/ttyAMA0, größer', 'STOPPING=1\nSTATUS=stopping:; two lines'],
    );
  });
}

test('leaves nothing of it to children, and feeds no watchdog of another process', async (t) => {
  const socket = await openNotifySocket(t, join(temporaryDirectory(t), 'notify'));
  const env: Env = { NOTIFY_SOCKET: socket.name, WATCHDOG_USEC: '60000000', WATCHDOG_PID: '1', LANG: 'C' };
  const notifier = await createNotifier(env, silentLogger);
  assert.equal(notifier?.watchdogIntervalMs, undefined);
  assert.deepEqual(env, { LANG: 'C' });
});

test('there is none without a socket, though a watchdog is named', async () => {
  assert.equal(await createNotifier({ WATCHDOG_USEC: '60000000' }, silentLogger), undefined);
});

for (const name of ['vsock:2:1234', `/${'x'.repeat(200)}`, 'relative']) {
  test(`refuses a socket that it cannot reach: ${name.slice(0, 20)}`, async () => {
    await assert.rejects(createNotifier({ NOTIFY_SOCKET: name }, silentLogger), {
      code: 'INTERNAL',
      message: /cannot use NOTIFY_SOCKET/,
    });
  });
}

test('keeps what lasts until systemd receives again, and warns once', async (t) => {
  const path = join(temporaryDirectory(t), 'notify');
  const { logger, lines: warnings } = recordingLogger();
  const env = { NOTIFY_SOCKET: path, WATCHDOG_USEC: '1000000' };
  const notifier = await createNotifier(env, logger);
  notifier?.notify({ READY: '1', STATUS: 'first' });
  notifier?.notify({ WATCHDOG: '1' });
  notifier?.notify({ STATUS: 'second' });
  assert.deepEqual(warnings, ['warn systemd could not be notified of the state of the service error="sendto: ENOENT"']);
  const socket = await openNotifySocket(t, path);
  notifier?.notify({ STATUS: 'third' });
  notifier?.notify({ STATUS: 'fourth' });
  await socket.waitFor(({ fields }) => fields['STATUS'] === 'fourth');
  assert.deepEqual(
    socket.messages.map(({ text }) => text),
    ['READY=1\nSTATUS=third', 'STATUS=fourth'],
  );
});

test('never waits for a receiver that does not read', async (t) => {
  const socket = await openNotifySocket(t, join(temporaryDirectory(t), 'notify'));
  const notifier = await createNotifier({ NOTIFY_SOCKET: socket.name }, silentLogger);
  const full = 'x'.repeat(60_000);
  const from = process.hrtime.bigint();
  // The receiver is another process: it cannot keep up with what comes in one turn.
  for (let i = 0; i < 2_000; i++) notifier?.notify({ STATUS: full });
  assert.ok(process.hrtime.bigint() - from < 10_000_000_000n);
  notifier?.notify({ READY: '1', STATUS: 'in the end' });
  notifier?.notify({ STATUS: 'last' });
  assert.ok((await socket.waitFor(({ fields }) => fields['STATUS'] === full)).text.length > 60_000);
});
