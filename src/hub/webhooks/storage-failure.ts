/** Reading refdata.db: SQLite's failures as the callers know them, and damage reported. */
import { LinesideError } from '../../shared/base/errors.ts';
import type { ChangeStore } from '../outbox/change-store.ts';
import { storageError } from '../outbox/storage-errors.ts';

export function readable<T>(store: ChangeStore, work: () => T): T {
  try {
    return work();
  } catch (thrown) {
    throw storeFailure(store, thrown);
  }
}

/** What was thrown, as storageError has it. */
export function storeFailure(store: ChangeStore, thrown: unknown): unknown {
  const error = storageError(thrown);
  if (error instanceof LinesideError && error.code === 'STORAGE_DAMAGED') store.reportDamage(error.message);
  return error;
}
