/** The elements of events in deliveries, as they are read of a real refdata.db. */
import { after } from 'node:test';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { temporaryDirectory } from '../../../shared/base/temporary.fixture.ts';
import { hubMigrations } from '../../migrations.ts';
import { type WholeEvent, withVersion } from '../../outbox/event.fixture.ts';
import type { Stamp } from '../../outbox/event.ts';
import { openRefdataFile } from '../../outbox/refdata-file.ts';
import { Transactions } from '../../outbox/transaction.ts';
import { DeliveryRows } from './delivery-rows.ts';

const { connection } = openRefdataFile(temporaryDirectory({ after }), hubMigrations);
after(() => connection.close());
const outbox = new Transactions(connection, new FakeClock());
const rows = new DeliveryRows(connection);
const store = connection.prepare<[string, number]>('UPDATE outbox_events SET version_id = NULL, body = ? WHERE id = ?');
let written = 0;

interface Read {
  /** undefined: the event is damaged. */
  readonly element: string | undefined;
  /** What the planner reckons with. */
  readonly bytes: number;
}

/** `text`: what an older program stored, which stored events whole. */
export function readElement(event: WholeEvent, stamp: Stamp, text?: string): Read {
  const id = ++written;
  outbox.run(() => {
    outbox.insert(id, event.kind === 'record' ? withVersion(connection, event, stamp) : event, stamp);
    if (text !== undefined) store.run(text, id);
  });
  return { element: rows.element(id), bytes: rows.sql.heads.get(id - 1, 1)?.bytes ?? 0 };
}
