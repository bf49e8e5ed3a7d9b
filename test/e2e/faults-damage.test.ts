/** log.db is removed or damaged: the daemon serves, reports it, and deletes nothing (more cases: test/log/damage.test.ts). */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Daemon, startDaemon } from './daemon.ts';
import { cli, endExclusiveUse, everythingAfter, logStatus, openPort, RX, startBox } from './faults.ts';
import { LiveReader } from './live-reader.ts';
import type { NamedPty } from './pty.ts';

const CONTENT_BYTES = 200_000;

test('log.db is removed, later damaged: answered LogRaw calls survive a kill, the gap is known, the damaged file is kept', async () => {
  const { daemon: first, pty } = await startBox();
  const { dir } = first;
  const path = join(first.dataDir, 'log.db');
  for (let n = 0; n < 20; n++) await first.client.serial.logRaw({ dir: RX, note: `before ${n}` });
  for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix);
  const answered = Array.from({ length: 300 }, (_, n) => `after ${n}`);
  for (const note of answered) await first.client.serial.logRaw({ dir: RX, note });
  assert.match(first.logLines.join('\n'), /error .*new log was begun found="log\.db was removed/);
  await first.kill();
  endExclusiveUse(pty.slavePath);

  const second = await startDaemon({ dir });
  assert.deepEqual(
    (await notes(second)).filter((note) => note?.startsWith('after')),
    answered,
  );
  assert.match((await cli(second, 'status')).stdout, /20 entries .*log\.db was removed/);
  await receives(second, pty, randomBytes(CONTENT_BYTES));
  await second.client.serial.logRaw({ dir: RX, note: 'old' });
  assert.equal(await second.stop(), 0);

  const content = readFileSync(path);
  for (let at = content.length >> 2; at < content.length - 1_024; at += 64) content[at] = ~(content[at] ?? 0);
  writeFileSync(path, content);
  const third = await startDaemon({ dir });
  assert.equal((await logStatus(third.client)).setAside, `${path}.damaged-1`);
  assert.match(
    third.logLines.join('\n'),
    /error the log file cannot be used any more: a new log was begun .*damaged-1/,
  );
  assert.match((await cli(third, 'status')).stdout, /damaged-1/);
  await receives(third, pty, Buffer.from('new bytes'));
  await third.client.serial.logRaw({ dir: RX, note: 'new' });
  const kept = await notes(third);
  assert.ok(kept.includes('new') && !kept.includes('old'));
  await third.stop();
  assert.ok(readFileSync(`${path}.damaged-1`).equals(content), 'kept as it was');
});

async function notes({ client }: Daemon): Promise<(string | undefined)[]> {
  return (await everythingAfter(client, 0)).map(({ entry }) => entry?.note);
}

/** The line works, live. */
async function receives({ client }: Daemon, pty: NamedPty, bytes: Buffer): Promise<void> {
  await openPort(client, pty.portName);
  const reader = await LiveReader.start(client);
  await pty.write(bytes);
  await reader.has(bytes.length);
  await reader.stop();
}
