import assert from 'node:assert/strict';
import { test } from 'node:test';
import { recordingLogger } from '../../../shared/base/logger.fixture.ts';
import { holdStore } from '../../outbox/change-store.fixture.ts';
import { failCommits } from '../delivery/dispatcher.fixture.ts';
import { attempt, beforeCommits, count, countLooks, put } from '../delivery/stored.fixture.ts';
import { dayMs, left, retentionOf, rigFor } from './retention.fixture.ts';

test('delivered ones go after 7 days of running time, rejected and failed after 30, and what waits never', async (t) => {
  const rig = rigFor(t);
  const { connection, clock } = rig;
  const states = ['pending', 'retrying', 'delivered', 'rejected', 'failed'] as const;
  const ids = Object.fromEntries(states.map((state) => [state, put(connection, { state, endedRunMs: 1_000 })[0] ?? 0]));
  const [fresh = 0] = put(connection, { endedRunMs: 7 * dayMs });
  for (const id of left(rig)) attempt(connection, id, 1, `answer of ${id}`);
  rig.runMs = 7 * dayMs + 1_000;
  rig.retention.start();
  await clock.pass(70_000);
  assert.equal(left(rig).length, 6, 'to the millisecond');
  rig.runMs++;
  await clock.pass(3_600_000);
  assert.deepEqual(left(rig), [ids['pending'], ids['retrying'], ids['rejected'], ids['failed'], fresh]);
  rig.runMs = 30 * dayMs + 1_001;
  await clock.pass(3_600_000);
  assert.deepEqual(left(rig), [ids['pending'], ids['retrying']]);
  for (const table of ['webhook_attempts', 'webhook_answers', 'webhook_contents'])
    assert.equal(count(connection, table), 2);
  assert.equal(rig.removed(), 2, 'called after each commit that removed any');
});

test('it begins a minute after the start, and comes again each hour', async (t) => {
  const rig = rigFor(t);
  rig.runMs = 8 * dayMs;
  put(rig.connection);
  rig.retention.start();
  await rig.clock.pass(55_000);
  assert.equal(left(rig).length, 1);
  await rig.clock.pass(20_000);
  assert.equal(left(rig).length, 0);
  put(rig.connection);
  await rig.clock.pass(3_500_000);
  assert.equal(left(rig).length, 1);
  await rig.clock.pass(120_000);
  assert.equal(left(rig).length, 0);
  put(rig.connection);
  rig.retention.stop();
  await rig.clock.pass(7_200_000);
  assert.deepEqual([left(rig).length, rig.clock.pendingTimers], [1, 0]);
});

test('100,000 old deliveries go in slices of 500, a few thousand rows read in a turn, and a sweep that finds nothing writes nothing', async (t) => {
  const rig = rigFor(t);
  const { connection, clock, store } = rig;
  put(connection, { count: 75_000, endedRunMs: 8 * dayMs });
  put(connection, { count: 25_000 });
  rig.runMs = 8 * dayMs;
  let commits = 0;
  beforeCommits(store, () => commits++);
  const counted = countLooks(connection);
  const retention = retentionOf(t, { store, clock, running: { now: () => rig.runMs } });
  let most = 0;
  let mostRemoved = 0;
  let before = 100_000;
  let atCommit = 0;
  const turn = (): void => {
    if (counted.looks === 0) return;
    most = Math.max(most, counted.looks);
    // Counting reads all of them: only a commit changes their number.
    const now = commits === atCommit ? before : count(connection, 'stored_deliveries');
    atCommit = commits;
    mostRemoved = Math.max(mostRemoved, before - now);
    before = now;
    counted.looks = 0;
  };
  retention.start();
  await clock.passUntil('the old ones are gone', () => {
    turn();
    return before === 75_000;
  });
  assert.equal(mostRemoved, 500);
  // Where the slice ends; what of it is old, before the transaction and in it; each that is removed, and others with its contents.
  assert.ok(most <= 3 * 2_000 + 2 * 500, `${most} rows in one turn`);
  assert.equal(commits, 50);
  let sum = 0;
  const endMs = clock.monoMs() + 3_700_000;
  await clock.passUntil('an hour is over', () => {
    sum += counted.looks;
    turn();
    return clock.monoMs() >= endMs;
  });
  assert.deepEqual([count(connection, 'stored_deliveries'), commits], [75_000, 50]);
  assert.ok(sum >= 3 * 75_000, `it has read all of them: ${sum} rows`);
  assert.ok(most <= 9_000, `${most} rows in one turn`);
});

test('deliveries with many attempts go fewer at a time', async (t) => {
  const rig = rigFor(t);
  const { connection, clock } = rig;
  rig.runMs = 31 * dayMs;
  for (const id of put(connection, { count: 30, state: 'failed', attempts: 200 })) attempt(connection, id, 1, 'x');
  rig.retention.start();
  const seen = new Set<number>();
  await clock.passUntil('gone', () => {
    seen.add(left(rig).length);
    return left(rig).length === 0;
  });
  assert.deepEqual([...seen], [30, 25, 20, 15, 10, 5, 0]);
});

test('one that is sent again while its removal waits to be written stays', async (t) => {
  const rig = rigFor(t);
  const { connection, clock, store } = rig;
  const ids = put(connection, { count: 3, state: 'failed' });
  rig.runMs = 31 * dayMs;
  const release = holdStore(store);
  rig.retention.start();
  await clock.pass(75_000);
  connection.prepare("UPDATE webhook_deliveries SET state = 'pending', ended_run_ms = NULL WHERE id = ?").run(ids[1]);
  await release();
  await clock.pass(5_000);
  assert.deepEqual(left(rig), [ids[1]]);
});

test('while nothing can be stored that is logged once, the counts stay right, and later it resumes', async (t) => {
  const { logger, lines } = recordingLogger();
  const rig = rigFor(t, { logger, maxAnswerBytes: 100 });
  const { connection, clock, store, retention } = rig;
  rig.runMs = 8 * dayMs;
  for (const id of put(connection, { count: 10 })) attempt(connection, id, 1, 'a'.repeat(5));
  const repair = failCommits(store);
  retention.start();
  await clock.pass(400_000);
  assert.deepEqual([left(rig).length, retention.historyBytes()], [10, 50]);
  assert.match(lines.join('\n'), /^warn old webhook deliveries could not be removed error=.*SQLITE_IOERR_FSYNC.*$/);
  repair();
  await clock.pass(120_000);
  assert.deepEqual([left(rig).length, retention.historyBytes()], [0, 0]);
  assert.deepEqual(lines.slice(1), ['info old webhook deliveries can be removed again']);
});

test('the store may be closed under it: it ends without a word', async (t) => {
  const { logger, lines } = recordingLogger();
  const rig = rigFor(t, { logger });
  rig.runMs = 8 * dayMs;
  put(rig.connection, { count: 2_000 });
  rig.retention.start();
  await rig.clock.pass(60_050);
  rig.retention.stop();
  await rig.store.close();
  await rig.clock.pass(200_000);
  assert.deepEqual([lines, rig.clock.pendingTimers], [[], 0]);
});
