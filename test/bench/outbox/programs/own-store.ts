/** The hub's store and rules in this process, on a file of its own. */
import { join } from 'node:path';
import { hubMigrations } from '../../../../src/hub/migrations.ts';
import { type ChangeStore, openChangeStore } from '../../../../src/hub/outbox/change-store.ts';
import { scopes } from '../../../../src/hub/outbox/event.ts';
import { openRefdataFile, refdataFileName } from '../../../../src/hub/outbox/refdata-file.ts';
import type { Actor } from '../../../../src/hub/refdata/face.ts';
import { openRefdata, type Refdata } from '../../../../src/hub/refdata/refdata.ts';
import { systemClock } from '../../../../src/shared/base/clock.ts';
import { silentLogger } from '../../../../src/shared/base/logger.ts';
import type { Connection } from '../../../../src/shared/storage/open.ts';

const [clock, logger] = [systemClock, silentLogger];
const MAX_BYTES = 8 * 1024 * 1024 * 1024;
const MAX_IMPORT_BYTES = 64 * 1024 * 1024;

export const actor: Actor = { name: 'local', scopes };

export interface OwnStore {
  readonly store: ChangeStore;
  readonly refdata: Refdata;
  close(): Promise<void>;
}

export function storeOn(connection: Connection, dir: string): ChangeStore {
  return openChangeStore({ connection, dir, maxBytes: MAX_BYTES, minFreeBytes: 0, clock, logger });
}

export function openOwnStore(dir: string): OwnStore {
  const { connection } = openRefdataFile(dir, hubMigrations);
  const store = storeOn(connection, dir);
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
