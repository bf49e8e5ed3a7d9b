/** What happens to the content of an open file: checkpoints and new times are no harm, any other content is. */
import assert from 'node:assert/strict';
import { copyFileSync, readFileSync, renameSync, truncateSync, unlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { temporaryDirectory } from '../base/temporary.fixture.ts';
import { DatabaseFiles } from './database-files.ts';
import { type Connection, openDatabase, openExisting } from './open.ts';

const cache = { cacheKib: 1_024, walLimitBytes: 4 * 1024 * 1024 };
const migrations = ['CREATE TABLE store (id TEXT); CREATE TABLE rows (text TEXT);'];

function open(t: TestContext, id: string) {
  const path = join(temporaryDirectory(t), 'store.db');
  const connection = openDatabase({ path, pageSize: 4096, migrations, ...cache });
  connection.prepare('INSERT INTO store VALUES (?)').run(id);
  const files = new DatabaseFiles(connection, id);
  t.after(() => files.close());
  return { path, connection, files };
}

function write(connection: Connection): void {
  connection.prepare('INSERT INTO rows VALUES (?)').run('x'.repeat(10_000));
}

const harmless: Record<string, (path: string) => void> = {
  'given other times': (path) => utimesSync(path, 1, 1),
  'checkpointed by another connection': (path) => {
    const other = openExisting({ path, ...cache });
    write(other);
    other.pragma('wal_checkpoint(TRUNCATE)');
    other.close();
  },
};

test('a file is the same file after checkpoints of equal size by another connection', (t) => {
  const { path, files } = open(t, 'store-1');
  const other = openExisting({ path, ...cache });
  t.after(() => other.close());
  for (let n = 0; n < 3; n += 1) {
    // One page: the write-ahead log begins again, and has as many frames as the time before.
    other.prepare('UPDATE store SET id = ?').run(`store-1, ${n}`);
    other.pragma('wal_checkpoint(PASSIVE)');
    files.verify();
  }
});

for (const [name, change] of Object.entries(harmless)) {
  test(`a file that is ${name} is the same file`, (t) => {
    const { path, connection, files } = open(t, 'store-1');
    write(connection);
    change(path);
    files.verify();
    write(connection);
    files.checkpoint('PASSIVE');
    files.verify();
  });
}

const replace = (path: string): void => {
  copyFileSync(path, `${path}.other`);
  renameSync(`${path}.other`, path);
};
const losses: readonly (readonly [text: string, harm: (path: string) => void])[] = [
  ['store.db was removed', (path) => unlinkSync(path)],
  ['store.db was replaced by another file', replace],
  ['store.db was truncated', (path) => truncateSync(path)],
  ['store.db-wal was truncated', (path) => truncateSync(`${path}-wal`)],
];
for (const [text, harm] of losses) {
  test(`the loss is found: ${text}`, (t) => {
    const { path, connection, files } = open(t, 'store-1');
    write(connection);
    files.verify();
    harm(path);
    assert.throws(() => files.verify(), { code: 'FILE_LOST', message: `${text} while lineside was running` });
  });
}

/** The content that is copied over the file in its place. */
const harmful: Record<string, (t: TestContext, own: ReturnType<typeof open>) => Buffer> = {
  'the database of another store': (t) => {
    const { path, connection, files } = open(t, 'store-2');
    for (let n = 0; n < 20; n += 1) write(connection);
    files.checkpoint('TRUNCATE');
    return readFileSync(path);
  },
  'an earlier copy of itself': (_, { path, connection, files }) => {
    const earlier = readFileSync(path);
    write(connection);
    files.checkpoint('TRUNCATE');
    return Buffer.concat([earlier, Buffer.alloc(64 * 1024)]);
  },
};

for (const [name, contentOf] of Object.entries(harmful)) {
  test(`a file that is overwritten by ${name} is lost, and nothing more is written into it`, (t) => {
    const own = open(t, 'store-1');
    const { path, connection, files } = own;
    write(connection);
    const content = contentOf(t, own);
    write(connection);
    files.verify();
    writeFileSync(path, content);
    const lost = { code: 'FILE_LOST', message: /store\.db was overwritten/ };
    assert.throws(() => files.verify(), lost);
    assert.throws(() => files.checkpoint('PASSIVE'), lost);
    files.close();
    assert.ok(readFileSync(path).equals(content));
  });
}
