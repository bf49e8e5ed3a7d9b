/** What planning and rendering read: it grows with the events, not with the subscriptions. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { recordEvent } from '../../outbox/change-store.fixture.ts';
import { filterOf } from '../subscriptions/filter.ts';
import type { Subscription } from '../subscriptions/subscription.ts';
import { BodySource } from './body-source.ts';
import { deliveriesIn, emit, plannerOn, plannerRig } from './planner.fixture.ts';
import { Recipients } from './planning.ts';
import { countReads, type Reads } from './stored.fixture.ts';

async function readsOf(
  t: TestContext,
  subscriptions: number,
): Promise<Omit<Reads, 'prepared'> & { readonly deliveries: number }> {
  const { store, cache, clock } = plannerRig(t);
  for (let id = 1; id <= subscriptions; id++)
    await cache.put(store, id, { dictionaries: ['tools', `of ${id}`], scopes: ['PUBLIC'] });
  await emit(store, ...Array.from({ length: 4_400 }, (_, n) => recordEvent(`k${n}`, 1, { dictionary: `d${n % 7}` })));
  await emit(store, recordEvent('k'));
  const reads = countReads(store.connection);
  await plannerOn(store, cache, clock).caughtUp();
  const { rows, statements } = reads;
  return { rows, statements, deliveries: deliveriesIn(store).length };
}

test('a hundred subscriptions read the events once, as one does, and each only looks for its form', async (t) => {
  const one = await readsOf(t, 1);
  const hundred = await readsOf(t, 100);
  assert.deepEqual([one.deliveries, hundred.deliveries], [1, 100]);
  assert.deepEqual(
    { rows: hundred.rows - one.rows, statements: hundred.statements - one.statements },
    { rows: 99, statements: 99 },
  );
  // The heads themselves, and a few for the cursor and the newest event.
  assert.ok(one.rows >= 4_401 && one.rows < 4_420, `${one.rows} rows`);
  assert.ok(one.statements < 20, `${one.statements} statements`);
});

test('of a large transaction that is mostly for others, rendering has only its own events answered', async (t) => {
  const { store, cache, planner } = plannerRig(t);
  await cache.put(store, 1, { dictionaries: ['parts'] });
  await cache.put(store, 2, { actions: ['closed'], categories: ['dict.record.*'] });
  const events = Array.from({ length: 3_000 }, (_, n) =>
    recordEvent(`k${n}`, 2, n % 1_000 === 1 ? { dictionary: 'parts', action: 'closed' } : {}),
  );
  await emit(store, ...events);
  await planner.caughtUp();
  const deliveries = deliveriesIn(store);
  const reads = countReads(store.connection);
  const bodies = new BodySource(store.connection);
  for (const delivery of deliveries) {
    assert.equal(delivery.events, 3);
    assert.ok('body' in bodies.bodyOf(delivery));
  }
  // Each: its form, its row, the heads and the texts of its events.
  assert.deepEqual([reads.rows, reads.statements], [2 * (2 + 3 + 3), 2 * (2 + 1 + 3)]);
});

test('a filter is asked once for each kind of event, and what is remembered of kinds is bounded', () => {
  let asked = 0;
  const takes = filterOf({ scopes: ['PUBLIC'], dictionaries: ['d1', 'd12000'], actions: null, categories: null });
  const recipients = new Recipients([
    {
      subscription: {} as Subscription,
      scopes: ['PUBLIC'],
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
