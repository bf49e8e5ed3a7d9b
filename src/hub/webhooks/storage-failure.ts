/** Failures of reading refdata.db as LinesideErrors; damage is reported to the store. */
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

export function storeFailure(store: ChangeStore, thrown: unknown): unknown {
  const error = storageError(thrown);
  if (error instanceof LinesideError && error.code === 'STORAGE_DAMAGED') store.reportDamage(error.message);
  return error;
}
