/** What planning and dispatching read: it grows with what is sent, not with what there is. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { settled } from '../../../shared/base/fake-clock.fixture.ts';
import { silentLogger } from '../../../shared/base/logger.ts';
import { recordEvent } from '../../outbox/event.fixture.ts';
import { filterOf, type Subscription } from '../subscriptions/subscription.ts';
import { DeliveryRows } from './delivery-rows.ts';
import { accepted, dispatcherRig, rowsIn, scheduleS, silent, subscribe } from './dispatcher.fixture.ts';
import { Dispatcher } from './dispatcher.ts';
import { deliveriesIn, emit, plannerOn, plannerRig } from './planner.fixture.ts';
import { recipientsOf } from './planning.ts';
import { countReads, put, type Reads } from './stored.fixture.ts';

async function readsOf(
  t: TestContext,
  subscriptions: number,
): Promise<Omit<Reads, 'prepared'> & { readonly deliveries: number }> {
  const { store, cache, clock } = plannerRig(t);
  for (let id = 1; id <= subscriptions; id++)
    cache.put(id, { dictionaries: ['tools', `of ${id}`], scopes: ['PUBLIC'] });
  await emit(store, ...Array.from({ length: 4_400 }, (_, n) => recordEvent(`k${n}`, 1, { dictionary: `d${n % 7}` })));
  await emit(store, recordEvent('k'));
  const reads = countReads(store.connection);
  await plannerOn(store, cache, clock).caughtUp();
  const { rows, statements } = reads;
  return { rows, statements, deliveries: deliveriesIn(store).length };
}

test('a hundred subscriptions read the events once, as one does', async (t) => {
  const one = await readsOf(t, 1);
  const hundred = await readsOf(t, 100);
  assert.deepEqual([one.deliveries, hundred.deliveries], [1, 100]);
  assert.deepEqual({ ...hundred, deliveries: 1 }, one);
  // The heads themselves, the text of the one event, and a few for the cursor and the newest event.
  assert.ok(one.rows >= 4_402 && one.rows < 4_420, `${one.rows} rows`);
  assert.ok(one.statements < 20, `${one.statements} statements`);
});

test('a filter is asked once for each kind of event, and what is remembered of kinds is bounded', () => {
  let asked = 0;
  const takes = filterOf({ scopes: ['PUBLIC'], dictionaries: ['d1', 'd12000'], actions: null, categories: null });
  const recipients = recipientsOf([
    {
      subscription: {} as Subscription,
      takes: (kind: Parameters<typeof takes>[0]) => {
        asked += 1;
        return takes(kind);
      },
    },
  ]);
  const kind = (dictionary: string) =>
    ({ scope: 'PUBLIC', dictionary, category: 'dict.record.*', action: 'created' }) as const;
  for (let n = 0; n < 1_000; n++) assert.equal(recipients.of(kind(`d${n % 2}`)).length, n % 2);
  assert.equal(asked, 2);
  for (let n = 0; n < 15_000; n++) assert.equal(recipients.of(kind(`d${n}`)).length, n === 1 || n === 12_000 ? 1 : 0);
  assert.equal(asked, 15_000);
  recipients.of(kind('d3'));
  assert.equal(asked, 15_001);
});

test('it reads only the deliveries that it sends, of 200,000 that wait, and at most 16 ahead of each subscription', async (t) => {
  const rig = await dispatcherRig(t);
  for (const id of [1, 2]) await subscribe(rig, id);
  for (const id of [1, 2]) {
    put(rig.store.connection, { subscription: id, state: 'pending', attempts: 0, count: 100_000 });
  }
  const seen = countReads(rig.store.connection, 'SELECT d.id, coalesce');
  const dispatcher = new Dispatcher({
    ...rig,
    rows: new DeliveryRows(rig.store.connection),
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

test('waiting deliveries are found by their indexes alone, in the order of these', async (t) => {
  const rig = await dispatcherRig(t);
  const { connection } = rig.store;
  const { prepared } = countReads(connection);
  assert.notEqual(new DeliveryRows(connection), undefined);
  const named = { subscriptionId: 1, except: '[]', after: 0, limit: 1 };
  const plans = prepared
    .filter((sql) => sql.startsWith('SELECT') && sql.includes('FROM webhook_deliveries') && !sql.includes('max(id)'))
    .map((sql) => {
      const values = Array.from({ length: sql.split('?').length - 1 }, () => '[]');
      const plan = connection.prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${sql}`);
      const rows = sql.includes('$') ? plan.all(named) : plan.all(...values);
      const details = rows.map(({ detail }) => detail);
      return { sql, details: details.filter((detail) => /webhook_deliveries|\bd\b|ORDER BY/.test(detail)) };
    });
  assert.equal(plans.length, 9);
  for (const { sql, details } of plans) {
    assert.equal(details.length, sql.includes('+ (SELECT') ? 2 : 1, details.join('; '));
    for (const detail of details) {
      assert.match(detail, /^(SEARCH|SCAN) (webhook_deliveries|d) USING (COVERING )?INDEX webhook_(new|again|review)/);
    }
  }
});
