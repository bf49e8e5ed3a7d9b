/** The disk under the log hangs, fails or is full while the line continues: strace makes the system calls fail. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ClientError, Status } from 'nice-grpc';
import { fill, mountSmall } from '../../src/shared/base/small-disk.fixture.ts';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import type { lineside } from '../../src/shared/proto/services.ts';
import { type Client, startDaemon, temporaryDirectory } from './daemon.ts';
import { cli, everythingAfter, LOG_STATE_FAILING, LOG_STATE_OK, logStatus, openPort, RX, startBox } from './faults.ts';
import { LiveReader } from './live-reader.ts';
import { inject, straceWorks } from './strace.ts';

const skip = straceWorks() ? false : 'strace cannot trace here';
const KIB = 1024;

async function isUnavailable(call: Promise<unknown>): Promise<void> {
  await assert.rejects(call, (error) => error instanceof ClientError && error.code === Status.UNAVAILABLE);
}

function logState(client: Client, state: lineside.v1.LogState): Promise<true> {
  return until(`log state ${state}`, async () => (await logStatus(client)).state === state);
}

test('each fsync takes 500 ms: bytes and answers flow meanwhile, LogRaw alone waits', { skip }, async (t) => {
  const { daemon, pty } = await startBox();
  const { client } = daemon;
  const reader = await LiveReader.start(client);
  const injection = await inject(daemon.pid, 'fsync,fdatasync:delay_exit=500000');
  let [answered, bytes] = [0, 0];
  for (let i = 0; i < 3; i++) {
    const asked = performance.now();
    const logRaw = { stored: false };
    const storing = client.serial.logRaw({ dir: RX, note: `slow ${i}` }).then(() => {
      logRaw.stored = true;
    });
    for (;;) {
      await client.serial.sendPacket({ payload: randomBytes(20) });
      if (logRaw.stored) break;
      answered += 1;
      const before = reader.rxBytes;
      await pty.write(randomBytes(50));
      await reader.has(before + 50);
      if (logRaw.stored) break;
      bytes += 50;
    }
    await storing;
    assert.ok(performance.now() - asked >= 500, 'LogRaw was answered before its fsync was done');
  }
  await injection.end();
  t.diagnostic(`while three LogRaw calls waited: ${answered} SendPacket answers, ${bytes} bytes received and seen`);
  // Paced by the disk there would be three of each. A machine that is busy with other tests answers fewer than hundreds.
  assert.ok(answered >= 8, `${answered} answers`);
  assert.ok(bytes >= 8 * 50, `${bytes} bytes`);
  assert.equal(await daemon.stop(), 0);
});

test('fsync fails for a while: the state shows it, LogRaw is refused permanently, storing resumes', {
  skip,
}, async () => {
  const { daemon, pty } = await startBox();
  const { client } = daemon;
  await client.serial.logRaw({ dir: RX, note: 'before' });
  const reader = await LiveReader.start(client);
  const injection = await inject(daemon.pid, 'fsync,fdatasync:error=EIO');
  await isUnavailable(client.serial.logRaw({ dir: RX, note: 'refused 1' }));
  await logState(client, LOG_STATE_FAILING);
  await isUnavailable(client.serial.logRaw({ dir: RX, note: 'refused 2' }));
  const { error } = await logStatus(client);
  assert.match(error ?? '', /not being stored.*SQLITE_IOERR.*dmesg/);
  await pty.write(Buffer.from('the line continues'));
  await reader.has('the line continues'.length);
  await injection.end();
  await logState(client, LOG_STATE_OK);
  await client.serial.logRaw({ dir: RX, note: 'after' });
  await daemon.kill();

  const again = await startDaemon({ dir: daemon.dir });
  const entries = await everythingAfter(again.client, 0);
  assert.deepEqual(
    entries.map(({ entry }) => entry?.note || Buffer.from(entry?.rawData ?? []).toString()),
    ['before', 'the line continues', 'after'],
  );
  assert.equal((await logStatus(again.client)).setAside, '');
  await again.stop();
});

test('reading the log fails with EIO: the line and storing continue, and reading works again afterwards', {
  skip,
}, async () => {
  const { daemon, pty } = await startBox();
  const { client } = daemon;
  const bytes = 4 * KIB * KIB;
  const reader = await LiveReader.start(client);
  await pty.write(randomBytes(bytes));
  await reader.has(bytes);
  await client.serial.logRaw({ dir: RX, note: 'stored' });
  const injection = await inject(daemon.pid, 'pread64:error=EIO');
  // It fails, or waits for the disk.
  const reading = everythingAfter(client, 0).catch(String);
  await Promise.race([reading, logState(client, LOG_STATE_FAILING)]);
  await pty.write(Buffer.from('still here'));
  await reader.has(bytes + 10);
  await injection.end();
  await logState(client, LOG_STATE_OK);
  await within('the reader is answered', reading);
  await client.serial.logRaw({ dir: RX, note: 'again' });
  const entries = await everythingAfter(client, 0);
  const total = entries.reduce((sum, { entry }) => sum + (entry?.rawData?.length ?? 0), 0);
  assert.equal(total, bytes + 10);
  assert.equal((await logStatus(client)).setAside, '', 'a disk that cannot be read is no damaged file');
  await daemon.stop();
});

/** A small tmpfs under the data directory, filled by another file and freed again. */
test('a full disk: the line continues, the loss is counted, and storing resumes when there is room', async (t) => {
  const dir = temporaryDirectory();
  const data = join(dir, 'data');
  if (!mountSmall(t, data, 'size=4m')) return;
  const { daemon, pty } = await startBox({ log: { queue_bytes: 64 * KIB, max_bytes: KIB * KIB, commit_ms: 50 } }, dir);
  const { client } = daemon;
  await client.serial.logRaw({ dir: RX, note: 'before' });
  const reader = await LiveReader.start(client);
  fill(join(data, 'filler'));
  const flood = 800 * KIB;
  await pty.write(randomBytes(flood));
  await reader.has(flood);
  await logState(client, LOG_STATE_FAILING);
  const failing = await logStatus(client);
  assert.match(failing.error ?? '', /SQLITE_FULL.*Free space on the file system of .*data/);
  assert.ok(Number(failing.lostBytes) > 200 * KIB, String(failing.lostBytes));
  await isUnavailable(client.serial.logRaw({ dir: RX, note: 'refused' }));
  // Close and Open want to write what is open, too: they must not depend on it.
  await client.serial.close({});
  await openPort(client, pty.portName);
  assert.match((await cli(daemon, 'status')).stdout, /Free space/);
  rmSync(join(data, 'filler'));
  await logState(client, LOG_STATE_OK);
  await client.serial.logRaw({ dir: RX, note: 'after' });
  const status = await logStatus(client);
  assert.ok(Number(status.lostEntries) > 0);
  assert.equal(
    (status.gaps ?? []).reduce((sum, gap) => sum + Number(gap.entries), 0),
    Number(status.lostEntries),
  );
  assert.equal(reader.ended, '', 'the live reader lost nothing');
  assert.equal(await daemon.stop(), 0);

  // What is lost was still in memory for readers; after a restart there is only what was stored.
  const again = await startDaemon({ dir });
  const entries = await everythingAfter(again.client, 0);
  assert.equal(entries.length + Number(status.lostEntries), Number(status.headId), 'each id is an entry or lost');
  const stored = entries.reduce((sum, { entry }) => sum + (entry?.rawData?.length ?? 0), 0);
  assert.equal(stored + Number(status.lostBytes), flood);
  const notes = entries.flatMap(({ entry }) => entry?.note || []);
  assert.deepEqual(notes, ['before', 'after']);
  assert.equal((await logStatus(again.client)).setAside, '');
  assert.match((await cli(again, 'log', '--from-start')).stdout, /^-- .*(not stored|lost|missing)/im);
  t.diagnostic(`${String(status.lostEntries)} of ${String(status.headId)} entries lost`);
  assert.equal(await again.stop(), 0);
});
