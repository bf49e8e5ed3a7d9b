import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import Database from 'better-sqlite3';
import { LinesideError } from '../base/errors.ts';
import { temporaryDirectory } from '../base/temporary.fixture.ts';
import { type Migrations, openDatabase, openReadOnly, quickCheck } from './open.ts';

function pathFor(t: TestContext): string {
  return join(temporaryDirectory(t), 'x.db');
}

const options = { pageSize: 1024, cacheKib: 256, walLimitBytes: 1 << 20 };
const one = 'CREATE TABLE a (x)';

test('page size, WAL and FULL hold, also when opened again', (t) => {
  const path = pathFor(t);
  for (const migrations of [[one], [one, 'CREATE TABLE b (y)']]) {
    const connection = openDatabase({ ...options, path, migrations });
    const pragma = (name: string): unknown => connection.pragma(name, { simple: true });
    assert.deepEqual([pragma('page_size'), pragma('journal_mode'), pragma('synchronous')], [1024, 'wal', 2]);
    assert.equal(pragma('user_version'), migrations.length);
    connection.close();
  }
  const reader = openReadOnly(path);
  assert.equal(quickCheck(reader), '');
  reader.close();
});

test('a migration that fails leaves the version as it was', (t) => {
  const path = pathFor(t);
  openDatabase({ ...options, path, migrations: [one] }).close();
  assert.throws(() => openDatabase({ ...options, path, migrations: [one, 'CREATE TABLE b (y)', 'no SQL'] }), /syntax/);
  openDatabase({ ...options, path, migrations: [one, 'CREATE TABLE b (y)'] }).close();
});

const shuts = { sql: 'ALTER TABLE a RENAME COLUMN x TO z', breaksOlder: true } as const;
const more = 'CREATE TABLE c (w)';

/** What a program with these migrations makes of the file: its version afterwards, or the refusal. */
function openedWith(path: string, migrations: Migrations): unknown {
  try {
    const connection = openDatabase({ ...options, path, migrations });
    const version = connection.pragma('user_version', { simple: true });
    connection.close();
    return version;
  } catch (error) {
    return error instanceof LinesideError ? error.message.replace(/^.* has/, 'has') : error;
  }
}

const known = {
  first: [one],
  second: [one, more],
  third: [one, more, shuts],
  fourth: [one, more, shuts, 'CREATE TABLE d (v)'],
};

for (const { made, opened, gives } of [
  { made: 'second', opened: 'first', gives: 2 },
  { made: 'third', opened: 'second', gives: 'has schema version 3, this program knows 2' },
  { made: 'fourth', opened: 'third', gives: 4 },
  { made: 'fourth', opened: 'second', gives: 'has schema version 4, this program knows 2' },
  { made: 'fourth', opened: 'first', gives: 'has schema version 4, this program knows 1' },
] as const) {
  test(`a file that the ${made} program made, opened by the ${opened}: ${typeof gives === 'number' ? 'continues' : gives}`, (t) => {
    const path = pathFor(t);
    openedWith(path, known[made]);
    assert.equal(openedWith(path, known[opened]), gives);
    assert.equal(openedWith(path, known[made]), known[made].length, 'the newer program continues with it');
  });
}

test('brought up step by step, a file shuts out the same programs as one that was made at once', (t) => {
  const path = pathFor(t);
  for (const migrations of [known.first, known.second, known.third, known.fourth]) openedWith(path, migrations);
  assert.equal(openedWith(path, known.second), 'has schema version 4, this program knows 2');
  assert.equal(openedWith(path, known.third), 4);
});

test('a file from before files said who may read them is opened by its own program, and by none before it', (t) => {
  const path = pathFor(t);
  const old = new Database(path);
  old.exec(`${one}; ${more}; PRAGMA user_version = 2`);
  old.close();
  assert.equal(openedWith(path, known.second), 2);
  assert.equal(openedWith(path, known.first), 'has schema version 2, this program knows 1');
  assert.equal(openedWith(path, known.third), 3);
});
