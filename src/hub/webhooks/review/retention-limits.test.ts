/** Retention: what is too much, and what belongs to no subscription any more. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { recordingLogger } from '../../../shared/base/logger.fixture.ts';
import { attempt, count, put, subscriptionRow } from '../delivery/stored.fixture.ts';
import { left, mib, type Rig, rigFor } from './retention.fixture.ts';

test('answers beyond the limit go, the oldest first; their attempts stay, and a new answer belongs to its attempt only', async (t) => {
  const rig = rigFor(t, { maxAnswerBytes: 10_000 });
  const { connection, clock, retention } = rig;
  const ids = put(connection, { count: 30, state: 'failed', events: null });
  for (const id of ids.slice(0, 10)) attempt(connection, id, 1, 'x'.repeat(1_000));
  retention.start();
  await clock.pass(100);
  assert.deepEqual([count(connection, 'webhook_answers'), retention.historyBytes()], [10, 10_000], 'to the byte');
  for (const id of ids.slice(10)) attempt(connection, id, 1, 'y'.repeat(1_000));
  await clock.pass(11_000);
  assert.deepEqual([count(connection, 'webhook_answers'), retention.historyBytes()], [10, 10_000]);
  assert.equal(count(connection, "webhook_answers WHERE body LIKE 'x%'"), 0);
  assert.equal(count(connection, 'webhook_attempts'), 30);
  const kept = connection
    .prepare('SELECT delivery_id FROM webhook_attempts JOIN webhook_answers ON id = answer_id')
    .pluck()
    .all();
  assert.deepEqual(kept, ids.slice(20));
  // Those that have answers are removed with them, and then another attempt is answered.
  connection.prepare('UPDATE webhook_deliveries SET subscription_id = 2 WHERE id >= ?').run(ids[20]);
  subscriptionRow(connection, 2, true);
  await clock.pass(11_000);
  assert.deepEqual([count(connection, 'webhook_answers'), retention.historyBytes()], [0, 0]);
  const [late = 0] = put(connection, { state: 'rejected', events: null });
  attempt(connection, late, 1, 'z');
  const named = connection
    .prepare('SELECT delivery_id FROM webhook_attempts JOIN webhook_answers ON id = answer_id')
    .pluck()
    .all();
  assert.deepEqual(named, [late]);
  await clock.pass(11_000);
  assert.equal(retention.historyBytes(), 1);
});

test('many MiB of answers are brought within the limit in slices', async (t) => {
  const rig = rigFor(t, { maxAnswerBytes: 2 * mib });
  const { connection, clock, retention } = rig;
  connection.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
    INSERT INTO webhook_answers (body) SELECT randomblob(4096) FROM n`);
  retention.start();
  let [before, most] = [5_000, 0];
  await clock.passUntil('within the limit', () => {
    const now = count(connection, 'webhook_answers');
    most = Math.max(most, before - now);
    before = now;
    return retention.historyBytes() === 2 * mib;
  });
  assert.deepEqual([before, most], [512, 500]);
  assert.equal(count(connection, 'webhook_answers WHERE id <= 4488'), 0, 'the newest stay');
});

test('the history counts the contents of ended deliveries, as of the last sweep', async (t) => {
  const rig = rigFor(t);
  const { connection, clock, retention } = rig;
  put(connection, { count: 4_000, state: 'failed', events: null });
  put(connection, { count: 10, state: 'failed', events: 'x'.repeat(1_000) });
  put(connection, { count: 3, events: 'é' });
  put(connection, { count: 5, state: 'retrying', events: 'y'.repeat(1_000) });
  retention.start();
  await clock.pass(50_000);
  assert.equal(retention.historyBytes(), 0);
  await clock.pass(30_000);
  assert.equal(retention.historyBytes(), 10_006);
});

test('a deleted subscription goes within seconds with all that waited for it and its history; others keep theirs', async (t) => {
  const rig = rigFor(t);
  const { connection, clock } = rig;
  subscriptionRow(connection, 2);
  for (const id of [1, 2]) {
    for (const state of ['pending', 'retrying', 'delivered', 'rejected', 'failed'] as const) {
      for (const one of put(connection, { subscription: id, state, count: 600 }).slice(0, 3)) {
        attempt(connection, one, 1, 'no');
      }
    }
  }
  // Contents that both have stay for the other.
  connection.exec(`UPDATE webhook_deliveries SET content_id = 1 WHERE id = 5000;
    UPDATE webhook_contents SET last_delivery = 5000 WHERE id = 1`);
  rig.retention.start();
  await clock.pass(70_000);
  assert.equal(count(connection, 'webhook_deliveries'), 6_000);
  subscriptionRow(connection, 2, true);
  await clock.pass(15_000);
  assert.equal(count(connection, 'webhook_deliveries WHERE subscription_id = 2'), 0);
  assert.equal(count(connection, 'webhook_deliveries WHERE subscription_id = 1'), 3_000);
  for (const table of ['webhook_attempts', 'webhook_answers']) assert.equal(count(connection, table), 15);
  // With those of delivery 5000, which has taken others.
  assert.equal(count(connection, 'webhook_contents'), 3_001);
  assert.equal(count(connection, 'webhook_contents WHERE id = 1'), 1);
  assert.deepEqual(connection.prepare('SELECT id FROM webhook_subscriptions').pluck().all(), [1]);
  assert.ok(rig.removed() >= 6, 'in slices');
});

const hourMs = 3_600_000;
const states = ['pending', 'rejected', 'delivered', 'failed'] as const;

/** Deliveries whose contents are kept. */
function withBody({ connection }: Rig): readonly number[] {
  return connection
    .prepare<[], number>(
      'SELECT d.id FROM webhook_deliveries d JOIN webhook_contents c ON c.id = content_id WHERE body IS NOT NULL ORDER BY d.id',
    )
    .pluck()
    .all();
}

test('contents of ended deliveries are brought within their shares, the oldest first; the deliveries stay, and what waits keeps its own', async (t) => {
  const { logger, lines } = recordingLogger();
  const rig = rigFor(t, { maxBytes: 64 * mib, logger });
  const events = 'x'.repeat(65_536);
  for (let n = 0; n < 150; n++) for (const state of states) put(rig.connection, { state, events });
  // One of its deliveries waits.
  put(rig.connection, { state: 'retrying', events: null });
  rig.connection.exec(`UPDATE webhook_deliveries SET content_id = 2 WHERE id = 601;
    UPDATE webhook_contents SET last_delivery = 601 WHERE id = 2`);
  const ids = left(rig);
  rig.retention.start();
  await rig.clock.pass(2 * hourMs);
  assert.equal(left(rig).length, 601);
  // A share is 8 MiB: 128 of 150 delivered ones, and 128 of 300 for review less the one that waits.
  const of = (state: string): readonly number[] => ids.filter((id) => states[(id - 1) % 4] === state && id !== 601);
  const review = ids.filter(
    (id) => ['rejected', 'failed'].includes(states[(id - 1) % 4] ?? '') && id !== 601 && id !== 2,
  );
  const gone = [...of('delivered').slice(0, 22), ...review.slice(0, 171)];
  assert.deepEqual(
    withBody(rig),
    ids.filter((id) => !gone.includes(id)),
  );
  assert.equal(lines.length, 1);
  await rig.clock.pass(2 * hourMs);
  assert.equal(withBody(rig).length, 601 - gone.length, 'and no others');
  assert.equal(rig.retention.historyBytes(), 16 * mib);
});

test('while refdata.db is nearly full nothing is kept that was delivered; what is for review stays', async (t) => {
  const { logger, lines } = recordingLogger();
  const rig = rigFor(t, { maxBytes: 32 * mib, logger });
  const { connection, clock } = rig;
  for (const state of states) put(connection, { state, endedRunMs: 1 });
  const kept = left(rig).filter((_, n) => states[n] !== 'delivered');
  rig.runMs = 1_000;
  rig.retention.start();
  await clock.pass(120_000);
  assert.equal(left(rig).length, 4);
  connection.exec('CREATE TABLE others AS SELECT zeroblob(25 * 1048576) AS bytes');
  await clock.pass(hourMs);
  assert.deepEqual(left(rig), kept);
  assert.equal(lines.length, 1);
  connection.exec('DROP TABLE others');
  await clock.pass(hourMs);
  put(connection, { endedRunMs: 1 });
  await clock.pass(hourMs);
  assert.equal(left(rig).length, 4);
});
