/** A refdata.db with rows that wait, as changes would have left them; made in one transaction. */
import { hubMigrations } from '../../../src/hub/migrations.ts';
import { openRefdataFile } from '../../../src/hub/outbox/refdata-file.ts';
import { beginProgress, OutboxRows } from '../../../src/hub/outbox/transaction.ts';
import { eventAt, instantOf } from './samples.ts';

/** Row n is of key n modulo `keys`. */
export function seedWaiting(dir: string, rows: number, keys: number): void {
  const { connection } = openRefdataFile(dir, hubMigrations);
  const outbox = new OutboxRows(connection);
  connection.transaction(() => {
    beginProgress(connection);
    for (let n = 0; n < rows; n++) {
      const { event, stamp } = eventAt(n, keys);
      outbox.insert(n + 1, event, stamp);
    }
    outbox.advance(instantOf(rows), rows);
  })();
  connection.close();
}
