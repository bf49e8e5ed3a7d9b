/** SIGTERM on bad days: under traffic, while the disk hangs, while a write is stalled, while Open hangs. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import Database from 'better-sqlite3';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import { lineside } from '../../src/shared/proto/services.ts';
import { seeded } from '../soak/random.ts';
import { allTraffic, newTraffic } from '../soak/traffic.ts';
import { type Daemon, startDaemon, temporaryDirectory } from './daemon.ts';
import { everythingAfter, logStatus, openPort, RX, startBox } from './faults.ts';
import { LiveReader } from './live-reader.ts';
import { namedPty } from './pty.ts';
import { inject, injectAt, straceWorks } from './strace.ts';

const { PORT_STATE_OPENING } = lineside.v1.PortState;
const skip = straceWorks() ? false : 'strace cannot trace here';
/** systemd waits 90 s by default; the promise is about 10 s, and these machines are slow and busy. */
const BOUND_MS = 40_000;
/** Each call. Not longer: not even SIGKILL ends a process before strace lets go of a call it delays. */
const HANG_US = 4_000_000;

/** Its exit status or the signal's name, within the bound; how long it took is shown. */
async function terminated(daemon: Daemon): Promise<{ how: number | string; ms: number }> {
  const from = performance.now();
  process.kill(daemon.pid, 'SIGTERM');
  const how = await within('the daemon ends', daemon.ended, BOUND_MS);
  return { how, ms: Math.round(performance.now() - from) };
}

test('SIGTERM under traffic: streams end with UNAVAILABLE, and everything shown or answered is stored', async (t) => {
  const { daemon, pty } = await startBox({ log: { commit_ms: 60_000 } });
  const { client } = daemon;
  const traffic = newTraffic(pty, seeded(1));
  const { ledger } = traffic;
  const readers = await Promise.all([LiveReader.start(client), LiveReader.start(client, { follow: true })]);
  const over = new AbortController();
  const work = allTraffic(client, traffic, over.signal, { logRaw: { count: 1 }, send: { count: 1 } });
  work.catch(() => {});
  await until('traffic', () => (readers[0]?.ids.length ?? 0) > 300);
  const { how, ms } = await terminated(daemon);
  t.diagnostic(`ended in ${ms} ms: ${how}`);
  over.abort();
  await work;
  assert.equal(how, 0, daemon.logLines.join('\n'));
  for (const reader of readers) {
    await reader.over;
    assert.match(reader.ended, /UNAVAILABLE/);
  }
  const again = await startDaemon({ dir: daemon.dir });
  const entries = await ledger.readOn(again.client);
  ledger.settleShown();
  assert.equal(ledger.jumps, 0, 'no id was left out');
  assert.ok(ledger.figures.sent >= ledger.sentAnswered, 'every SendPacket that was answered is in the log');
  const ids = new Set(entries.map(({ id }) => Number(id)));
  for (const reader of readers) assert.ok(reader.ids.every((id) => ids.has(id)));
  t.diagnostic(JSON.stringify(ledger.figures));
  await again.stop();
});

test('SIGTERM while an fsync hangs: it ends all the same, and what was not promised may be missing', {
  skip,
}, async (t) => {
  const { daemon, pty } = await startBox();
  const { client } = daemon;
  await client.serial.logRaw({ dir: RX, note: 'promised' });
  const injection = await inject(daemon.pid, `fsync,fdatasync:delay_enter=${HANG_US}`);
  const hanging = client.serial.logRaw({ dir: RX, note: 'not promised' }).then(
    () => 'answered',
    (error: unknown) => String(error),
  );
  await pty.write(Buffer.from('received'));
  await until('the hanging commit', async () => Number((await logStatus(client)).pendingEntries) >= 2);
  const { how, ms } = await terminated(daemon);
  t.diagnostic(`ended in ${ms} ms: ${how}; the waiting LogRaw: ${await hanging}`);
  assert.match(await hanging, /UNAVAILABLE|CANCELLED/);
  await injection.end();
  const again = await startDaemon({ dir: daemon.dir });
  const notes = (await everythingAfter(again.client, 0)).map(({ entry }) => entry?.note ?? '');
  assert.equal(notes[0], 'promised');
  await again.stop();
});

test('a stop waits for no check of a large log in the background, and a kill leaves none behind', async () => {
  const { daemon: first } = await startBox();
  assert.equal(await first.stop(), 0);
  const path = join(first.dataDir, 'log.db');
  enlarge(path);
  for (const end of ['SIGTERM', 'SIGKILL'] as const) {
    const daemon = await startDaemon({ dir: first.dir });
    const check = await until('the check', () => checkOf(daemon.pid));
    // A stopped process stands for a check that lasts: the daemon ends before it does.
    process.kill(check, 'SIGSTOP');
    const held = readdirSync(`/proc/${check}/fd`).map((fd) => readlinkSync(`/proc/${check}/fd/${fd}`));
    assert.ok(!held.some((name) => name.endsWith('.lock')), 'the directory is not held by the check');
    process.kill(daemon.pid, end);
    const how = await within('the daemon ends', daemon.ended, BOUND_MS);
    assert.equal(how, end === 'SIGTERM' ? 0 : end, daemon.logLines.join('\n'));
    await until('the check is gone', () => !existsSync(`/proc/${check}`));
    assert.doesNotMatch(daemon.logLines.join('\n'), /could not be checked/);
  }
});

/** Past the size up to which a file is checked before it is opened. */
function enlarge(path: string): void {
  const database = new Database(path);
  database.exec('CREATE TABLE filler (bytes BLOB)');
  const rows = 40 * 256;
  database
    .prepare(
      'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO filler SELECT zeroblob(4000) FROM n',
    )
    .run(rows);
  database.close();
}

/** The process of the check when it has its name: before its exec, its parent's main thread waits for it. */
function checkOf(pid: number): number | undefined {
  const [child] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ');
  if (!child || readFileSync(`/proc/${child}/comm`, 'utf8') !== 'lineside-check\n') return undefined;
  return Number(child);
}

test('a second SIGTERM ends it at once', { skip }, async () => {
  const { daemon } = await startBox();
  const injection = await inject(daemon.pid, `fsync,fdatasync:delay_enter=${HANG_US}`);
  const hanging = daemon.client.serial.logRaw({ dir: RX, note: 'x' }).catch(String);
  await until('the hanging commit', async () => Number((await logStatus(daemon.client)).pendingEntries) >= 1);
  process.kill(daemon.pid, 'SIGTERM');
  await daemon.waitFor(/ info stopping /);
  process.kill(daemon.pid, 'SIGTERM');
  assert.equal(await within('the daemon ends', daemon.ended, BOUND_MS), 'SIGTERM');
  assert.doesNotMatch(daemon.logLines.join('\n'), / info stopped$/);
  await hanging;
  await injection.end();
});

test('SIGTERM while a write is stalled: the caller is answered, and the log has how much was sent', async (t) => {
  const dir = temporaryDirectory();
  // No device reads this port.
  const stalled = namedPty(dir, 'port1', false);
  const config = { serial: { extra_ports: [stalled.portName] } };
  const daemon = await startDaemon({ dir, config });
  await openPort(daemon.client, stalled.portName);
  const sending = daemon.client.serial.sendPacket({ payload: Buffer.alloc(65_536, 0x55) }).then(
    ({ status, error }) => `${status} ${error}`,
    (error: unknown) => String(error),
  );
  // It is taken from the queue at once; then the kernel takes a few KiB and no more.
  await daemon.client.serial
    .sendPacket({ payload: Buffer.from('behind it') }, { signal: AbortSignal.timeout(300) })
    .catch(String);
  const { how, ms } = await terminated(daemon);
  t.diagnostic(`ended in ${ms} ms: ${how}; the sender: ${await sending}`);
  assert.equal(how, 0, daemon.logLines.join('\n'));
  assert.match(await sending, /shutting down.*\d+ of 65536 bytes had reached the port/);
  const again = await startDaemon({ dir, config });
  const [entry] = (await everythingAfter(again.client, 0)).slice(-1);
  assert.match(entry?.entry?.note ?? '', /incomplete: \d+ of 65536 bytes/);
  await again.stop();
});

test('SIGTERM while Open hangs in the kernel', { skip }, async (t) => {
  const dir = temporaryDirectory();
  const other = namedPty(dir, 'port1');
  const config = { serial: { extra_ports: [other.portName] } };
  const daemon = await startDaemon({ dir, config });
  const injection = await injectAt([other.slavePath], daemon.pid, `openat:delay_enter=${HANG_US}`);
  const opening = daemon.client.serial.open({ portName: other.portName, baudRate: 9_600, dataBits: 8 }).then(
    ({ status, error }) => `${status} ${error}`,
    (error: unknown) => String(error),
  );
  await until(
    'Open is under way',
    async () => (await daemon.client.line.getStatus({})).portState === PORT_STATE_OPENING,
  );
  const { how, ms } = await terminated(daemon);
  t.diagnostic(`ended in ${ms} ms: ${how}; the caller: ${await opening}`);
  assert.doesNotMatch(await opening, /^OK/);
  await injection.end();
  const again = await startDaemon({ dir, config });
  assert.equal((await logStatus(again.client)).setAside, '');
  await again.stop();
});
