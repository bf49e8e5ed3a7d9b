/** Whether an import that hangs is seen to. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Database from 'better-sqlite3';
import { everyone, temporaryRefdata } from './refdata.fixture.ts';

/** What a run may take, and what ending it may. */
const limitMs = 140_000;

/** A bundle of blank lines that is not small any more: it has a worker. */
const large = Buffer.alloc(16 * 1024 + 1, '\n');

test('no import, and one whose body comes slowly, are well: its worker answers', async (t) => {
  const { refdata } = temporaryRefdata(t);
  await refdata.assertImportAlive();
  const rest = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const body = async function* (): AsyncGenerator<Uint8Array> {
    yield large;
    begun.resolve();
    await rest.promise;
  };
  const imported = refdata.importBundle(everyone, 'ndjson', '', body());
  await begun.promise;
  await refdata.assertImportAlive();
  rest.resolve();
  assert.equal((await imported).created, 0);
});

test('one that keeps all changes waiting for longer than it may is told, and no more when it is over', async (t) => {
  const { refdata, store, path, clock } = temporaryRefdata(t);
  const other = new Database(path);
  t.after(() => other.close());
  // The worker cannot begin: it hangs in SQLite as it would in a disk.
  other.exec('BEGIN IMMEDIATE');
  const holds = Promise.withResolvers<void>();
  const hold = store.hold.bind(store);
  t.mock.method(store, 'hold', (work: () => Promise<unknown>) => {
    const held = hold(work);
    holds.resolve();
    return held;
  });
  const body = async function* (): AsyncGenerator<Uint8Array> {
    yield large;
  };
  const imported = assert.rejects(refdata.importBundle(everyone, 'ndjson', '', body()), { code: 'TOO_LARGE' });
  await holds.promise;
  await refdata.assertImportAlive();
  clock.advance(limitMs + 1_000);
  await assert.rejects(refdata.assertImportAlive(), /it has kept all changes waiting for 141 s/);
  other.exec('ROLLBACK');
  await imported;
  await refdata.assertImportAlive();
});
