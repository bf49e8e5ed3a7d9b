/** A log that goes on from an earlier state gives ids out again: readers have to know it as another log than before. */
import { randomUUID } from 'node:crypto';
import type { Connection } from '../../shared/storage/open.ts';
import { MetaTable } from './store-meta.ts';

/** Nothing to do in a log that was never opened for writing. */
export function renewLogIdentity(connection: Connection): void {
  const meta = new MetaTable(connection);
  if (meta.logId !== '') meta.logId = randomUUID();
}
