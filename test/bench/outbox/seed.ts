/** A refdata.db as changes would have left it, made in one transaction. */
import { hubMigrations } from '../../../src/hub/migrations.ts';
import { type WholeRecordEvent, withVersion } from '../../../src/hub/outbox/event.fixture.ts';
import { openRefdataFile } from '../../../src/hub/outbox/refdata-file.ts';
import { beginProgress, Transactions } from '../../../src/hub/outbox/transaction.ts';
import { systemClock } from '../../../src/shared/base/clock.ts';
import type { Connection } from '../../../src/shared/storage/open.ts';
import { eventAt, instantOf } from './samples.ts';

/** The connection stays open. */
export function filledFile(dir: string, fill: (connection: Connection) => void): Connection {
  const { connection } = openRefdataFile(dir, hubMigrations);
  connection.transaction(() => {
    beginProgress(connection);
    fill(connection);
  })();
  return connection;
}

/** Row n is of key n modulo `keys`; `differing`: what else its event says. */
export function insertEvents(
  connection: Connection,
  rows: number,
  keys = rows,
  differing: (n: number) => Partial<WholeRecordEvent> = () => ({}),
): void {
  const outbox = new Transactions(connection, systemClock);
  for (let n = 0; n < rows; n++) {
    const { event, stamp } = eventAt(n, keys);
    outbox.insert(n + 1, withVersion(connection, { ...event, ...differing(n) }, stamp), stamp);
  }
  outbox.sql.advance.run(instantOf(rows), rows);
}

export function seedWaiting(dir: string, rows: number, keys: number): void {
  filledFile(dir, (connection) => insertEvents(connection, rows, keys)).close();
}
