/**
 * A store that goes on from an earlier state numbers new events as it numbered others before: under the old name, receivers
 * that drop what they have seen would drop new events. Under a new one they get again what was waiting when it was kept.
 */
import { randomUUID } from 'node:crypto';
import type { Connection } from '../../shared/storage/open.ts';

export function renewStoreId(connection: Connection): void {
  connection.prepare('UPDATE progress SET store_id = ?').run(randomUUID());
}
