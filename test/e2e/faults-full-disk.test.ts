/** A file system that is really full: a small tmpfs under the data directory, filled by another file and freed again. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ClientError, Status } from 'nice-grpc';
import { fill, mountSmall } from '../../src/shared/base/small-disk.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { startDaemon, temporaryDirectory } from './daemon.ts';
import { cli, everythingAfter, LOG_STATE_FAILING, LOG_STATE_OK, logStatus, openPort, RX, startBox } from './faults.ts';
import { LiveReader } from './live-reader.ts';

const KIB = 1024;
const DISK_MIB = 4;

test('a full disk: the line continues, the loss is counted, and storing resumes when there is room', async (t) => {
  const dir = temporaryDirectory();
  const data = join(dir, 'data');
  if (!mountSmall(t, data, `size=${DISK_MIB}m`)) return;
  const { daemon, pty } = await startBox({ log: { queue_bytes: 64 * KIB, max_bytes: KIB * KIB, commit_ms: 50 } }, dir);
  const { client } = daemon;
  await client.serial.logRaw({ dir: RX, note: 'before' });
  const reader = await LiveReader.start(client);
  fill(join(data, 'filler'));
  const flood = 800 * KIB;
  await pty.write(randomBytes(flood));
  await reader.has(flood);
  await until('the log fails', async () => (await logStatus(client)).state === LOG_STATE_FAILING);
  const failing = await logStatus(client);
  assert.match(failing.error ?? '', /SQLITE_FULL.*Free space on the file system of .*data/);
  assert.ok(Number(failing.lostBytes) > 200 * KIB, String(failing.lostBytes));
  await assert.rejects(
    client.serial.logRaw({ dir: RX, note: 'refused' }),
    (error) => error instanceof ClientError && error.code === Status.UNAVAILABLE,
  );
  // Close and Open want to write what is open, too: they must not depend on it.
  await client.serial.close({});
  await openPort(client, pty.portName);
  assert.match((await cli(daemon, 'status')).stdout, /Free space/);
  rmSync(join(data, 'filler'));
  await until('it is stored again', async () => (await logStatus(client)).state === LOG_STATE_OK);
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
