import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import Database from 'better-sqlite3';
import { LinesideError } from '../../shared/base/errors.ts';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { silentLogger } from '../../shared/base/logger.ts';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';
import { until } from '../../shared/base/wait.fixture.ts';
import { hubMigrations } from '../migrations.ts';
import { author, openStoreIn, temporaryStore } from './change-store.fixture.ts';
import { openChangeStore } from './change-store.ts';
import { emitEvent, recordEvent } from './event.fixture.ts';
import { openRefdataFile, refdataFileName } from './refdata-file.ts';

/** Of the file and its write-ahead log; -shm is SQLite's scratch, and a reader begins an empty -wal where there is none. */
function digest(dir: string): string {
  const hash = createHash('sha256').update(readFileSync(join(dir, refdataFileName)));
  const wal = join(dir, `${refdataFileName}-wal`);
  return hash.update(existsSync(wal) ? readFileSync(wal) : '').digest('hex');
}

function refusedUntouched(dir: string): void {
  const before = digest(dir);
  assert.throws(
    () => openRefdataFile(dir, hubMigrations),
    (error) => error instanceof LinesideError && error.code === 'STORAGE_DAMAGED' && error.hint.includes('.recover'),
  );
  assert.equal(digest(dir), before, 'the file and its write-ahead log are as they were');
}

/** A file with a few hundred pages in use, closed. */
async function filledDir(t: Parameters<typeof temporaryStore>[0], rows: number, text: string): Promise<string> {
  const { store, dir } = temporaryStore(t);
  await store.commit(author, (change) => {
    for (let n = 0; n < rows; n++) emitEvent(change, recordEvent(`k${n}`, 1, { data: { text } }));
  });
  await store.close();
  return dir;
}

test('a file that is no database is refused and left as it is', (t) => {
  const dir = temporaryDirectory(t);
  writeFileSync(join(dir, refdataFileName), 'not a database at all, but long enough to be looked at '.repeat(100));
  refusedUntouched(dir);
});

test('a file with pages overwritten, or cut short, is refused and left as it is', async (t) => {
  const dir = await filledDir(t, 500, 'x'.repeat(500));
  const path = join(dir, refdataFileName);
  const whole = join(temporaryDirectory(t), 'whole');
  copyFileSync(path, whole);
  const bytes = readFileSync(path);
  bytes.fill(0xff, 4096 * 4, 4096 * 8);
  writeFileSync(path, bytes);
  refusedUntouched(dir);
  copyFileSync(whole, path);
  truncateSync(path, 4096 * 20);
  refusedUntouched(dir);
});

test('an empty file beside a write-ahead log with something in it is refused: all there is may be in it', (t) => {
  const dir = temporaryDirectory(t);
  writeFileSync(join(dir, refdataFileName), '');
  writeFileSync(join(dir, `${refdataFileName}-wal`), 'x'.repeat(5_000));
  refusedUntouched(dir);
});

test('a new directory gets a new file, and what was committed is there after a process that just ended', async (t) => {
  const dir = join(temporaryDirectory(t), 'deep', 'er');
  const { connection, unchecked } = openRefdataFile(dir, hubMigrations);
  assert.equal(unchecked, false);
  const clock = new FakeClock();
  const store = openChangeStore({ connection, dir, maxBytes: 1 << 30, minFreeBytes: 0, clock, logger: silentLogger });
  await store.commit(author, (change) => emitEvent(change, recordEvent('a')));
  const copy = temporaryDirectory(t);
  for (const name of readdirSync(dir)) copyFileSync(join(dir, name), join(copy, name));
  await store.close();
  const again = openRefdataFile(copy, hubMigrations).connection;
  assert.equal(again.prepare('SELECT count(*) FROM outbox').pluck().get(), 1);
  again.close();
});

test('damage inside a large file is found in the background and remembered', async (t) => {
  const dir = await filledDir(t, 2_000, 'x'.repeat(20_000));
  const path = join(dir, refdataFileName);
  const bytes = readFileSync(path);
  bytes.fill(0xff, 4096 * 3_000, 4096 * 3_004);
  writeFileSync(path, bytes);
  const { connection, unchecked } = openRefdataFile(dir, hubMigrations);
  connection.close();
  assert.equal(unchecked, true);
  const clock = new FakeClock();
  const store = openStoreIn(t, dir, { clock, unchecked });
  assert.equal(store.health().damage, '');
  clock.advance(5_000);
  assert.match(await until('the check to find it', () => store.health().damage), /the check of refdata.db found/);
});

test("another program's database is set aside as it was, and an empty refdata.db begun", async (t) => {
  for (const version of [0, 1, 2]) {
    const dir = temporaryDirectory(t);
    const path = join(dir, refdataFileName);
    const other = new Database(path);
    other.exec(`CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('mine'); PRAGMA user_version = ${version}`);
    other.close();
    const content = readFileSync(path);
    const { connection, setAside } = openRefdataFile(dir, hubMigrations);
    t.after(() => connection.close());
    assert.equal(setAside, `${path}.damaged-1`);
    assert.ok(readFileSync(setAside).equals(content));
    assert.equal(connection.prepare('SELECT count(*) FROM outbox').pluck().get(), 0);
  }
});
