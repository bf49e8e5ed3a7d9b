/** A real refdata.db in a directory of its own for the tests of the hub's rooms, with a clock that does not advance. */
import { closeSync, existsSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Clock } from '../../shared/base/clock.ts';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { silentLogger } from '../../shared/base/logger.ts';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';
import { openDatabase, openExisting } from '../../shared/storage/open.ts';
import { hubMigrations } from '../migrations.ts';
import { type ChangeStore, type ChangeStoreOptions, openChangeStore } from './change-store.ts';
import type { Author } from './event.ts';

export const author: Author = { changedBy: 'tester', changeReason: '' };

export interface TemporaryStore {
  readonly store: ChangeStore;
  readonly clock: FakeClock;
  readonly dir: string;
  readonly path: string;
}

/** Closed and removed at the end of the test. */
export function temporaryStore(t: TestContext, changes: Partial<ChangeStoreOptions> = {}): TemporaryStore {
  const dir = temporaryDirectory(t);
  const clock = new FakeClock();
  const store = openStoreIn(t, dir, { clock, ...changes });
  return { store, clock, dir, path: join(dir, 'refdata.db') };
}

const file = { pageSize: 1_024, cacheKib: 2_048, walLimitBytes: 4 * 1024 * 1024, migrations: hubMigrations };
let migrated: Buffer | undefined;

/** Made once in each process: the migrations of a new file take most of the time of opening it. */
function newFile(): Buffer {
  if (migrated !== undefined) return migrated;
  const connection = openDatabase({ ...file, path: ':memory:' });
  migrated = connection.serialize();
  connection.close();
  return migrated;
}

/** Also for opening the same directory again, after close(). */
export function openStoreIn(
  t: TestContext,
  dir: string,
  changes: Partial<ChangeStoreOptions> & { readonly clock: Clock },
): ChangeStore {
  const path = join(dir, 'refdata.db');
  if (!existsSync(path)) writeFileSync(path, newFile());
  const connection = openDatabase({ ...file, path });
  const store = openChangeStore({
    connection,
    dir,
    maxBytes: 1024 * 1024 * 1024,
    minFreeBytes: 0,
    logger: silentLogger,
    ...changes,
  });
  t.after(() => store.close());
  return store;
}

/** Nothing is written until the answer is called, as while an import holds the file; it resolves when writing resumes. */
export function holdStore(store: ChangeStore): () => Promise<void> {
  const end = Promise.withResolvers<void>();
  const held = store.hold(() => end.promise);
  return () => {
    end.resolve();
    return held;
  };
}

/** Overwrites the first leaf of a table in a closed file. */
export function breakPage(path: string, table: string): void {
  const connection = openExisting({ path, cacheKib: 64, walLimitBytes: 1_000_000 });
  const page = connection
    .prepare<[string], number>("SELECT min(pageno) FROM dbstat WHERE name = ? AND pagetype = 'leaf'")
    .pluck()
    .get(table);
  const pageSize = Number(connection.pragma('page_size', { simple: true }));
  connection.close();
  const file = openSync(path, 'r+');
  writeSync(file, Buffer.alloc(pageSize, 0xaa), 0, pageSize, ((page ?? 0) - 1) * pageSize);
  closeSync(file);
}
