/** Whatever lies where log.db should be when the daemon starts: it serves, says so, and deletes nothing. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { type Daemon, startDaemon } from './daemon.ts';
import { cli, everythingAfter, LOG_STATE_FAILING, LOG_STATE_OK, logStatus, openPort, RX, startBox } from './faults.ts';
import { LiveReader } from './live-reader.ts';
import type { NamedPty } from './pty.ts';

const CONTENT_BYTES = 200_000;

const damages: Readonly<Record<string, (path: string) => void>> = {
  'a text file': (path) => writeFileSync(path, 'this is no log\n'.repeat(1_000)),
  'a file cut in the middle': (path) => truncateSync(path, Math.floor(statSync(path).size / 2) + 123),
  'flipped bytes in the middle': (path) => {
    const bytes = readFileSync(path);
    for (let at = bytes.length >> 2; at < bytes.length - 1_024; at += 64) bytes[at] = ~(bytes[at] ?? 0);
    writeFileSync(path, bytes);
  },
};

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

for (const [name, damage] of Object.entries(damages)) {
  test(`${name} is set aside under another name, and a new log begun`, async () => {
    const { daemon: old, pty, path } = await ended();
    damage(path);
    const content = readFileSync(path);
    const daemon = await startDaemon({ dir: old.dir });
    const status = await logStatus(daemon.client);
    assert.equal(status.setAside, `${path}.damaged-1`);
    assert.ok(readFileSync(`${path}.damaged-1`).equals(content), 'kept as it was');
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
    assert.ok(existsSync(`${path}.damaged-1`));
  });
}

test('a directory in its place: the line goes on, the status says what to do, and storing begins when it is gone', async () => {
  const { daemon: old, pty, path } = await ended();
  renameSync(path, `${path}.kept`);
  mkdirSync(join(path, 'sub'), { recursive: true });
  const daemon = await startDaemon({ dir: old.dir });
  await serves(daemon, pty);
  const { state, error } = await logStatus(daemon.client);
  assert.equal(state, LOG_STATE_FAILING);
  assert.match(error ?? '', /log\.db is a directory.*Move it away/);
  assert.match(daemon.logLines.join('\n'), /error .*is a directory/);
  renameSync(path, `${path}.directory`);
  await until('storing begins', async () => (await logStatus(daemon.client)).state === LOG_STATE_OK);
  await daemon.client.serial.logRaw({ dir: RX, note: 'new' });
  const [first] = await everythingAfter(daemon.client, 0);
  assert.equal(Buffer.from(first?.entry?.rawData ?? []).toString(), 'new bytes', 'what waited is stored too');
  await daemon.stop();
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
