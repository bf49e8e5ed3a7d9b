/**
 * The reference data of one refdata.db: dictionaries, drafts, records and imports. Every write resolves when it is committed,
 * together with its outbox row. Errors are LinesideErrors: INVALID_ARGUMENT with every reason at once, NOT_FOUND, CONFLICT,
 * STALE_VERSION, VERSION_REQUIRED, PERMISSION_DENIED (a scope the actor may not see), and those of ChangeStore.commit.
 */
import type { ChangeStore } from '../outbox/change-store.ts';
import { Dictionaries, dictionaryOf } from './dictionaries.ts';
import { Drafts } from './drafts.ts';
import { type ImportOptions, Imports } from './import.ts';
import { LineCommands } from './line-commands.ts';
import { Records } from './records.ts';

export type Refdata = ReturnType<typeof openRefdata>;

/** close() aborts the running import, and does not close the store. */
export function openRefdata(options: ImportOptions) {
  const { store } = options;
  const dictionaries = new Dictionaries(store);
  const drafts = new Drafts(store, dictionaries);
  const records = new Records(store, dictionaries);
  const imports = new Imports(options);
  const commands = new LineCommands(store);
  return {
    createDictionary: dictionaries.create.bind(dictionaries),
    dictionaries: reader(store, dictionaries.page.bind(dictionaries)),
    dictionary: reader(store, (...call: Parameters<Dictionaries['whole']>) =>
      dictionaryOf(dictionaries.whole(...call)),
    ),
    updateDictionary: dictionaries.update.bind(dictionaries),
    createDraft: drafts.create.bind(drafts),
    drafts: reader(store, drafts.page.bind(drafts)),
    draft: reader(store, drafts.one.bind(drafts)),
    stepDraft: drafts.step.bind(drafts),
    createRecord: records.create.bind(records),
    updateRecord: records.update.bind(records),
    closeRecord: records.close.bind(records),
    record: reader(store, records.one.bind(records)),
    records: reader(store, records.page.bind(records)),
    history: reader(store, records.history.bind(records)),
    bulkClose: records.bulkClose.bind(records),
    lineCommands: reader(store, commands.list.bind(commands)),
    saveLineCommands: commands.replace.bind(commands),
    importBundle: imports.run.bind(imports),
    assertImportAlive: imports.assertAlive.bind(imports),
    close: imports.close.bind(imports),
  };
}

function reader<A extends readonly unknown[], T>(store: ChangeStore, read: (...call: A) => T): (...call: A) => T {
  return (...call) => store.read(() => read(...call));
}
