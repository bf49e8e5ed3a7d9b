/** Order and pace of the publisher, on a real refdata.db: which events are sent when. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import type { Outcome } from '../../kafka/face.ts';
import { author } from '../change-store.fixture.ts';
import { emitEvent, recordEvent } from '../event.fixture.ts';
import { rigFor, turns } from './publisher.fixture.ts';
import type { PublisherOptions } from './publisher.ts';

const ack: Outcome = { kind: 'acknowledged' };
const refused: Outcome = { kind: 'refused', reason: 'no', permanent: false };
const tooLarge: Outcome = { kind: 'refused', reason: 'too large', permanent: true };
const unreached: Outcome = { kind: 'unreached', reason: 'timed out' };

const limits = { keys: 100, ids: 4, idsOfKey: 4, blockedKeys: 3 };

/** A broker that takes all that it is offered; the test says what it answers, and when. */
function rig(t: TestContext, changes: Partial<PublisherOptions> = {}) {
  const { store, broker, publisher, clock } = rigFor(t, { limits, maxAttempts: 5, ...changes });
  broker.answer = () => 'never';
  publisher.start();
  let seen = 0;
  const sent = async (): Promise<number[]> => {
    await turns();
    const ids = broker.taken.slice(seen);
    seen += ids.length;
    return ids.toSorted((a, b) => a - b);
  };
  return {
    store,
    broker,
    publisher,
    sent,
    /** "a a b" are three events of two keys; "r/a" one of another topic. */
    add: (names: string, bytes = 10): Promise<void> =>
      store.commit(author, (tx) => {
        for (const name of names.split(' ')) {
          const [key = '', topic] = name.split('/').toReversed();
          const scope = topic === undefined ? 'PUBLIC' : 'RESTRICTED';
          emitEvent(tx, recordEvent(key, 1, { scope, data: { text: 'x'.repeat(bytes) } }));
        }
      }),
    settle: (outcome: Outcome, ...ids: number[]): void => broker.settle(outcome, ids),
    /** What is sent when so much time has passed. */
    after: (ms: number): Promise<number[]> => {
      clock.advance(ms);
      return sent();
    },
    deferred: (): number[] =>
      store.connection.prepare<[], number>('SELECT id FROM outbox_deferred ORDER BY id').pluck().all(),
  };
}

describe('the publisher', () => {
  test('has one event of each key in flight, and sends the next when the one before is marked', async (t) => {
    const { add, sent, settle, publisher } = rig(t);
    await add('a a b a c r/a');
    assert.deepEqual(await sent(), [1, 3, 5, 6], 'the same key in two topics are two keys');
    settle(ack, 1);
    assert.deepEqual(await sent(), [2]);
    settle(ack, 2, 3, 5, 6);
    assert.deepEqual(await sent(), [4]);
    settle(ack, 4);
    assert.deepEqual([await sent(), publisher.inMemory], [[], 0]);
  });

  test('what is published while the scan has returned and waits is not sent again', async (t) => {
    const { add, sent, settle, after } = rig(t, { limits: { keys: 3, ids: 100, idsOfKey: 100, blockedKeys: 1 } });
    await add('a');
    assert.deepEqual(await sent(), [1]);
    settle(refused, 1);
    assert.deepEqual(await sent(), []);
    await add('b r/c r/c r/d r/e');
    assert.deepEqual(await sent(), [3, 5, 6], 'the topic of b is closed');
    assert.deepEqual(await after(1_000), [1]);
    settle(ack, 1);
    assert.deepEqual(await sent(), [], 'it is open, and there is no room for b');
    settle(ack, 3, 5, 6);
    assert.deepEqual(await sent(), [2, 4]);
  });

  test('bounds the bytes in flight; one event is sent whatever its size', async (t) => {
    const { add, sent, settle, publisher } = rig(t, { inFlightBytes: 2_000 });
    await add('a', 5_000);
    await add('b c d e', 300);
    assert.deepEqual(await sent(), [1]);
    settle(ack, 1);
    assert.deepEqual(await sent(), [2, 3]);
    assert.equal(publisher.status().inFlight, 2);
    settle(ack, 3);
    assert.deepEqual(await sent(), [4]);
  });

  test('bounds the keys in memory', async (t) => {
    const { add, sent, settle } = rig(t, { limits: { ...limits, keys: 2 } });
    await add('a b c a');
    assert.deepEqual(await sent(), [1, 2]);
    settle(ack, 1);
    assert.deepEqual(await sent(), [3]);
  });

  test('lets others pass a busy key, of which more wait than fit in memory, and sends its own in order', async (t) => {
    const { add, sent, settle, publisher, deferred } = rig(t);
    await add(`${'a '.repeat(20)}b ${'a '.repeat(20)}c`);
    assert.deepEqual(await sent(), [1, 21, 42]);
    assert.ok(deferred().length > 30, 'the rest are rows');
    settle(ack, 21, 42);
    const order = [1];
    while (order.length < 40) {
      settle(ack, order.at(-1) ?? 0);
      const next = await sent();
      assert.equal(next.length, 1, `after ${order.at(-1)}`);
      order.push(...next);
    }
    assert.deepEqual(
      order,
      order.toSorted((x, y) => x - y),
    );
    settle(ack, 41);
    await turns();
    assert.deepEqual([publisher.inMemory, deferred()], [0, []]);
  });

  test('sends what is refused again after 1 s, doubling to 60 s; it blocks its key and no other', async (t) => {
    const { add, sent, settle, after, publisher } = rig(t, { maxAttempts: 9 });
    await add('a a b');
    await sent();
    settle(refused, 1);
    settle(ack, 3);
    await add('b c a');
    assert.deepEqual(await sent(), [4, 5]);
    const { count, first } = publisher.blocked(10);
    const [{ dueMs, ...blocked } = { dueMs: 0 }] = first;
    assert.deepEqual([count, blocked], [1, { scope: 'PUBLIC', key: 'tools:a', id: 1, attempts: 1, reason: 'no' }]);
    for (const pauseMs of [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]) {
      assert.deepEqual(await after(pauseMs - 1_000), [], `before ${pauseMs} ms`);
      assert.deepEqual(await after(1_000), [1], `after ${pauseMs} ms`);
      settle(refused, 1);
      await turns();
    }
    assert.deepEqual(await after(60_000), [1]);
    settle(refused, 1);
    assert.deepEqual(await sent(), [2], 'more refusals than allowed make a dead letter');
    settle(tooLarge, 2);
    assert.deepEqual(await sent(), [6], 'at once');
    assert.deepEqual([publisher.status().waiting, publisher.blocked(10).count], [3, 0]);
    assert.ok(dueMs > 0);
  });

  test('sends what was not reached again after a pause, without an attempt, and at once when the broker is back', async (t) => {
    const { add, sent, settle, after, broker, publisher, store } = rig(t);
    await add('a a');
    await sent();
    for (let n = 0; n < 20; n++) {
      settle(unreached, 1);
      assert.deepEqual(await sent(), []);
      assert.deepEqual(await after(60_000), [1]);
    }
    settle(unreached, 1);
    await turns();
    broker.connected = false;
    await turns();
    broker.connected = true;
    assert.deepEqual(await sent(), [1]);
    assert.equal(store.connection.prepare('SELECT sum(attempts) FROM outbox_waiting').pluck().get(), 0);
    assert.equal(publisher.blocked(10).count, 0);
  });

  test('writes nothing when the connection is lost: what was in flight is scanned again', async (t) => {
    const { add, sent, settle, broker, deferred } = rig(t);
    await add('a a b');
    assert.deepEqual(await sent(), [1, 3]);
    broker.connected = false;
    settle(unreached, 1, 3);
    assert.deepEqual([await sent(), deferred()], [[], []]);
    broker.connected = true;
    assert.deepEqual(await sent(), [1, 3]);
  });

  test('is not held up by more unreached keys than fit in memory', async (t) => {
    const { add, sent, settle, after, broker, publisher } = rig(t);
    const names = (prefix: string, count: number) => Array.from({ length: count }, (_, n) => `${prefix}${n}`).join(' ');
    const good = `${names('good', 50)} ${names('r/good', 50)}`;
    const some = `${names('stuck', 150)} ${good}`;
    await add(`${some} ${some}`, 1);
    const isStuck = (id: number): boolean => (id - 1) % 250 < 150;
    let left = 200;
    for (let ids = await sent(), second = 0; left > 0; second++, ids = await after(1_000)) {
      assert.ok(second < 300, `${left} good events are never sent`);
      for (const id of ids) {
        settle(isStuck(id) ? unreached : ack, id);
        if (!isStuck(id)) left--;
      }
      assert.ok(publisher.inMemory <= 3 * limits.keys + limits.ids, `${publisher.inMemory} in memory`);
    }
    broker.answer = () => 'acknowledge';
    broker.connected = false;
    settle(unreached, ...Array.from({ length: 500 }, (_, n) => n + 1));
    broker.connected = true;
    for (let turn = 0; publisher.status().waiting > 0; turn++) {
      assert.ok(turn < 50, `${publisher.status().waiting} events are not sent`);
      await turns();
    }
  });

  test('costs a topic that refuses everything its limit of probes an interval, and other topics nothing', async (t) => {
    const { add, sent, settle, after, publisher } = rig(t, { maxAttempts: 1_000 });
    await add('a b c d e f g h r/a r/b');
    assert.deepEqual(await sent(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    settle(refused, 1, 2, 3, 4, 5, 6, 7, 8);
    settle(ack, 9, 10);
    await add('i r/c');
    assert.deepEqual(await sent(), [12]);
    assert.equal(publisher.blocked(10).count, 3);
    for (let minute = 0; minute < 4; minute++) {
      assert.deepEqual(await after(60_000), [1, 2, 3]);
      settle(refused, 1, 2, 3);
      await turns();
    }
    assert.deepEqual(await after(60_000), [1, 2, 3]);
    settle(ack, 1, 2, 3);
    assert.deepEqual(await sent(), [4, 5, 6, 7, 8, 11], 'it is open again');
  });

  test('does not wait for a slow key: what is behind it becomes rows, and is sent in order', async (t) => {
    const { add, sent, settle, after } = rig(t);
    await add('a a a a a a b c');
    assert.deepEqual(await sent(), [1, 7, 8]);
    await after(5_000);
    await add('b b b b b d');
    assert.deepEqual(await sent(), [14]);
    settle(ack, 7);
    assert.deepEqual(await sent(), [9]);
    settle(ack, 1);
    assert.deepEqual(await sent(), [2]);
  });

  test('continues with a key whose event was removed by somebody else', async (t) => {
    const { add, sent, settle, after, store, publisher, deferred } = rig(t);
    await add('a a a');
    await sent();
    settle(refused, 1);
    await turns();
    assert.deepEqual(deferred(), [1, 2, 3]);
    await store.maintain(() => store.connection.exec('DELETE FROM outbox_waiting WHERE id = 1'));
    assert.deepEqual(await after(1_000), [2]);
    settle(ack, 2);
    assert.deepEqual(await sent(), [3]);
    settle(ack, 3);
    await turns();
    assert.equal(publisher.inMemory, 0);
  });
});
