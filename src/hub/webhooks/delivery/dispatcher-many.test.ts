/** The dispatcher before a long backlog: what it reads, and how SQLite finds it. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../shared/base/fake-clock.fixture.ts';

import { silentLogger } from '../../../shared/base/logger.ts';
import { BodySource } from './body-source.ts';
import { DeliveryRows } from './delivery-rows.ts';
import { accepted, dispatcherRig, rowsIn, scheduleS, silent, subscribe } from './dispatcher.fixture.ts';
import { Dispatcher } from './dispatcher.ts';
import { countReads, put } from './stored.fixture.ts';

test('of 200,000 that wait it reads those that it sends, and at most 16 ahead of each subscription', async (t) => {
  const rig = await dispatcherRig(t);
  for (const id of [1, 2]) await subscribe(rig, id);
  for (const id of [1, 2]) {
    put(rig.store.connection, { subscription: id, template: id, state: 'pending', attempts: 0, count: 100_000 });
  }
  const seen = countReads(rig.store.connection, 'SELECT id, nonce');
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
  assert.equal(seen.rows, 2 * 16);
  await rig.clock.pass(10_000);
  assert.ok(rig.sender.calls.length > 1_000, `${rig.sender.calls.length}`);
  const ahead = seen.rows - rig.sender.calls.length;
  assert.ok(ahead >= 0 && ahead < 2 * 16, `${ahead}`);
  await dispatcher.stop();
  const { waiting, deliveredTotal } = dispatcher.status();
  assert.equal(waiting + deliveredTotal, 200_000);
  assert.equal(rowsIn(rig).filter(({ state }) => state === 'delivered').length, deliveredTotal);
});

test('what waits is found by the index alone, in its order', async (t) => {
  const rig = await dispatcherRig(t);
  const { connection } = rig.store;
  const { prepared } = countReads(connection);
  assert.notEqual(new DeliveryRows(connection), undefined);
  const plans = prepared
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
