import assert from 'node:assert/strict';
import { test } from 'node:test';
import { storedBody } from '../delivery/contents.ts';
import { attempt, countLooks, countReads, put } from '../delivery/stored.fixture.ts';
import type { Caller, Delivery, DeliveryState } from '../face.ts';
import { all, anna, type ReviewRig, reviewRig } from './review.fixture.ts';

function idsOf(items: readonly Delivery[]): readonly number[] {
  return items.map(({ deliveryId }) => Number(deliveryId.split('-')[0]));
}

function deliveryIdOf({ store }: ReviewRig, id: number): string {
  const nonce = store.connection.prepare('SELECT nonce FROM webhook_contents WHERE id = ?').pluck().get(id);
  return `${id}-${String(nonce)}`;
}

/** Reads to the end; answers the ids, and how many pages it took. */
function pagesOf(
  { review }: ReviewRig,
  query: { readonly limit: number; readonly state?: DeliveryState; readonly subscription?: string },
): { readonly ids: readonly number[]; readonly pages: number } {
  const ids: number[] = [];
  let cursor: string | undefined;
  for (let pages = 1; ; pages++) {
    const page = review.deliveries({ state: undefined, subscription: undefined, ...query, cursor });
    assert.ok(page.items.length <= query.limit);
    ids.push(...idsOf(page.items));
    if (page.nextCursor === undefined) return { ids, pages };
    cursor = page.nextCursor;
  }
}

test('deliveries are listed newest first, page by page, each once, by state and subscription', async (t) => {
  const rig = reviewRig(t);
  const { connection } = rig.store;
  const ids: Record<string, readonly number[]> = {};
  const states = ['pending', 'retrying', 'delivered', 'rejected', 'failed'] as const;
  for (const subscription of [1, 2]) {
    for (const state of states) ids[`${subscription} ${state}`] = put(connection, { subscription, state, count: 3 });
  }
  const newestFirst = (keys: readonly string[]): readonly number[] =>
    keys.flatMap((key) => ids[key] ?? []).toSorted((a, b) => b - a);
  for (const limit of [1, 2, 3, 7, 1_000]) {
    assert.deepEqual(pagesOf(rig, { limit }).ids, newestFirst(Object.keys(ids)));
    for (const state of states) {
      assert.deepEqual(pagesOf(rig, { limit, state }).ids, newestFirst([`1 ${state}`, `2 ${state}`]));
      assert.deepEqual(pagesOf(rig, { limit, state, subscription: '2' }).ids, newestFirst([`2 ${state}`]));
    }
    assert.deepEqual(pagesOf(rig, { limit, subscription: '1' }).ids, newestFirst(states.map((state) => `1 ${state}`)));
  }
  assert.equal(pagesOf(rig, { limit: 30 }).pages, 1, 'a last page that is full says that it is the last');
});

test('deliveries are found by the status of their last answer', (t) => {
  const rig = reviewRig(t);
  const { connection } = rig.store;
  const [refused = 0] = put(connection, { state: 'failed', attempts: 1 });
  put(connection, { state: 'failed', attempts: 2 });
  put(connection, { state: 'pending', attempts: 0 });
  attempt(connection, refused, 1, 'no room');
  assert.deepEqual(idsOf(rig.review.deliveries({ ...all, statusCode: 500 }).items), [refused]);
  assert.deepEqual(rig.review.deliveries({ ...all, statusCode: 503 }).items, []);
});

test('results count how the newest 10,000 deliveries of each subscription ended, and say since when', (t) => {
  const rig = reviewRig(t);
  const { connection } = rig.store;
  assert.deepEqual(rig.review.results().since, null);
  const none = { delivered: 0, rejected: 0, failed: 0, waiting: 0 };
  put(connection, { subscription: 2, state: 'delivered', count: 3 });
  for (const state of ['pending', 'retrying', 'delivered', 'rejected', 'failed'] as const) {
    put(connection, { subscription: 1, state, count: state === 'delivered' ? 9_994 : 1 });
  }
  assert.deepEqual(rig.review.results(), {
    since: '2023-11-14T22:13:20+00:00',
    deliveries: 10_000,
    subscriptions: [
      { subscription: '1', delivered: 9_994, rejected: 1, failed: 1, waiting: 2 },
      { subscription: '2', ...none, delivered: 2 },
    ],
  });
  rig.cache.remove(2);
  assert.deepEqual(rig.review.results().subscriptions.length, 1);
});

test('a page keeps its place while deliveries come and go', async (t) => {
  const rig = reviewRig(t);
  put(rig.store.connection, { count: 5 });
  const first = rig.review.deliveries({ ...all, limit: 2 });
  assert.deepEqual(idsOf(first.items), [5, 4]);
  put(rig.store.connection, { count: 5 });
  rig.store.connection.exec('DELETE FROM webhook_deliveries WHERE id IN (3, 4)');
  const second = rig.review.deliveries({ ...all, limit: 2, cursor: first.nextCursor });
  assert.deepEqual(idsOf(second.items), [2, 1]);
});

test('a wrong cursor is refused; an unknown subscription has no deliveries, a deleted one none any more', async (t) => {
  const rig = reviewRig(t);
  for (const cursor of ['', 'x', '-1', '1.5', '1e3', '99999999999999999999', '0']) {
    assert.throws(() => rig.review.deliveries({ ...all, cursor }), { code: 'INVALID_ARGUMENT' }, cursor);
  }
  const [mine, theirs] = [1, 2].map((subscription) => put(rig.store.connection, { subscription, state: 'failed' })[0]);
  for (const subscription of ['3', 'x', '', '01']) {
    assert.deepEqual(rig.review.deliveries({ ...all, subscription }), { items: [], nextCursor: undefined });
  }
  const gone = deliveryIdOf(rig, theirs ?? 0);
  assert.equal(rig.review.delivery(anna, gone).state, 'failed');
  rig.cache.remove(2);
  assert.deepEqual(idsOf(rig.review.deliveries({ ...all, state: 'failed' }).items), [mine]);
  assert.throws(() => rig.review.delivery(anna, gone), { code: 'NOT_FOUND' });
  await assert.rejects(rig.review.resend(anna, gone, ''), { code: 'NOT_FOUND' });
  await assert.rejects(rig.review.resendAll(anna, '2', {}, ''), { code: 'NOT_FOUND' });
});

test('no page reads more than 20,000 of 200,000 deliveries, and short pages lead to the matching ones', async (t) => {
  const rig = reviewRig(t);
  const { connection } = rig.store;
  const [waiting] = put(connection, { state: 'pending', subscription: 2 });
  const [failed] = put(connection, { state: 'failed', subscription: 2 });
  put(connection, { count: 200_000 });
  const counted = countLooks(connection);
  const review = rig.again();
  connection.prepare("SELECT count(*) FROM webhook_deliveries WHERE state = 'x'").get();
  assert.equal(counted.looks, 200_002, 'what is counted');
  const most = { perPage: 0 };
  const read = (query: { limit: number; state?: DeliveryState; subscription?: string }): readonly number[] => {
    const ids: number[] = [];
    let cursor: string | undefined;
    for (let pages = 0; pages < 20; pages++) {
      counted.looks = 0;
      const page = review.deliveries({ state: undefined, subscription: undefined, ...query, cursor });
      most.perPage = Math.max(most.perPage, counted.looks);
      ids.push(...idsOf(page.items));
      if (page.nextCursor === undefined) return ids;
      cursor = page.nextCursor;
    }
    throw new Error('no end');
  };
  assert.deepEqual(read({ limit: 100, state: 'pending' }), [waiting]);
  assert.deepEqual(read({ limit: 100, subscription: '2' }), [failed, waiting]);
  // Twice: once to find how far a step reaches, once to choose.
  assert.ok(most.perPage <= 40_000, `${most.perPage} rows`);
  most.perPage = 0;
  assert.deepEqual(read({ limit: 100, state: 'failed' }), [failed]);
  assert.ok(most.perPage <= 10, `by the index of what is for review: ${most.perPage} rows`);
  counted.looks = 0;
  assert.equal(review.deliveries({ ...all, limit: 100 }).items.length, 100);
  assert.ok(counted.looks <= 2_000 + 101, `without a filter: ${counted.looks} rows`);
});

test('a delivery is read with its text and every attempt, by those to whom all of its scopes are open', async (t) => {
  const rig = reviewRig(t);
  const { store, cache, review } = rig;
  cache.put(1, { name: 'erp', scopes: ['PUBLIC', 'INTERNAL'] });
  const scopes = ['PUBLIC', 'INTERNAL'] as const;
  const [id = 0] = put(store.connection, { state: 'failed', attempts: 2, scopes, events: '{"text":"ü"}' });
  attempt(store.connection, id, 1, 'no room');
  // Cut within the last character.
  store.connection
    .prepare('INSERT INTO webhook_answers (body) VALUES (?)')
    .run(Buffer.from('Fehler: zu groß').subarray(0, -1));
  store.connection.exec(`INSERT INTO webhook_attempts SELECT delivery_id, 2, at, 7, NULL, 'timeout', 'too late', 2
    FROM webhook_attempts WHERE attempt = 1`);
  const deliveryId = deliveryIdOf(rig, id);
  const [listed] = review.deliveries(all).items;
  const at = '2023-11-14T22:13:20+00:00';
  const last = { attempt: 2, at, elapsedMs: 7, statusCode: null, cause: 'timeout', message: 'too late' };
  const first = { attempt: 1, at, elapsedMs: 12, statusCode: 500, cause: 'http', message: 'answered 500' };
  const common = {
    deliveryId,
    subscription: '1',
    subscriptionName: 'erp',
    state: 'failed',
    occurredAt: at,
    events: 1,
    firstEvent: null,
    attempts: 2,
    nextAttemptInSeconds: null,
    endedAt: at,
  };
  assert.deepEqual(listed, { ...common, lastAttempt: { ...last, responseBody: null } });
  const shown = review.delivery({ name: 'bea', scopes: ['INTERNAL', 'PUBLIC'] }, deliveryId);
  const shownLast = { ...last, responseBody: 'Fehler: zu gro' };
  assert.deepEqual(shown, {
    ...common,
    lastAttempt: shownLast,
    body: `{"deliveryId":"${deliveryId}","subscriptionName":"subscription 1","occurredAt":"${at}","events":[{"text":"ü"}]}`,
    attemptList: [{ ...first, responseBody: 'no room' }, shownLast],
  });
  for (const open of [[], ['PUBLIC'], ['INTERNAL', 'RESTRICTED']] as const) {
    const closed = review.delivery({ name: 'carl', scopes: open }, deliveryId);
    assert.deepEqual(closed, {
      ...common,
      lastAttempt: { ...last, responseBody: null },
      body: null,
      attemptList: [
        { ...first, responseBody: null },
        { ...last, responseBody: null },
      ],
    });
  }
});

test('a delivery names its first event to those who may read it, while its events are kept', (t) => {
  const rig = reviewRig(t);
  const { connection } = rig.store;
  const event = (businessKey: string, data: object = {}): string => {
    const record = { eventType: 'dictionary.changed', dictionary: 'pumps', businessKey, action: 'updated' };
    return JSON.stringify({ schemaVersion: '1.0.0', ...record, version: 2, data });
  };
  const many = storedBody(Array.from({ length: 300 }, (_, n) => event(`P ${n}`)).join(','));
  put(connection, { events: event('old', { noise: 'x'.repeat(5 * 1_024 * 1_024) }) });
  put(connection, { events: event('P-2'), scopes: ['INTERNAL'] });
  put(connection, { events: event('P-1') });
  put(connection, { events: null });
  put(connection, { events: many as string });
  const keysFor = (scopes: Caller['scopes'], query = all): unknown =>
    rig.review.deliveries(query, { name: 'bea', scopes }).items.map(({ firstEvent }) => firstEvent?.businessKey);
  assert.deepEqual(keysFor(['PUBLIC', 'INTERNAL']), ['P 0', undefined, 'P-1', 'P-2', 'old']);
  assert.deepEqual(keysFor(['PUBLIC']), ['P 0', undefined, 'P-1', undefined, 'old']);
  // A second long one is not read for this page.
  put(connection, { events: event('new', { noise: 'x'.repeat(5 * 1_024 * 1_024) }) });
  assert.deepEqual(keysFor(['PUBLIC', 'INTERNAL']), ['new', undefined, undefined, undefined, undefined, undefined]);
  const counted = countReads(connection);
  const again = rig.again();
  assert.equal(again.deliveries({ ...all, limit: 3 }).items.length, 3);
  assert.ok(counted.statements <= 2, `${counted.statements} statements for a page`);
  const [first] = rig.review.deliveries(all).items;
  const whole = { eventType: 'dictionary.changed', dictionary: 'pumps', businessKey: 'new', action: 'updated' };
  assert.deepEqual(first?.firstEvent, whole);
  assert.deepEqual(rig.review.delivery(anna, first?.deliveryId ?? '').firstEvent, whole);
});

test('a delivery that waits says when its next attempt is; one whose events are gone has no text', async (t) => {
  const rig = reviewRig(t);
  const { store, review, clock } = rig;
  const [pending = 0] = put(store.connection, { state: 'pending', attempts: 0, events: null });
  const [retrying = 0] = put(store.connection, { state: 'retrying' });
  store.connection.prepare('UPDATE webhook_deliveries SET due_run_ms = 30_001 WHERE id = ?').run(retrying);
  const secondsOf = (): unknown => review.deliveries(all).items.map((one) => one.nextAttemptInSeconds);
  assert.deepEqual(secondsOf(), [31, 0]);
  clock.advance(30_000);
  clock.stepWall(-1e12);
  assert.deepEqual(secondsOf(), [1, 0]);
  const { body, lastAttempt, attemptList } = review.delivery(anna, deliveryIdOf(rig, pending));
  assert.deepEqual({ body, lastAttempt, attemptList }, { body: null, lastAttempt: null, attemptList: [] });
});

test('an id that is no delivery, or another one of the same number, is not found', async (t) => {
  const rig = reviewRig(t);
  const [id = 0] = put(rig.store.connection, { state: 'failed' });
  const right = deliveryIdOf(rig, id);
  assert.equal(rig.review.delivery(anna, right).deliveryId, right);
  const nonce = right.slice(right.indexOf('-') + 1);
  const others = ['', '2', '01', '1e0', '9'.repeat(400)].map((number) => `${number}-${nonce}`);
  const wrong = ['', '1', '1-', `1-${'f'.repeat(16)}`, `${right}0`, ` ${right}`, `${right}\n`, right.replace('-', '–')];
  for (const deliveryId of [...others, ...wrong]) {
    assert.throws(() => rig.review.delivery(anna, deliveryId), { code: 'NOT_FOUND' }, deliveryId);
    await assert.rejects(rig.review.resend(anna, deliveryId, ''), { code: 'NOT_FOUND' }, deliveryId);
  }
  assert.equal(rig.review.deliveries(all).items[0]?.state, 'failed');
});
