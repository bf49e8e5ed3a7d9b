import assert from 'node:assert/strict';
import { test } from 'node:test';
import { holdStore } from '../../outbox/change-store.fixture.ts';
import { count, countLooks, put } from '../delivery/stored.fixture.ts';
import type { ResendRange } from '../face.ts';
import { anna, auditOf, type ReviewRig, reviewRig } from './review.fixture.ts';

function pendingIn({ store }: ReviewRig): readonly number[] {
  return store.connection
    .prepare<[], number>("SELECT id FROM webhook_deliveries WHERE state = 'pending' ORDER BY id")
    .pluck()
    .all();
}

test('all faults of a range are reported at once, and nothing is sent', async (t) => {
  const rig = reviewRig(t);
  put(rig.store.connection, { state: 'failed' });
  const table: readonly [ResendRange, readonly string[]][] = [
    [
      { from: 'yesterday', to: '2026-02-30T00:00:00Z', states: ['pending', 'failed', 'x'] as never },
      [
        '/from must be an RFC 3339 date-time with an offset',
        '/to must be an RFC 3339 date-time with an offset',
        '/states/0 must be one of rejected, failed, delivered',
        '/states/2 must be one of rejected, failed, delivered',
      ],
    ],
    [
      { from: '2026-01-01T00:00:00', states: [] },
      ['/from must be an RFC 3339 date-time with an offset', '/states must not be empty'],
    ],
    [{ from: '2026-01-01T01:00:00+01:00', to: '2026-01-01T00:00:00Z' }, ['/to must be after /from']],
    [
      { from: '2026-01-01T00:00:01Z', to: '2026-01-01T00:00:00Z', states: [] },
      ['/states must not be empty', '/to must be after /from'],
    ],
  ];
  for (const [range, reasons] of table) {
    await assert.rejects(rig.review.resendAll(anna, '1', range, ''), { code: 'INVALID_ARGUMENT', reasons });
  }
  await assert.rejects(rig.review.resendAll(anna, '1', {}, 'x'.repeat(100_000)), { code: 'INVALID_ARGUMENT' });
  for (const unknown of ['3', '0', '', 'x', '1 ']) {
    await assert.rejects(rig.review.resendAll(anna, unknown, {}, ''), { code: 'NOT_FOUND' });
  }
  assert.deepEqual([pendingIn(rig), auditOf(rig)], [[], []]);
});

test('only those of the subscription, the states and the time are sent again: from its first moment, before its last', async (t) => {
  const rig = reviewRig(t);
  const { store, review } = rig;
  const days: readonly string[] = ['2026-01-01', '2026-01-02', '2026-01-03'].map((day) => `${day}T00:00:00+00:00`);
  const ids: Record<string, number> = {};
  for (const subscription of [1, 2]) {
    for (const state of ['rejected', 'failed', 'delivered', 'retrying'] as const) {
      for (const occurredAt of days) {
        const [id = 0] = put(store.connection, { subscription, state, occurredAt });
        ids[`${subscription} ${state} ${occurredAt.slice(8, 10)}`] = id;
      }
    }
  }
  const before = store.connection.prepare('SELECT * FROM webhook_deliveries').all();
  const table: readonly [ResendRange, readonly string[]][] = [
    [{}, ['1 rejected 01', '1 rejected 02', '1 rejected 03', '1 failed 01', '1 failed 02', '1 failed 03']],
    [{ from: '2026-01-02T00:00:00Z' }, ['1 rejected 02', '1 rejected 03', '1 failed 02', '1 failed 03']],
    [{ from: '2026-01-02T00:00:00.000001Z' }, ['1 rejected 03', '1 failed 03']],
    [{ to: '2026-01-02T00:00:00Z' }, ['1 rejected 01', '1 failed 01']],
    [{ from: '2026-01-02T01:00:00+01:00', to: '2026-01-02T17:00:00-07:00' }, ['1 rejected 02', '1 failed 02']],
    [{ states: ['delivered', 'delivered'] }, ['1 delivered 01', '1 delivered 02', '1 delivered 03']],
    [{ states: ['failed'], from: '2027-01-01T00:00:00Z' }, []],
  ];
  for (const [range, expected] of table) {
    const wanted = expected.map((key) => ids[key]);
    assert.deepEqual(await review.resendAll(anna, '1', range, ''), { deliveries: wanted.length });
    assert.deepEqual(pendingIn(rig), wanted, JSON.stringify(range));
    // As before, for the next row of the table.
    const undo = store.connection.prepare<[object]>(
      `UPDATE webhook_deliveries SET state = $state, attempts_before = $attempts_before, due_run_ms = $due_run_ms,
         ended_at = $ended_at, ended_run_ms = $ended_run_ms WHERE id = $id`,
    );
    for (const row of before) undo.run(row as object);
  }
  assert.equal(auditOf(rig).length, 6, 'one for each that found any');
  assert.deepEqual(auditOf(rig)[2]?.details, {
    subscription: 1,
    deliveries: 2,
    from: '2026-01-02T00:00:00.000001+00:00',
    to: null,
    states: ['rejected', 'failed'],
    changeReason: '',
  });
});

/** Calls back once in each turn of the loop until `work` has ended. */
async function watched<T>(work: Promise<T>, onTurn: () => void): Promise<T> {
  let isDone = false;
  const watch = (): void => {
    if (isDone) return;
    onTurn();
    setImmediate(watch);
  };
  setImmediate(watch);
  try {
    return await work;
  } finally {
    isDone = true;
  }
}

test('many are sent again in slices of 500, each with its audit, with the loop free between them', async (t) => {
  const rig = reviewRig(t);
  const { connection } = rig.store;
  const states = ['rejected', 'failed', 'delivered'] as const;
  for (const state of states) put(connection, { count: 700, state });
  const between: number[] = [];
  const asked = watched(rig.review.resendAll(anna, '1', { states }, ''), () => between.push(pendingIn(rig).length));
  assert.deepEqual(await asked, { deliveries: 2_100 });
  for (const pending of [500, 1_000, 1_500]) assert.ok(between.includes(pending), between.join(' '));
  assert.deepEqual(
    auditOf(rig).map(({ details }) => details.deliveries),
    [500, 500, 500, 500, 100],
  );
  assert.deepEqual(rig.notified, [1, 1, 1, 1, 1]);
});

test('among 200,000 deliveries those for review are found by their index, a few thousand rows a turn', async (t) => {
  const rig = reviewRig(t);
  const { connection } = rig.store;
  put(connection, { count: 200_000 });
  const mine = put(connection, { count: 1_400, state: 'failed' });
  put(connection, { count: 9_000, state: 'failed', subscription: 2 });
  const counted = countLooks(connection);
  let [most, sum] = [0, 0];
  await watched(rig.again().resendAll(anna, '1', {}, ''), () => {
    most = Math.max(most, counted.looks);
    sum += counted.looks;
    counted.looks = 0;
  });
  assert.deepEqual(pendingIn(rig), mine);
  // Of a step: where it ends, its rows, and the update of each.
  assert.ok(most <= 2 * 5_000 + 3 * 500, `${most} rows in one turn`);
  assert.ok(sum < 40_000, `${sum} rows in all`);
});

test('deliveries that are removed meanwhile are omitted, also when all are, and a second request at a time is refused', async (t) => {
  const rig = reviewRig(t);
  const { store, review } = rig;
  put(store.connection, { count: 1_200, state: 'failed' });
  const asked = review.resendAll(anna, '1', {}, '');
  await assert.rejects(review.resendAll(anna, '1', {}, ''), { code: 'TOO_MANY' });
  await new Promise(setImmediate);
  store.connection.exec("DELETE FROM webhook_deliveries WHERE state = 'failed' AND id % 2 = 0");
  const { deliveries } = await asked;
  assert.equal(deliveries, pendingIn(rig).length);
  assert.ok(deliveries < 1_200);
  assert.equal(count(store.connection, "webhook_deliveries WHERE state = 'failed'"), 0);
  store.connection.exec('DELETE FROM webhook_deliveries');
  assert.deepEqual(await review.resendAll(anna, '1', {}, ''), { deliveries: 0 });
});

test('those whose events are not kept any more are omitted', async (t) => {
  const rig = reviewRig(t);
  const { store, review } = rig;
  const kept = put(store.connection, { count: 2 });
  put(store.connection, { count: 3, events: null });
  assert.deepEqual(await review.resendAll(anna, '1', { states: ['delivered'] }, ''), { deliveries: 2 });
  assert.deepEqual(pendingIn(rig), kept);
});

test('nothing is sent again for a subscription that is deleted while this waits for its turn to write', async (t) => {
  const rig = reviewRig(t);
  const { store, review, cache } = rig;
  put(store.connection, { count: 700, state: 'failed' });
  const release = holdStore(store);
  const asked = review.resendAll(anna, '1', {}, '');
  for (let n = 0; n < 5; n++) await new Promise(setImmediate);
  cache.remove(1);
  await release();
  assert.deepEqual(await asked, { deliveries: 0 });
  assert.deepEqual([pendingIn(rig), auditOf(rig), rig.notified], [[], [], []]);
});
