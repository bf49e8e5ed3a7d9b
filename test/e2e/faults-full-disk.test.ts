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

test('a full disk: the line goes on, the loss is counted, and storing resumes when there is room', async (t) => {
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
  assert.match(failing.error ?? '', /Free space on the file system of .*data/);
  await assert.rejects(
    client.serial.logRaw({ dir: RX, note: 'refused' }),
    (error) => error instanceof ClientError && error.code === Status.UNAVAILABLE,
  );
  // Close and Open want to write what is open, too: they must not depend on it.
  await client.serial.close({});
  await openPort(client, pty.portName);
  assert.notEqual((await cli(daemon, 'status')).stdout.match(/Free space/), null);
  rmSync(join(data, 'filler'));
  await until('it is stored again', async () => (await logStatus(client)).state === LOG_STATE_OK);
  await client.serial.logRaw({ dir: RX, note: 'after' });
  const status = await logStatus(client);
  assert.ok(Number(status.lostEntries) > 0);
  assert.equal(reader.ended, '');
  assert.equal(await daemon.stop(), 0);

  const again = await startDaemon({ dir });
  const entries = await everythingAfter(again.client, 0);
  assert.equal(entries.length + Number(status.lostEntries), Number(status.headId));
  const notes = entries.flatMap(({ entry }) => entry?.note || []);
  assert.deepEqual(notes, ['before', 'after']);
  assert.equal((await logStatus(again.client)).setAside, '');
  t.diagnostic(`${String(status.lostEntries)} of ${String(status.headId)} entries lost`);
  assert.equal(await again.stop(), 0);
});
