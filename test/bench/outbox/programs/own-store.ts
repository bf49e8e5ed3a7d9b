/** The hub's store and rules in this process, on a file of its own. */
import { join } from 'node:path';
import { systemClock } from '../../../../src/base/clock.ts';
import { silentLogger } from '../../../../src/base/logger.ts';
import { hubMigrations } from '../../../../src/hub-migrations.ts';
import { type ChangeStore, openChangeStore } from '../../../../src/outbox/change-store.ts';
import { scopes } from '../../../../src/outbox/event.ts';
import { openRefdataFile, refdataFileName } from '../../../../src/outbox/open-file.ts';
import type { Actor, Refdata } from '../../../../src/refdata/face.ts';
import { openRefdata } from '../../../../src/refdata/refdata.ts';

const MAX_BYTES = 8 * 1024 * 1024 * 1024;
const MAX_IMPORT_BYTES = 64 * 1024 * 1024;

export const actor: Actor = { name: 'local', scopes };

export interface OwnStore {
  readonly store: ChangeStore;
  readonly refdata: Refdata;
  close(): Promise<void>;
}

export function openOwnStore(dir: string): OwnStore {
  const [clock, logger] = [systemClock, silentLogger];
  const { connection } = openRefdataFile(dir, hubMigrations);
  const store = openChangeStore({ connection, dir, maxBytes: MAX_BYTES, minFreeBytes: 0, clock, logger });
  const path = join(dir, refdataFileName);
  const refdata = openRefdata({ store, path, maxBytes: MAX_BYTES, maxImportBytes: MAX_IMPORT_BYTES, clock, logger });
  return {
    store,
    refdata,
    async close() {
      await refdata.close();
      await store.close();
    },
  };
}
