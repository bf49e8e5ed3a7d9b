/** The reference data: dictionaries, drafts and records of one refdata.db, behind the face of this room. */
import { LinesideError } from '../../shared/base/errors.ts';
import type { ChangeStore } from '../outbox/change-store.ts';
import { storageError } from '../outbox/storage-errors.ts';
import { Dictionaries } from './dictionaries.ts';
import { dictionaryOf } from './dictionary-rows.ts';
import { Drafts } from './drafts.ts';
import type { Refdata } from './face.ts';
import { type ImportOptions, Imports } from './import.ts';
import { RecordReads } from './record-reads.ts';
import { Records } from './records.ts';

/** The reference data as its owner has it. */
export interface OwnedRefdata extends Refdata {
  /** Resolves while no import hangs. */
  assertImportAlive(): Promise<void>;
}

/** The store stays its owner's: close() ends the import that runs, and closes no file. */
export function openRefdata(options: ImportOptions): OwnedRefdata {
  const { store } = options;
  const dictionaries = new Dictionaries(store);
  const drafts = new Drafts(store, dictionaries);
  const records = new Records(store, dictionaries);
  const reads = new RecordReads(store, dictionaries);
  const imports = new Imports(options);
  return {
    createDictionary: (...call) => dictionaries.create(...call),
    dictionaries: (...call) => reading(store, () => dictionaries.page(...call)),
    dictionary: (...call) => reading(store, () => dictionaryOf(dictionaries.whole(...call))),
    updateDictionary: (...call) => dictionaries.update(...call),
    createDraft: (...call) => drafts.create(...call),
    drafts: (...call) => reading(store, () => drafts.page(...call)),
    draft: (...call) => reading(store, () => drafts.one(...call)),
    stepDraft: (...call) => drafts.step(...call),
    createRecord: (...call) => records.create(...call),
    updateRecord: (...call) => records.update(...call),
    closeRecord: (...call) => records.close(...call),
    record: (...call) => reading(store, () => reads.one(...call)),
    records: (...call) => reading(store, () => reads.page(...call)),
    history: (...call) => reading(store, () => reads.history(...call)),
    bulkClose: (...call) => records.bulkClose(...call),
    importBundle: (...call) => imports.run(...call),
    assertImportAlive: () => imports.assertAlive(),
    close: () => imports.close(),
  };
}

/** A read is no transaction of the store's: SQLite's failures are reported here as they are there. */
function reading<T>(store: ChangeStore, read: () => T): T {
  try {
    return read();
  } catch (thrown) {
    const error = storageError(thrown);
    if (error instanceof LinesideError && error.code === 'STORAGE_DAMAGED') store.reportDamage(error.message);
    throw error;
  }
}
