/** The planner with a store that fails or is killed at any of its transactions. */

import assert from 'node:assert/strict';
import { cpSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { LinesideError } from '../../../shared/base/errors.ts';
import { FakeClock, settled } from '../../../shared/base/fake-clock.fixture.ts';
import { recordingLogger } from '../../../shared/base/logger.fixture.ts';
import { temporaryDirectory } from '../../../shared/base/temporary.fixture.ts';
import { holdStore, openStoreIn, temporaryStore } from '../../outbox/change-store.fixture.ts';
import type { Audit, ChangeStore } from '../../outbox/change-store.ts';
import { recordEvent } from '../../outbox/event.fixture.ts';
import type { Subscription } from '../subscriptions/subscription.ts';
import { emit, emitEach, FakeCache, plannerOn, plannerRig, sentIn, turnsUntil } from './planner.fixture.ts';

type Fate = 'refused' | 'lost' | 'unheard';

/** From the nth on each transaction is refused, or the process is gone: before it commits (lost), or before it hears of it. */
function failing(store: ChangeStore, nth: number, fate: Fate, called = (): void => {}): ChangeStore {
  const maintain = store.maintain.bind(store);
  let calls = 0;
  store.maintain = <T>(work: (audit: Audit) => T): Promise<T> => {
    calls += 1;
    called();
    if (calls < nth) return maintain(work);
    const dead = new Promise<never>(() => {});
    if (fate === 'refused') return Promise.reject(new LinesideError('STORAGE_FAILED', 'no'));
    return fate === 'lost' || calls > nth ? dead : maintain(work).then(() => dead);
  };
  return store;
}

const expected = ['1: a b', '2: b', '1: c', '1: d e f', '2: e', '1: g'];

async function emitAll(store: ChangeStore): Promise<void> {
  const internal = { scope: 'INTERNAL' } as const;
  await emit(store, recordEvent('a'), recordEvent('b', 1, internal));
  await emitEach(store, ['c']);
  await emit(store, recordEvent('d'), recordEvent('e', 1, internal), recordEvent('f'));
  await emitEach(store, ['g']);
}

function cacheOf(): FakeCache {
  const cache = new FakeCache();
  for (const id of [1, 2]) cache.put(id, idFilters(id));
  return cache;
}

const many = Array.from({ length: 16 }, (_, n) => n + 1);

/** 15 recipients and 300 transactions: two commits in one pass. */
async function prepared(t: TestContext): Promise<string> {
  const { store, dir } = temporaryStore(t);
  const cache = cacheOf();
  for (const id of many) cache.put(id, idFilters(id));
  await emitAll(store);
  for (let n = 0; n < 300; n++) await emit(store, recordEvent(`k${n}`));
  await store.close();
  return dir;
}

/** A planner that works on `dir`, is killed, and is followed by another: the final plan. */
async function plannedIn(
  t: TestContext,
  dir: string,
  nth: number,
  fate: Fate,
  called?: () => void,
): Promise<readonly string[]> {
  const copy = temporaryDirectory(t);
  cpSync(dir, copy, { recursive: true });
  const clock = new FakeClock();
  const cache = new FakeCache();
  const store = openStoreIn(t, copy, { clock });
  for (const id of many) cache.put(id, idFilters(id));
  const planner = plannerOn(failing(store, nth, fate, called), cache, clock);
  planner.start();
  await clock.pass(0);
  await emit(store, recordEvent('late'), recordEvent('together'));
  await clock.pass(1_000);
  await emitEach(store, ['later']);
  await clock.pass(1_000);
  await store.close();
  const again = openStoreIn(t, copy, { clock });
  const next = plannerOn(again, cache, clock);
  await next.caughtUp();
  assert.equal(next.unplanned(), 0);
  return sentIn(again);
}

function idFilters(id: number): Partial<Subscription> {
  if (id === 2) return { scopes: ['INTERNAL'] };
  return id < 3 ? {} : { dictionaries: ['tools', `only of ${id}`] };
}

test('a process killed in or after any of its transactions loses no delivery and plans none twice', async (t) => {
  const dir = await prepared(t);
  let commits = 0;
  const whole = await plannedIn(t, dir, 1_000, 'refused', () => commits++);
  assert.equal(commits, 4);
  assert.deepEqual(
    whole.filter((sent) => sent.startsWith('1: ')),
    ['a b', 'c', 'd e f', 'g', ...Array.from({ length: 300 }, (_, n) => `k${n}`), 'late together', 'later'].map(
      (keys) => `1: ${keys}`,
    ),
  );
  assert.equal(whole.length, 15 * 306 + 2);
  for (const fate of ['refused', 'lost', 'unheard'] as const) {
    for (let nth = 1; nth <= commits; nth++)
      assert.deepEqual(await plannedIn(t, dir, nth, fate), whole, `${fate} ${nth}`);
  }
});

test('a plan that cannot be stored is logged once and retried after 1, 2, 4, ... 60 s, and then nothing is missing', async (t) => {
  const { store, clock } = temporaryStore(t);
  const cache = cacheOf();
  const { logger, lines } = recordingLogger();
  const calls: number[] = [];
  const planner = plannerOn(store, cache, clock, logger);
  await emitAll(store);
  const maintain = store.maintain.bind(store);
  store.maintain = () => {
    calls.push(clock.monoMs());
    return Promise.reject(new LinesideError('STORAGE_FULL', 'full'));
  };
  planner.start();
  await clock.pass(0);
  for (let second = 1; second <= 190; second++) {
    await clock.pass(1_000);
    planner.assertAlive();
    // Nor does a commit bring the next try nearer.
    if (second === 5) await emitEach(store, ['h']);
  }
  const gaps = calls.slice(1).map((at, n) => (at - (calls[n] ?? 0)) / 1_000);
  assert.deepEqual(gaps, [1, 2, 4, 8, 16, 32, 60, 60]);
  assert.equal(planner.cursor(), 0);
  await assert.rejects(planner.caughtUp(), { code: 'STORAGE_FULL' });
  store.maintain = maintain;
  clock.advance(60_000);
  await turnsUntil('planned', () => planner.unplanned() === 0);
  assert.deepEqual(sentIn(store), [...expected, '1: h']);
  await settled();
  assert.deepEqual(lines, [
    'warn webhook deliveries could not be planned error=full',
    'info webhook deliveries can be planned again',
  ]);
  await emitEach(store, ['i']);
  clock.advance(20);
  await turnsUntil('planned at once again', () => planner.unplanned() === 0);
});

test('a stop that cannot store its cursor says so and ends', async (t) => {
  const { store, clock } = temporaryStore(t);
  const { logger, lines } = recordingLogger();
  const planner = plannerOn(failing(store, 1, 'refused'), new FakeCache(), clock, logger);
  planner.start();
  await planner.stop();
  assert.match(lines.join(), /^warn the cursor of webhook deliveries could not be stored/);
});

const plannerLimitMs = 180_000;

test('a planner that waits for an import is alive for as long as an import may last, then it has stalled', async (t) => {
  const { store, clock, planner } = plannerRig(t, {});
  planner.start();
  await clock.pass(0);
  await emit(store, recordEvent('a'));
  const release = holdStore(store);
  await clock.pass(1_000);
  clock.advance(plannerLimitMs - 1_000);
  planner.assertAlive();
  clock.advance(5_000);
  assert.throws(() => planner.assertAlive(), /it has not turned for 18\d s/);
  await release();
  await turnsUntil('planned', () => planner.unplanned() === 0);
  await clock.pass(1_000);
  planner.assertAlive();
});
