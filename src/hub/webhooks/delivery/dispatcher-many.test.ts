/** The dispatcher before a long backlog: what it reads, and how SQLite finds it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '../../../shared/base/logger.ts';
import type { Connection } from '../../../shared/storage/open.ts';
import { BodySource } from './body-source.ts';
import { DeliveryRows } from './delivery-rows.ts';
import {
  accepted,
  dispatcherRig,
  type Rig,
  rowsIn,
  scheduleS,
  settled,
  silent,
  subscribe,
} from './dispatcher.fixture.ts';
import { Dispatcher } from './dispatcher.ts';

/** Deliveries that statements made from now on bring into memory, and the texts of those. */
function watched(connection: Connection): { deliveries: number; readonly texts: string[] } {
  const seen = { deliveries: 0, texts: [] as string[] };
  const prepare = connection.prepare.bind(connection);
  connection.prepare = ((sql: string) => {
    const statement = prepare(sql);
    seen.texts.push(sql);
    if (!sql.startsWith('SELECT id, nonce')) return statement;
    const all = statement.all.bind(statement);
    statement.all = (...values: unknown[]) => {
      const rows = all(...values);
      seen.deliveries += rows.length;
      return rows;
    };
    for (const other of ['get', 'iterate'] as const)
      statement[other] = () => assert.fail('deliveries are read a few at a time');
    return statement;
  }) as typeof prepare;
  return seen;
}

async function backlog(rig: Rig, count: number): Promise<void> {
  await rig.store.maintain(() =>
    rig.store.connection
      .prepare(
        `WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)
         INSERT INTO webhook_deliveries (nonce, subscription_id, form_id, first_event, last_event, events, occurred_at, state,
           attempts, attempts_before, due_run_ms)
         SELECT n, 1 + n % 2, 1 + n % 2, 1, 1, 1, '', 'pending', 0, 0, 0 FROM n`,
      )
      .run(count),
  );
}

test('of 200,000 that wait it reads those that it sends, and at most 16 ahead of each subscription', async (t) => {
  const rig = await dispatcherRig(t);
  for (const id of [1, 2]) await subscribe(rig, id);
  await backlog(rig, 200_000);
  const seen = watched(rig.store.connection);
  const dispatcher = new Dispatcher({
    ...rig,
    bodies: new BodySource(rig.store.connection),
    scheduleS,
    online: () => true,
    remotes: { all: () => [], probe: async () => undefined },
    logger: silentLogger,
  });
  rig.sender.answer = ({ subscriptionId }) => (subscriptionId === 1 ? silent : accepted);
  dispatcher.start();
  await settled();
  assert.equal(dispatcher.status().waiting, 200_000);
  assert.equal(seen.deliveries, 2 * 16);
  await rig.clock.pass(10_000);
  assert.ok(rig.sender.calls.length > 1_000, `${rig.sender.calls.length}`);
  const ahead = seen.deliveries - rig.sender.calls.length;
  assert.ok(ahead >= 0 && ahead < 2 * 16, `${ahead}`);
  await dispatcher.stop();
  const { waiting, deliveredTotal } = dispatcher.status();
  assert.equal(waiting + deliveredTotal, 200_000);
  assert.equal(rowsIn(rig).filter(({ state }) => state === 'delivered').length, deliveredTotal);
});

test('what waits is found by the index alone, in its order', async (t) => {
  const rig = await dispatcherRig(t);
  const { connection } = rig.store;
  const { texts } = watched(connection);
  assert.notEqual(new DeliveryRows(connection), undefined);
  const plans = texts
    .filter((sql) => sql.startsWith('SELECT') && sql.includes('FROM webhook_deliveries'))
    .map((sql) => {
      const values = Array.from({ length: sql.split('?').length - 1 }, () => '[]');
      const rows = connection.prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${sql}`).all(...values);
      return rows.map(({ detail }) => detail).filter((detail) => /webhook_deliveries|TEMP/.test(detail));
    });
  assert.equal(plans.length, 6);
  for (const details of plans) {
    assert.equal(details.length, 1, details.join('; '));
    assert.match(details[0] ?? '', /SEARCH webhook_deliveries USING (COVERING )?INDEX webhook_(due|review) \(/);
  }
});
