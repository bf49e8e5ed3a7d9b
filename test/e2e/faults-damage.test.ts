/** Whatever lies where log.db should be when the daemon starts: it serves, says so, and deletes nothing. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Daemon, startDaemon } from './daemon.ts';
import { cli, everythingAfter, logStatus, openPort, RX, startBox } from './faults.ts';
import { LiveReader } from './live-reader.ts';
import type { NamedPty } from './pty.ts';

const CONTENT_BYTES = 200_000;

/** A log with something in it, whose daemon has ended. */
async function ended(): Promise<{ daemon: Daemon; pty: NamedPty; path: string }> {
  const { daemon, pty } = await startBox();
  const reader = await LiveReader.start(daemon.client);
  await pty.write(randomBytes(CONTENT_BYTES));
  await reader.has(CONTENT_BYTES);
  await daemon.client.serial.logRaw({ dir: RX, note: 'old' });
  assert.equal(await daemon.stop(), 0);
  return { daemon, pty, path: join(daemon.dataDir, 'log.db') };
}

/** The line works, live and stored. */
async function serves(daemon: Daemon, pty: NamedPty): Promise<void> {
  await openPort(daemon.client, pty.portName);
  const reader = await LiveReader.start(daemon.client);
  await pty.write(Buffer.from('new bytes'));
  await reader.has('new bytes'.length);
  await reader.stop();
}

test('a file with flipped bytes is set aside under another name, and a new log begun', async () => {
  const { daemon: old, pty, path } = await ended();
  const content = readFileSync(path);
  for (let at = content.length >> 2; at < content.length - 1_024; at += 64) content[at] = ~(content[at] ?? 0);
  writeFileSync(path, content);
  const daemon = await startDaemon({ dir: old.dir });
  assert.equal((await logStatus(daemon.client)).setAside, `${path}.damaged-1`);
  assert.match(
    daemon.logLines.join('\n'),
    /error the log file cannot be used any more: a new log was begun .*damaged-1/,
  );
  assert.match((await cli(daemon, 'status')).stdout, /damaged-1/);
  await serves(daemon, pty);
  await daemon.client.serial.logRaw({ dir: RX, note: 'new' });
  const notes = (await everythingAfter(daemon.client, 0)).map(({ entry }) => entry?.note);
  assert.ok(notes.includes('new') && !notes.includes('old'));
  await daemon.stop();
  assert.ok(readFileSync(`${path}.damaged-1`).equals(content), 'kept as it was');
});

test('log.db is removed while the line runs: every LogRaw that was answered OK is there after a kill, and the gap is known', async () => {
  const { daemon: first } = await startBox();
  for (let n = 0; n < 20; n++) await first.client.serial.logRaw({ dir: RX, note: `before ${n}` });
  for (const suffix of ['', '-wal', '-shm']) rmSync(join(first.dataDir, `log.db${suffix}`));
  const answered = Array.from({ length: 300 }, (_, n) => `after ${n}`);
  for (const note of answered) await first.client.serial.logRaw({ dir: RX, note });
  assert.match(first.logLines.join('\n'), /error .*new log was begun found="log\.db was removed/);
  await first.kill();
  const daemon = await startDaemon({ dir: first.dir });
  const kept = (await everythingAfter(daemon.client, 0)).map(({ entry }) => entry?.note);
  assert.deepEqual(
    kept.filter((note) => note?.startsWith('after')),
    answered,
  );
  assert.match((await cli(daemon, 'status')).stdout, /20 entries .*log\.db was removed/);
  await daemon.stop();
});
