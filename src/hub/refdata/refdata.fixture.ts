/** Reference data on a real refdata.db for tests. */
import type { TestContext } from 'node:test';
import { silentLogger } from '../../shared/base/logger.ts';
import { type TemporaryStore, temporaryStore } from '../outbox/change-store.fixture.ts';
import { type ChangeStoreOptions } from '../outbox/change-store.ts';
import type { JsonObject } from '../outbox/event.ts';
import type { Actor } from './face.ts';
import { openRefdata, type Refdata } from './refdata.ts';

export const everyone: Actor = { name: 'olga', scopes: ['PUBLIC'] };
export const insider: Actor = { name: 'ivan', scopes: ['PUBLIC', 'INTERNAL'] };
export const trusted: Actor = { name: 'tess', scopes: ['PUBLIC', 'INTERNAL', 'RESTRICTED'] };

export interface TemporaryRefdata extends TemporaryStore {
  readonly refdata: Refdata;
}

export function temporaryRefdata(
  t: TestContext,
  changes: Partial<ChangeStoreOptions> & { readonly maxImportBytes?: number } = {},
): TemporaryRefdata {
  const { maxImportBytes = 64 * 1024 * 1024, ...ofStore } = changes;
  const temporary = temporaryStore(t, ofStore);
  const refdata = openRefdata({
    store: temporary.store,
    path: temporary.path,
    maxBytes: ofStore.maxBytes ?? 1024 * 1024 * 1024,
    maxImportBytes,
    clock: temporary.clock,
    logger: silentLogger,
  });
  t.after(() => refdata.close());
  return { ...temporary, refdata };
}

export const tools = { name: 'tools', title: 'Tools', scope: 'PUBLIC' } as const;
/** The largest page, from the beginning. */
export const whole = { limit: 1_000, cursor: undefined };

/** With the dictionary `tools`. */
export async function withTools(...given: Parameters<typeof temporaryRefdata>): Promise<TemporaryRefdata> {
  const at = temporaryRefdata(...given);
  await at.refdata.createDictionary(everyone, tools, '');
  return at;
}

export interface OutboxRow {
  readonly id: number;
  readonly scope: string;
  readonly dictionary: string;
  readonly businessKey: string;
  readonly action: string;
  readonly body: JsonObject;
}

export function outboxRows({ store }: TemporaryStore): readonly OutboxRow[] {
  const rows = store.connection
    .prepare<[], Omit<OutboxRow, 'body'> & { body: string }>(
      'SELECT id, scope, dictionary, business_key AS businessKey, action, body FROM outbox ORDER BY id',
    )
    .all();
  return rows.map((row) => ({ ...row, body: JSON.parse(row.body) as JsonObject }));
}

export function auditActions({ store }: TemporaryStore): readonly unknown[] {
  return store.connection.prepare('SELECT action FROM audit ORDER BY id').pluck().all();
}
