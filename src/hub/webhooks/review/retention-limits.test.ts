/** Retention: what is too much, and what belongs to no subscription any more. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { recordingLogger } from '../../../shared/base/logger.fixture.ts';
import type { ChangeStore } from '../../outbox/change-store.ts';
import { attempt, beforeCommits, count, formRow, freeze, put, subscriptionRow } from '../delivery/stored.fixture.ts';
import { left, mib, type Rig, rigFor } from './retention.fixture.ts';

function formsIn(connection: ChangeStore['connection']): unknown {
  return connection.prepare('SELECT id FROM webhook_forms ORDER BY id').pluck().all();
}

test('answers beyond the limit go, the oldest first; their attempts stay, and a new answer belongs to its attempt only', async (t) => {
  const rig = rigFor(t, { maxAnswerBytes: 10_000 });
  const { connection, clock, retention } = rig;
  const ids = put(connection, { count: 30, state: 'failed' });
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
  subscriptionRow(connection, 2, { deleted: true });
  await clock.pass(11_000);
  assert.deepEqual([count(connection, 'webhook_answers'), retention.historyBytes()], [0, 0]);
  const [late = 0] = put(connection, { state: 'rejected' });
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

test('the history counts the bodies that are kept for review, as of the last sweep', async (t) => {
  const rig = rigFor(t);
  const { connection, clock, retention } = rig;
  for (const id of put(connection, { count: 5_000, state: 'failed' }))
    if (id % 1_000 === 0) freeze(connection, id, '{}'.repeat(id));
  const bytes = Number(connection.prepare('SELECT sum(length(body)) FROM webhook_bodies').pluck().get());
  retention.start();
  await clock.pass(50_000);
  assert.equal(retention.historyBytes(), 0);
  await clock.pass(30_000);
  assert.equal(retention.historyBytes(), bytes);
});

test('a deleted subscription goes within seconds with all that waited for it, its history and its forms; others keep theirs', async (t) => {
  const rig = rigFor(t);
  const { connection, clock } = rig;
  subscriptionRow(connection, 2);
  for (const id of [1, 2]) {
    for (const state of ['pending', 'retrying', 'delivered', 'rejected', 'failed'] as const) {
      for (const one of put(connection, { subscription: id, template: id, state, count: 600 }).slice(0, 3)) {
        attempt(connection, one, 1, 'no');
        freeze(connection, one, '{}');
      }
    }
  }
  formRow(connection, 11, 1);
  formRow(connection, 12, 2);
  put(connection, { subscription: 2, template: 12, state: 'pending' });
  formRow(connection, 13, 2);
  rig.retention.start();
  await clock.pass(70_000);
  assert.equal(count(connection, 'webhook_deliveries'), 6_001);
  assert.deepEqual(formsIn(connection), [1, 2, 12], 'those that nothing is made by are gone');
  subscriptionRow(connection, 2, { deleted: true });
  await clock.pass(15_000);
  assert.equal(count(connection, 'webhook_deliveries WHERE subscription_id = 2'), 0);
  assert.equal(count(connection, 'webhook_deliveries WHERE subscription_id = 1'), 3_000);
  for (const table of ['webhook_attempts', 'webhook_answers', 'webhook_bodies'])
    assert.equal(count(connection, table), 15);
  assert.deepEqual(formsIn(connection), [1]);
  assert.deepEqual(connection.prepare('SELECT id FROM webhook_subscriptions').pluck().all(), [1]);
  assert.ok(rig.removed() >= 7, 'in slices');
});

test('a body template that becomes used during the sweep stays', async (t) => {
  const rig = rigFor(t);
  const { connection, clock } = rig;
  put(connection, { count: 20_000 });
  for (const template of [5, 6, 7]) formRow(connection, template, 1);
  rig.retention.start();
  await clock.pass(60_200);
  assert.deepEqual(formsIn(connection), [1, 5, 6, 7], 'during the sweep');
  put(connection, { template: 5, state: 'pending' });
  connection.exec('UPDATE webhook_subscriptions SET form_id = 6');
  await clock.pass(5_000);
  assert.deepEqual(formsIn(connection), [1, 5, 6]);
});

test('a form that a delivery takes after the last slice stays', async (t) => {
  const rig = rigFor(t);
  const { connection, clock, store } = rig;
  put(connection, { count: 3 });
  for (const template of [5, 6]) formRow(connection, template, 1);
  // The sweep's first transaction is that which removes forms: another's comes before it.
  beforeCommits(store, () => put(connection, { template: 5, state: 'pending' }));
  rig.retention.start();
  await clock.pass(75_000);
  assert.deepEqual(formsIn(connection), [1, 5]);
});

const hourMs = 3_600_000;
const states = ['pending', 'rejected', 'delivered', 'failed'] as const;

/** Of 64 KiB each. */
function keepBodies({ connection }: Rig, ids: readonly number[]): void {
  const keep = connection.prepare('INSERT INTO webhook_bodies (delivery_id, body) VALUES (?, zeroblob(65536))');
  for (const id of ids) keep.run(id);
}

function bodies({ connection }: Rig): readonly number[] {
  return connection.prepare<[], number>('SELECT delivery_id FROM webhook_bodies ORDER BY delivery_id').pluck().all();
}

test('bodies of ended deliveries are brought within their share, the oldest first; the deliveries stay, and what waits keeps its own', async (t) => {
  const { logger, lines } = recordingLogger();
  const rig = rigFor(t, { maxBytes: 128 * mib, logger });
  for (let n = 0; n < 100; n++) for (const state of states) put(rig.connection, { state });
  const ids = left(rig);
  keepBodies(rig, ids);
  rig.retention.start();
  await rig.clock.pass(2 * hourMs);
  assert.equal(left(rig).length, 400);
  // Of 300 that have ended 256 are 16 MiB: the first 44 go.
  const gone = ids.filter((_, n) => n % 4 !== 0).slice(0, 44);
  assert.deepEqual(
    bodies(rig),
    ids.filter((id) => !gone.includes(id)),
  );
  assert.equal(lines.length, 1);
  await rig.clock.pass(2 * hourMs);
  assert.equal(bodies(rig).length, 356, 'and no others');
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
