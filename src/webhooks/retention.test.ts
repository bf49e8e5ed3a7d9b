import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { FakeClock } from '../base/fake-clock.fixture.ts';
import { type Logger, silentLogger } from '../base/logger.ts';
import { type TemporaryStore, temporaryStore } from '../outbox/change-store.fixture.ts';
import type { Audit, ChangeStore } from '../outbox/change-store.ts';
import { failCommits } from './dispatcher.fixture.ts';
import { createRetention, type Retention, type RetentionOptions } from './retention.ts';
import { attempt, count, countLooks, formRow, freeze, put, subscriptionRow } from './review.fixture.ts';

const dayMs = 86_400_000;
const mib = 1024 * 1024;

interface Rig extends TemporaryStore {
  readonly connection: ChangeStore['connection'];
  readonly retention: Retention;
  /** Commits that removed deliveries. */
  readonly removed: () => number;
  runMs: number;
}

function rigFor(t: TestContext, changes: Partial<RetentionOptions> = {}): Rig {
  const temporary = temporaryStore(t);
  let removed = 0;
  const rig: Rig = {
    ...temporary,
    connection: temporary.store.connection,
    retention: createRetention({
      ...temporary,
      running: { now: () => rig.runMs },
      keepDeliveredDays: 7,
      keepFailedDays: 30,
      maxAnswerBytes: 64 * mib,
      logger: silentLogger,
      onRemoved: () => removed++,
      ...changes,
    }),
    removed: () => removed,
    runMs: 0,
  };
  t.after(() => rig.retention.stop());
  return rig;
}

/** Lets `ms` pass in steps of a slice, with the loop's turns between. */
async function pass(clock: FakeClock, ms: number, onTurn = (): void => {}): Promise<void> {
  for (let passed = 0; passed < ms; passed += 50) {
    clock.advance(50);
    await new Promise(setImmediate);
    onTurn();
  }
}

async function passUntil(what: string, clock: FakeClock, isSo: () => boolean): Promise<void> {
  for (let slices = 0; !isSo(); slices++) {
    if (slices > 200_000) throw new Error(`never: ${what}`);
    clock.advance(50);
    await new Promise(setImmediate);
  }
}

function beforeCommits(store: ChangeStore, call: () => void): void {
  const maintain = store.maintain.bind(store);
  store.maintain = <T>(work: (audit: Audit) => T): Promise<T> => {
    call();
    return maintain(work);
  };
}

function left({ connection }: Rig): readonly number[] {
  return connection.prepare<[], number>('SELECT id FROM webhook_deliveries ORDER BY id').pluck().all();
}

test('delivered ones go after 7 days of running time, rejected and failed after 30, and what waits never', async (t) => {
  const rig = rigFor(t);
  const { connection, clock } = rig;
  subscriptionRow(connection, 1);
  const states = ['pending', 'retrying', 'delivered', 'rejected', 'failed'] as const;
  const ids = Object.fromEntries(states.map((state) => [state, put(connection, { state, endedRunMs: 1_000 })[0] ?? 0]));
  const [fresh = 0] = put(connection, { endedRunMs: 7 * dayMs });
  for (const id of left(rig)) {
    attempt(connection, id, 1, `answer of ${id}`);
    freeze(connection, id, '{}');
  }
  rig.runMs = 7 * dayMs + 1_000;
  rig.retention.start();
  await pass(clock, 70_000);
  assert.equal(left(rig).length, 6, 'to the millisecond');
  rig.runMs++;
  await pass(clock, 3_600_000);
  assert.deepEqual(left(rig), [ids['pending'], ids['retrying'], ids['rejected'], ids['failed'], fresh]);
  rig.runMs = 30 * dayMs + 1_001;
  await pass(clock, 3_600_000);
  assert.deepEqual(left(rig), [ids['pending'], ids['retrying']]);
  for (const table of ['webhook_attempts', 'webhook_answers', 'webhook_bodies'])
    assert.equal(count(connection, table), 2);
  assert.equal(rig.removed(), 2, 'told of each commit that removed any');
});

test('a wall clock that jumps by years removes nothing', async (t) => {
  const rig = rigFor(t);
  subscriptionRow(rig.connection, 1);
  put(rig.connection, { count: 10 });
  put(rig.connection, { count: 10, state: 'failed' });
  rig.retention.start();
  for (const years of [30, -60, 100]) {
    rig.clock.stepWall(years * 365 * dayMs);
    await pass(rig.clock, 3_700_000);
    assert.equal(left(rig).length, 20);
  }
});

test('it begins a minute after the start, and comes again each hour', async (t) => {
  const rig = rigFor(t);
  subscriptionRow(rig.connection, 1);
  rig.runMs = 8 * dayMs;
  put(rig.connection);
  rig.retention.start();
  await pass(rig.clock, 55_000);
  assert.equal(left(rig).length, 1);
  await pass(rig.clock, 20_000);
  assert.equal(left(rig).length, 0);
  put(rig.connection);
  await pass(rig.clock, 3_500_000);
  assert.equal(left(rig).length, 1);
  await pass(rig.clock, 120_000);
  assert.equal(left(rig).length, 0);
  put(rig.connection);
  rig.retention.stop();
  await pass(rig.clock, 7_200_000);
  assert.deepEqual([left(rig).length, rig.clock.pendingTimers], [1, 0]);
});

test('200,000 old deliveries go in slices of 500, a few thousand rows looked at in a turn, and a sweep that finds nothing writes nothing', async (t) => {
  const rig = rigFor(t);
  const { connection, clock, store } = rig;
  subscriptionRow(connection, 1);
  put(connection, { count: 150_000, endedRunMs: 8 * dayMs });
  put(connection, { count: 50_000 });
  rig.runMs = 8 * dayMs;
  let commits = 0;
  beforeCommits(store, () => commits++);
  const counted = countLooks(connection);
  const retention = createRetention({
    store,
    running: { now: () => rig.runMs },
    keepDeliveredDays: 7,
    keepFailedDays: 30,
    maxAnswerBytes: 64 * mib,
    clock,
    logger: silentLogger,
  });
  t.after(() => retention.stop());
  let most = 0;
  let mostRemoved = 0;
  let before = 200_000;
  const turn = (): void => {
    if (counted.looks === 0) return;
    most = Math.max(most, counted.looks);
    const now = count(connection, 'stored_deliveries');
    mostRemoved = Math.max(mostRemoved, before - now);
    before = now;
    counted.looks = 0;
  };
  retention.start();
  await passUntil('the old ones are gone', clock, () => {
    turn();
    return before === 150_000;
  });
  assert.equal(mostRemoved, 500);
  // Where the slice ends; what of it is old, before the transaction and in it; each that is removed; and the forms.
  assert.ok(most <= 4 * 2_000 + 2 * 500, `${most} rows in one turn`);
  assert.equal(commits, 100);
  let sum = 0;
  await pass(clock, 3_700_000, () => {
    sum += counted.looks;
    turn();
  });
  assert.deepEqual([before, commits], [150_000, 100]);
  assert.ok(sum >= 3 * 150_000, `it has looked at all of them: ${sum} rows`);
  assert.ok(most <= 9_000, `${most} rows in one turn`);
});

test('deliveries with many attempts go fewer at a time', async (t) => {
  const rig = rigFor(t);
  const { connection, clock } = rig;
  subscriptionRow(connection, 1);
  rig.runMs = 31 * dayMs;
  for (const id of put(connection, { count: 30, state: 'failed', attempts: 200 })) attempt(connection, id, 1, 'x');
  rig.retention.start();
  const seen = new Set<number>();
  await passUntil('gone', clock, () => {
    seen.add(left(rig).length);
    return left(rig).length === 0;
  });
  assert.deepEqual([...seen], [30, 25, 20, 15, 10, 5, 0]);
});

test('answers beyond the limit go, the oldest first; their attempts stay, and a new answer is nobody else’s', async (t) => {
  const rig = rigFor(t, { maxAnswerBytes: 10_000 });
  const { connection, clock, retention } = rig;
  subscriptionRow(connection, 1);
  const ids = put(connection, { count: 30, state: 'failed' });
  for (const id of ids.slice(0, 10)) attempt(connection, id, 1, 'x'.repeat(1_000));
  retention.start();
  await pass(clock, 100);
  assert.deepEqual([count(connection, 'webhook_answers'), retention.historyBytes()], [10, 10_000], 'to the byte');
  for (const id of ids.slice(10)) attempt(connection, id, 1, 'y'.repeat(1_000));
  await pass(clock, 11_000);
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
  await pass(clock, 11_000);
  assert.deepEqual([count(connection, 'webhook_answers'), retention.historyBytes()], [0, 0]);
  const [late = 0] = put(connection, { state: 'rejected' });
  attempt(connection, late, 1, 'z');
  const named = connection
    .prepare('SELECT delivery_id FROM webhook_attempts JOIN webhook_answers ON id = answer_id')
    .pluck()
    .all();
  assert.deepEqual(named, [late]);
  await pass(clock, 11_000);
  assert.equal(retention.historyBytes(), 1);
});

test('many MiB of answers are brought within the limit in slices', async (t) => {
  const rig = rigFor(t, { maxAnswerBytes: 2 * mib });
  const { connection, clock, retention } = rig;
  connection.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
    INSERT INTO webhook_answers (body) SELECT randomblob(4096) FROM n`);
  retention.start();
  let [before, most] = [5_000, 0];
  await passUntil('within the limit', clock, () => {
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
  subscriptionRow(connection, 1);
  for (const id of put(connection, { count: 5_000, state: 'failed' }))
    if (id % 1_000 === 0) freeze(connection, id, '{}'.repeat(id));
  const bytes = Number(connection.prepare('SELECT sum(length(body)) FROM webhook_bodies').pluck().get());
  retention.start();
  await pass(clock, 50_000);
  assert.equal(retention.historyBytes(), 0);
  await pass(clock, 30_000);
  assert.equal(retention.historyBytes(), bytes);
});

test('a deleted subscription goes within seconds with all that waited for it, its history and its forms; others keep theirs', async (t) => {
  const rig = rigFor(t);
  const { connection, clock } = rig;
  for (const id of [1, 2]) {
    subscriptionRow(connection, id);
    for (const state of ['pending', 'retrying', 'delivered', 'rejected', 'failed'] as const) {
      for (const one of put(connection, { subscription: id, form: id, state, count: 600 }).slice(0, 3)) {
        attempt(connection, one, 1, 'no');
        freeze(connection, one, '{}');
      }
    }
  }
  formRow(connection, 11, 1);
  formRow(connection, 12, 2);
  put(connection, { subscription: 2, form: 12, state: 'pending' });
  formRow(connection, 13, 2);
  rig.retention.start();
  await pass(clock, 70_000);
  assert.equal(count(connection, 'webhook_deliveries'), 6_001);
  assert.deepEqual(formsIn(connection), [1, 2, 12], 'those that nothing is made by are gone');
  subscriptionRow(connection, 2, { deleted: true });
  await pass(clock, 15_000);
  assert.equal(count(connection, 'webhook_deliveries WHERE subscription_id = 2'), 0);
  assert.equal(count(connection, 'webhook_deliveries WHERE subscription_id = 1'), 3_000);
  for (const table of ['webhook_attempts', 'webhook_answers', 'webhook_bodies'])
    assert.equal(count(connection, table), 15);
  assert.deepEqual(formsIn(connection), [1]);
  assert.deepEqual(connection.prepare('SELECT id FROM webhook_subscriptions').pluck().all(), [1]);
  assert.ok(rig.removed() >= 7, 'in slices');
});

function formsIn(connection: ChangeStore['connection']): unknown {
  return connection.prepare('SELECT id FROM webhook_forms ORDER BY id').pluck().all();
}

test('a form that comes to be used while the sweep is on its way stays', async (t) => {
  const rig = rigFor(t);
  const { connection, clock } = rig;
  subscriptionRow(connection, 1);
  put(connection, { count: 20_000 });
  for (const form of [5, 6, 7]) formRow(connection, form, 1);
  rig.retention.start();
  await pass(clock, 60_200);
  assert.deepEqual(formsIn(connection), [1, 5, 6, 7], 'on its way');
  put(connection, { form: 5, state: 'pending' });
  connection.exec('UPDATE webhook_subscriptions SET form_id = 6');
  await pass(clock, 5_000);
  assert.deepEqual(formsIn(connection), [1, 5, 6]);
});

test('a form that a delivery takes after the last slice stays', async (t) => {
  const rig = rigFor(t);
  const { connection, clock, store } = rig;
  subscriptionRow(connection, 1);
  put(connection, { count: 3 });
  for (const form of [5, 6]) formRow(connection, form, 1);
  // The sweep's first transaction is that which removes forms: another's comes before it.
  beforeCommits(store, () => put(connection, { form: 5, state: 'pending' }));
  rig.retention.start();
  await pass(clock, 75_000);
  assert.deepEqual(formsIn(connection), [1, 5]);
});

test('one that is sent again while its removal waits to be written stays', async (t) => {
  const rig = rigFor(t);
  const { connection, clock, store } = rig;
  subscriptionRow(connection, 1);
  const ids = put(connection, { count: 3, state: 'failed' });
  rig.runMs = 31 * dayMs;
  let release = (): void => {};
  const held = store.hold(() => new Promise<void>((resolve) => (release = resolve)));
  rig.retention.start();
  await pass(clock, 75_000);
  connection.prepare("UPDATE webhook_deliveries SET state = 'pending', ended_run_ms = NULL WHERE id = ?").run(ids[1]);
  release();
  await held;
  await pass(clock, 5_000);
  assert.deepEqual(left(rig), [ids[1]]);
});

test('while nothing can be stored that is logged once, nothing is lost count of, and later it goes on', async (t) => {
  const logged: string[] = [];
  const note = (message: string): void => void logged.push(message);
  const logger: Logger = { ...silentLogger, warn: note, info: note };
  const rig = rigFor(t, { logger, maxAnswerBytes: 100 });
  const { connection, clock, store, retention } = rig;
  subscriptionRow(connection, 1);
  rig.runMs = 8 * dayMs;
  for (const id of put(connection, { count: 10 })) attempt(connection, id, 1, 'a'.repeat(5));
  const mend = failCommits(store);
  retention.start();
  await pass(clock, 400_000);
  assert.deepEqual([left(rig).length, retention.historyBytes()], [10, 50]);
  assert.deepEqual(logged, ['old webhook deliveries could not be removed']);
  mend();
  await pass(clock, 120_000);
  assert.deepEqual([left(rig).length, retention.historyBytes()], [0, 0]);
  assert.deepEqual(logged, [
    'old webhook deliveries could not be removed',
    'old webhook deliveries can be removed again',
  ]);
});

test('the store may be closed under it: it ends without a word', async (t) => {
  const logged: string[] = [];
  const rig = rigFor(t, { logger: { ...silentLogger, warn: (message) => void logged.push(message) } });
  subscriptionRow(rig.connection, 1);
  rig.runMs = 8 * dayMs;
  put(rig.connection, { count: 2_000 });
  rig.retention.start();
  await pass(rig.clock, 60_050);
  rig.retention.stop();
  await rig.store.close();
  await pass(rig.clock, 200_000);
  assert.deepEqual([logged, rig.clock.pendingTimers], [[], 0]);
});
