/** The notifications of the compiled daemon to systemd: readiness, STATUS, the watchdog while everything answers, its stop. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import Long from 'long';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import { type NotifySocket, openNotifySocket } from '../../src/shared/host/notify-socket.fixture.ts';
import { runDaemonToEnd, startDaemon, temporaryDirectory } from './daemon.ts';
import { openPort } from './faults.ts';
import { startBoth, startHub } from './hub.ts';
import { namedPty } from './pty.ts';
import { inject, straceWorks } from './strace.ts';

/** Fed each second. */
const INTERVAL_MS = 3_000;
const withoutStrace = straceWorks() ? false : 'strace cannot trace here';

interface Systemd {
  readonly socket: NotifySocket;
  readonly env: Readonly<Record<string, string>>;
}

async function systemd(t: TestContext): Promise<Systemd> {
  const socket = await openNotifySocket(t, join(temporaryDirectory(), 'notify'));
  return { socket, env: { NOTIFY_SOCKET: socket.name, WATCHDOG_USEC: String(INTERVAL_MS * 1_000) } };
}

/** The names of the notifications, in order, without repetitions. */
function notified(socket: NotifySocket): string[] {
  const names = socket.messages.flatMap(({ fields }) => Object.keys(fields).filter((name) => name !== 'STATUS'));
  return [...new Set(names)];
}

const fed = (socket: NotifySocket): number => socket.messages.filter(({ fields }) => fields['WATCHDOG'] === '1').length;

async function isFedOn(socket: NotifySocket): Promise<void> {
  const before = fed(socket);
  await until('food for the watchdog', () => fed(socket) >= before + 2);
}

/** Nothing comes for longer than systemd waits. */
async function starves(socket: NotifySocket): Promise<void> {
  let seen = -1;
  let sinceMs = 0;
  await until('an interval without food', () => {
    const now = performance.now();
    if (fed(socket) !== seen) {
      seen = fed(socket);
      sinceMs = now;
    }
    return now - sinceMs > INTERVAL_MS;
  });
}

const entry = (text: string) => ({ dir: 1, timestamp: Long.fromNumber(5), rawData: Buffer.from(text), note: '' });

test('the line: stages, READY with its status, food, what changes, STOPPING', async (t) => {
  const { socket, env } = await systemd(t);
  const ports = temporaryDirectory();
  const pty = namedPty(ports);
  const daemon = await startDaemon({ env, config: { serial: { extra_ports: [`${ports}/*`] } } });
  await isFedOn(socket);
  assert.deepEqual(notified(socket), ['EXTEND_TIMEOUT_USEC', 'READY', 'WATCHDOG']);
  const [first] = socket.messages;
  assert.equal(first?.fields['STATUS'], 'opening log.db');
  const ready = await socket.waitFor(({ fields }) => fields['READY'] === '1');
  assert.match(ready.fields['STATUS'] ?? '', /^no port open, log \d/);
  await openPort(daemon.client, pty.portName, { baudRate: 9_600 });
  await socket.waitFor(({ fields }) => /^open \/dev\/pts\/\d+ 9600 8N1, log \d/.test(fields['STATUS'] ?? ''));
  pty.close();
  await socket.waitFor(
    ({ fields }) => fields['STATUS']?.startsWith(`lost ${pty.portName}, waiting for it, log`) === true,
  );
  const environ = readFileSync(`/proc/${daemon.pid}/environ`, 'utf8');
  assert.match(environ, /NOTIFY_SOCKET/, 'it was there to begin with');
  assert.equal(await daemon.stop(), 0);
  assert.deepEqual(notified(socket), ['EXTEND_TIMEOUT_USEC', 'READY', 'WATCHDOG', 'STOPPING']);
  assert.equal(socket.messages.at(-1)?.fields['EXTEND_TIMEOUT_USEC'], '45000000', 'the stop has its time');
});

test('a log worker that hangs in the disk starves the watchdog; one that is slow does not', {
  skip: withoutStrace,
}, async (t) => {
  const { socket, env } = await systemd(t);
  const daemon = await startDaemon({ env });
  await isFedOn(socket);
  const slow = await inject(daemon.pid, 'fsync,fdatasync:delay_exit=500000');
  await daemon.client.serial.logRaw(entry('slow'));
  await isFedOn(socket);
  await slow.end();
  const hung = await inject(daemon.pid, 'fsync,fdatasync:delay_enter=60000000');
  const stored = daemon.client.serial.logRaw(entry('hangs')).catch(() => undefined);
  await daemon.waitFor(/error watchdog: not fed, one does not answer who="the log worker"/);
  await starves(socket);
  assert.doesNotMatch(daemon.logLines.join('\n'), /who=gRPC/, 'the other checks pass');
  await hung.end();
  await daemon.kill();
  await stored;
});

test('the hub: READY with its outbox, food, STOPPING', async (t) => {
  const { socket, env } = await systemd(t);
  const hub = await startHub({ env });
  await isFedOn(socket);
  const ready = await socket.waitFor(({ fields }) => fields['READY'] === '1');
  assert.equal(ready.fields['STATUS'], 'outbox 0 waiting, no broker configured');
  assert.ok(socket.messages.some(({ fields }) => fields['STATUS'] === 'checking refdata.db'));
  const from = socket.messages.length;
  process.kill(hub.pid(), 'SIGHUP');
  await socket.waitFor(({ fields }) => fields['READY'] === '1', from);
  const config = readFileSync(hub.configFile, 'utf8');
  writeFileSync(hub.configFile, `${config}\n[outbox]\nstop_grace_ms = 0\n`);
  process.kill(hub.pid(), 'SIGHUP');
  assert.equal(await within('it ends itself, to be started again', hub.ended), 0);
  const after = socket.messages.slice(from).flatMap(({ fields }) => Object.keys(fields));
  const order = after.filter((name) => ['RELOADING', 'READY', 'STOPPING'].includes(name));
  assert.deepEqual(order, ['RELOADING', 'READY', 'RELOADING', 'READY', 'STOPPING'], 'a reload is over before a stop');
});

test('if line and hub run together the line notifies systemd for both, and the hub has no socket of its own', async (t) => {
  const { socket, env } = await systemd(t);
  const both = await startBoth({ env });
  await isFedOn(socket);
  assert.doesNotMatch(readFileSync(`/proc/${both.pid()}/environ`, 'utf8'), /NOTIFY_SOCKET|WATCHDOG_/);
  assert.equal(await both.stop(), 0);
  assert.equal(socket.messages.filter(({ fields }) => fields['READY'] === '1').length, 1);
});

test('a start that fails says why, and is never ready', async (t) => {
  const { socket, env } = await systemd(t);
  const { status } = await runDaemonToEnd({ env, config: { grpc: { listen: ['192.0.2.1:1'], insecure: true } } });
  assert.equal(status, 2);
  await socket.waitFor(
    ({ fields }) => fields['STATUS']?.startsWith('cannot start: cannot listen on 192.0.2.1:1') === true,
  );
  assert.ok(!notified(socket).includes('READY'));
});
