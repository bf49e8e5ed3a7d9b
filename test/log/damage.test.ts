/** Any file in the place of log.db: the log continues, and a damaged file is set aside, never deleted. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import Database from 'better-sqlite3';
import { FakeClock } from '../../src/shared/base/fake-clock.fixture.ts';
import { recordingLogger } from '../../src/shared/base/logger.fixture.ts';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { idsOf, iteratorOf, MiB, newEntry, nextTexts, openLog, readAll, textsOf } from './support.ts';

async function filledLog(t: TestContext, dir: string, entries = 200): Promise<string> {
  const log = await openLog(t, dir);
  for (let i = 0; i < entries; i++) log.record(1, i, Buffer.alloc(400, i));
  await log.close();
  return log.logId;
}

async function expectNewLog(t: TestContext, dir: string, oldId: string, content: Buffer): Promise<void> {
  const { logger, lines } = recordingLogger();
  const log = await openLog(t, dir, { logger });
  const status = await log.status();
  assert.equal(status.state, 'ok');
  assert.notEqual(status.logId, oldId);
  assert.match(
    lines.join('\n'),
    /error the log file cannot be used any more: a new log was begun .*log\.db\.damaged-1/,
  );
  assert.equal(status.setAside, join(dir, 'log.db.damaged-1'));
  assert.ok(readFileSync(status.setAside).equals(content), 'the damaged file is kept as it was');
  assert.equal((await log.store(newEntry('new'))).id, 1);
}

const damages: Record<string, (path: string) => void> = {
  'a text file': (path) => writeFileSync(path, 'this is no database\n'.repeat(500)),
  'a file cut in the middle': (path) => truncateSync(path, Math.floor(statSync(path).size / 2 / 512) * 512 - 100),
  'a file with garbage in its pages': (path) => {
    const bytes = readFileSync(path);
    bytes.fill(0xa5, 1024, bytes.length - 2048);
    writeFileSync(path, bytes);
  },
  'a header of zeros': (path) => {
    const bytes = readFileSync(path);
    bytes.fill(0, 0, 512);
    writeFileSync(path, bytes);
  },
};

/** Another program's database: with a table's name of the log's own, of no version and of versions that the log has had. */
const foreign = [
  'CREATE TABLE meta (other TEXT); PRAGMA user_version = 1',
  ...[0, 1, 2].map((version) => `CREATE TABLE notes (text TEXT); PRAGMA user_version = ${version}`),
];
for (const sql of foreign) {
  damages[`a database made by "${sql}"`] = (path) => {
    unlinkSync(path);
    const other = new Database(path);
    other.exec(sql);
    other.close();
  };
}

for (const [name, damage] of Object.entries(damages)) {
  test(`${name} is set aside and a new log begun`, async (t) => {
    const dir = temporaryDirectory(t);
    const oldId = await filledLog(t, dir);
    const path = join(dir, 'log.db');
    damage(path);
    await expectNewLog(t, dir, oldId, readFileSync(path));
  });
}

test('an empty file becomes a log; with a write-ahead log beside it, both are set aside', async (t) => {
  const dir = temporaryDirectory(t);
  writeFileSync(join(dir, 'log.db'), '');
  const log = await openLog(t, dir);
  assert.equal((await log.store(newEntry('x'))).id, 1);
  assert.equal((await log.status()).setAside, '');
  await log.close();
  writeFileSync(join(dir, 'log.db'), '');
  writeFileSync(join(dir, 'log.db-wal'), 'all there is');
  const next = await openLog(t, dir);
  assert.equal((await next.status()).setAside, join(dir, 'log.db.damaged-1'));
  assert.equal(readFileSync(join(dir, 'log.db.damaged-1-wal'), 'utf8'), 'all there is');
});

test('a file of a newer version is left alone: the log is failing and says so', async (t) => {
  const dir = temporaryDirectory(t);
  await filledLog(t, dir);
  const path = join(dir, 'log.db');
  const connection = new Database(path);
  connection.pragma('user_version = 99');
  connection.exec('UPDATE oldest_reader SET version = 99');
  connection.close();
  const log = await openLog(t, dir);
  const status = await log.status();
  assert.equal(status.state, 'failing');
  assert.match(status.error, /newer lineside/);
  assert.deepEqual(
    readdirSync(dir).filter((name) => name.includes('damaged')),
    [],
  );
});

test('a directory in its place: live entries continue; once it is moved, everything pending is stored', async (t) => {
  const dir = temporaryDirectory(t);
  mkdirSync(join(dir, 'log.db'));
  const log = await openLog(t, dir);
  assert.match((await log.status()).error, /is a directory/);
  const live = iteratorOf(log, { after: 'live', follow: true });
  log.record(1, 1, Buffer.from('a'));
  assert.deepEqual(await nextTexts(live), ['a']);
  await assert.rejects(log.store(newEntry('refused')), { code: 'LOG_NOT_STORED' });
  rmdirSync(join(dir, 'log.db'));
  await until('state === ok', async () => (await log.status()).state === 'ok');
  log.record(1, 2, Buffer.from('b'));
  assert.deepEqual(await nextTexts(live), ['b']);
  await log.store(newEntry('c'));
  assert.deepEqual(textsOf((await readAll(log)).entries), ['a', 'b', 'c']);
  await live.return?.();
});

test('a directory that cannot be made at start: an existing log is joined without a clash of ids once it can', async (t) => {
  const dir = temporaryDirectory(t);
  const data = join(dir, 'data');
  await filledLog(t, data, 5);
  const moved = join(dir, 'away');
  renameSync(data, moved);
  writeFileSync(data, 'a file in the way');
  const log = await openLog(t, data);
  assert.equal((await log.status()).state, 'failing');
  const live = iteratorOf(log, { after: 'live', follow: true });
  for (let i = 0; i < 3; i++) log.record(1, i, Buffer.from(`p${i}`));
  assert.deepEqual(await nextTexts(live), ['p0', 'p1', 'p2']);
  unlinkSync(data);
  renameSync(moved, data);
  await until('state === ok', async () => (await log.status()).state === 'ok');
  log.record(1, 9, Buffer.from('p3'));
  const next = await live.next();
  assert.deepEqual(idsOf(next.value?.entries ?? []), [9], 'exactly the next entry, under its id in the joined log');
  await log.store(newEntry('end'));
  assert.deepEqual(idsOf((await readAll(log)).entries), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  await live.return?.();
});

test('damage found while running: a new log takes what is pending, a waiting caller is not refused', async (t) => {
  const dir = temporaryDirectory(t);
  const log = await openLog(t, dir, { commitMs: 60_000, tailBytes: 1_000 });
  // More than SQLite's page cache: what is read comes from the file.
  for (let i = 0; i < 1000; i++) log.record(1, i, randomBytes(4096));
  await log.store(newEntry('last of the old'));
  const before = log.logId;
  const follower = iteratorOf(log, { after: 10, follow: true });
  const path = join(dir, 'log.db');
  for (const file of [path, `${path}-wal`]) {
    if (existsSync(file)) writeFileSync(file, Buffer.alloc(statSync(file).size, 0x5a));
  }
  await readAll(log);
  await until('a log is set aside', async () => (await log.status()).setAside !== '');
  const stored = await log.store(newEntry('first of the new'));
  assert.notEqual(log.logId, before);
  assert.equal(stored.id, 1002, 'ids continue');
  const later = await log.store(newEntry('later'));
  assert.ok(later.id > stored.id);
  await assert.rejects(
    async () => {
      for (;;) if ((await follower.next()).done) return;
    },
    { code: 'LOG_LOST' },
  );
  assert.equal((await log.status()).state, 'ok');
  assert.ok(textsOf((await readAll(log)).entries).includes('later'));
});

test('a large file opens at once and is checked afterwards: damage is found without a reader', async (t) => {
  const dir = temporaryDirectory(t);
  const path = join(dir, 'log.db');
  const old = await openLog(t, dir, { queueBytes: 64 * MiB });
  const bytes = randomBytes(64 * 1024);
  for (let i = 0; i < 600; i++) old.record(1, i, bytes);
  await until('pendingEntries === 0', async () => (await old.status()).pendingEntries === 0);
  await old.close();
  const size = statSync(path).size;
  assert.ok(size > 32 * MiB);
  const file = openSync(path, 'r+');
  writeSync(file, Buffer.alloc(64 * 1024, 0xa5), 0, 64 * 1024, Math.floor(size / 2));
  closeSync(file);
  const clock = new FakeClock();
  const log = await openLog(t, dir, { clock });
  assert.equal(log.logId, old.logId);
  assert.equal((await log.status()).setAside, '');
  clock.advance(5_000);
  await until('a log is set aside', async () => (await log.status()).setAside !== '');
  assert.notEqual(log.logId, old.logId);
  assert.equal((await log.store(newEntry('continues'))).id, 601);
});

const storedBefore = 20;
/** Other losses are found by the same check: src/shared/storage/database-files.test.ts. */
const losses: Record<string, { harm: (path: string, t: TestContext) => void | Promise<void>; found: RegExp }> = {
  'removed alone': { harm: (path) => unlinkSync(path), found: /log\.db was removed/ },
  'overwritten in its place by another log': {
    harm: async (path, t) => {
      const other = temporaryDirectory(t);
      await filledLog(t, other);
      // Keeps the inode, as cp does.
      writeFileSync(path, readFileSync(join(other, 'log.db')));
    },
    found: /log\.db was overwritten/,
  },
};

for (const [name, { harm, found }] of Object.entries(losses)) {
  test(`log.db ${name} while the line runs: what is answered OK is on the disk, and the loss is recorded`, async (t) => {
    const dir = temporaryDirectory(t);
    const path = join(dir, 'log.db');
    const { logger, lines } = recordingLogger();
    const log = await openLog(t, dir, { logger, tailBytes: 1_000 });
    for (let i = 0; i < storedBefore; i++) await log.store(newEntry(`before ${i}`));
    const before = log.logId;
    const follower = iteratorOf(log, { after: 2, follow: true });
    await harm(path, t);
    const acknowledged: string[] = [];
    for (let i = 0; i < 50; i++) acknowledged.push(textsOf([await log.store(newEntry(`after ${i}`))])[0] ?? '');
    assert.notEqual(log.logId, before, 'another log was begun');
    assert.equal((await log.status()).state, 'ok');
    assert.match(lines.join('\n'), found);
    await assert.rejects(follower.next(), { code: 'LOG_LOST' });

    // The state after kill -9: the files as they are, without a close.
    const killed = join(temporaryDirectory(t), 'killed');
    cpSync(dir, killed, { recursive: true });
    const next = await openLog(t, killed);
    const { entries, gaps } = await readAll(next);
    assert.deepEqual(textsOf(entries), acknowledged, 'everything that was answered OK is there after the kill');
    assert.deepEqual(
      gaps.map(({ firstId, lastId, entries: lost }) => ({ firstId, lastId, lost })),
      [{ firstId: 1, lastId: storedBefore, lost: storedBefore }],
    );
    assert.match(gaps[0]?.reason ?? '', found);
    assert.equal((await next.status()).lostEntries, storedBefore);
  });
}

test('log.db-wal removed alone: nothing is lost, the log continues in the same file', async (t) => {
  const dir = temporaryDirectory(t);
  const log = await openLog(t, dir);
  for (let i = 0; i < 5; i++) await log.store(newEntry(`before ${i}`));
  const before = log.logId;
  unlinkSync(join(dir, 'log.db-wal'));
  await log.store(newEntry('after'));
  await log.store(newEntry('end'));
  assert.equal(log.logId, before);
  const copied = join(temporaryDirectory(t), 'killed');
  cpSync(dir, copied, { recursive: true });
  const next = await openLog(t, copied);
  assert.deepEqual(textsOf((await readAll(next)).entries), [
    ...Array.from({ length: 5 }, (_, i) => `before ${i}`),
    'after',
    'end',
  ]);
});
