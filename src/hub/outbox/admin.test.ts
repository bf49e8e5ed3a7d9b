import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Alerts } from '../../shared/base/alerts.ts';
import { Admin, type HealthReport, type OutboxAdmin, outboxRules } from './admin.ts';
import { author, openStoreIn } from './change-store.fixture.ts';
import { emitEvent, recordEvent } from './event.fixture.ts';
import {
  change,
  changeAtOnce,
  FakeBroker,
  keys,
  publisherOn,
  type Rig,
  rigFor,
  settles,
  turns,
} from './publisher/publisher.fixture.ts';

function adminFor(t: TestContext): Rig & { readonly admin: OutboxAdmin } {
  const rig = rigFor(t);
  const admin = new Admin({ ...rig, topicOf: (scope) => `refdata.${scope.toLowerCase()}` });
  return { ...rig, admin };
}

/** Starts the publisher; resolves when each change is published or a dead letter. */
async function answered(rig: Rig, keys: readonly string[], answer: FakeBroker['answer']): Promise<void> {
  const { store, broker, publisher, clock } = rig;
  broker.answer = answer;
  publisher.start();
  await change(store, keys);
  await settles('settled', clock, () => publisher.status().waiting === 0);
}

const all = { limit: 1_000, cursor: undefined };

test('the status shows what waits, how old it is, and which keys are blocked and why', async (t) => {
  const { admin, store, broker, publisher, clock } = adminFor(t);
  broker.answer = ({ key }) => (key === 'tools:bad' ? 'refuse' : 'acknowledge');
  publisher.start();
  await change(store, ['bad', 'good', 'bad']);
  await settles('published', clock, () => publisher.status().publishedTotal === 1);
  const before = admin.status().oldest?.ageSeconds ?? 0;
  clock.stepWall(90_000);
  const status = admin.status();
  assert.deepEqual([status.waiting, status.oldest?.id, status.deadLetters, status.blockedKeyCount], [2, 1, 0, 1]);
  assert.equal((status.oldest?.ageSeconds ?? 0) - before, 90);
  assert.equal(status.refusedTotal, status.blockedKeys[0]?.attempts);
  assert.deepEqual(
    status.blockedKeys.map(({ topic, key, outboxId, reason }) => [topic, key, outboxId, reason]),
    [['refdata.public', 'tools:bad', 1, 'not allowed']],
  );
  const stored = store.connection.prepare('SELECT attempts, last_error AS reason FROM outbox WHERE id = 1');
  assert.deepEqual(stored.get(), { attempts: status.refusedTotal, reason: 'not allowed' });
  assert.deepEqual([status.broker.configured, status.broker.connected], [true, true]);
  clock.stepWall(-1e9);
  assert.equal(admin.status().oldest?.ageSeconds, 0, 'never negative');
});

test('each waiting event is listed with why it waits, by dictionary and key, in pages', async (t) => {
  const { admin, store, broker, publisher, clock } = adminFor(t);
  broker.connected = false;
  await change(store, ['bad', 'away', 'bad', 'slow', 'good']);
  const why = (query: object = {}) =>
    admin.waitingEvents({ ...all, ...query }).items.map(({ id, waitsFor, reason }) => [id, waitsFor, reason]);
  assert.deepEqual(why({ limit: 1 }), [[1, 'broker', 'not connected']]);
  broker.connected = true;
  const answers = { bad: 'refuse', away: 'time out', slow: 'silent', good: 'acknowledge' } as const;
  broker.answer = ({ key }) => answers[key.slice('tools:'.length) as keyof typeof answers];
  publisher.start();
  await settles('published', clock, () => publisher.status().publishedTotal === 1);
  await settles('deferred', clock, () => why().some(([, , reason]) => String(reason).includes('reach')));
  assert.deepEqual(why(), [
    [1, 'retry', 'not allowed'],
    [2, 'retry', 'it did not reach the broker'],
    [3, 'earlier', 'event 1 of the same record is sent first'],
    [4, 'turn', 'it is in flight, or is sent soon'],
  ]);
  const [first] = admin.waitingEvents(all).items;
  assert.deepEqual([first?.topic, first?.businessKey, first?.action], ['refdata.public', 'bad', 'created']);
  assert.ok((first?.attempts ?? 0) > 0 && (first?.nextAttemptInSeconds ?? -1) >= 0);
  assert.deepEqual(
    why({ dictionary: 'tools', businessKey: 'bad' }).map(([id]) => id),
    [1, 3],
  );
  assert.deepEqual([why({ dictionary: 'others' }), why({ businessKey: 'good' })], [[], []]);
  const page = admin.waitingEvents({ limit: 1, cursor: undefined, businessKey: 'bad' });
  const next = admin.waitingEvents({ limit: 1, cursor: page.nextCursor, businessKey: 'bad' });
  assert.deepEqual(
    [page, next].flatMap(({ items }) => items.map(({ id }) => id)),
    [1, 3],
  );
  assert.throws(() => admin.deadLetters({ limit: 1, cursor: page.nextCursor }), { code: 'INVALID_ARGUMENT' });
});

test('a topic of which too many records are refused is named as the reason of the others', async (t) => {
  const { store, broker, clock } = rigFor(t);
  const publisher = publisherOn(store, broker, clock, { limits: { blockedKeys: 1 } });
  const admin = new Admin({ store, broker, publisher, topicOf: (scope) => scope, clock });
  broker.answer = () => 'refuse';
  await change(store, ['bad', 'other']);
  publisher.start();
  const reasons = (): unknown[] => admin.waitingEvents(all).items.map(({ waitsFor }) => waitsFor);
  await settles('refused', clock, () => reasons()[0] === 'retry' && reasons()[1] !== 'turn');
  assert.deepEqual(reasons(), ['retry', 'topic']);
});

test('a page of a filtered list reads 10,000 rows at most, and leads to the next ones', async (t) => {
  const { admin, store } = adminFor(t);
  await changeAtOnce(store, keys(10_002));
  const rare = { limit: 10, businessKey: 'k10001' };
  const first = admin.waitingEvents({ ...rare, cursor: undefined });
  assert.deepEqual([first.items, typeof first.nextCursor], [[], 'string']);
  const second = admin.waitingEvents({ ...rare, cursor: first.nextCursor });
  assert.deepEqual([second.items.map(({ id }) => id), second.nextCursor], [[10_002], undefined]);
});

test('a dead letter is listed with its envelope, requeued once, and is sent again', async (t) => {
  const rig = adminFor(t);
  const { admin, broker, publisher, clock } = rig;
  await answered(rig, ['a', 'b', 'c', 'd', 'e'], ({ id }) => (id % 2 === 1 ? 'refuse for ever' : 'acknowledge'));
  assert.equal(admin.status().deadLetters, 3);
  const first = admin.deadLetters({ limit: 2, cursor: undefined });
  assert.deepEqual(
    first.items.map(({ id, topic, attempts, reason, envelope }) => [
      id,
      topic,
      attempts,
      reason,
      envelope['businessKey'],
    ]),
    [
      [1, 'refdata.public', 1, 'not allowed', 'a'],
      [3, 'refdata.public', 1, 'not allowed', 'c'],
    ],
  );
  const ofB = admin.deadLetters({ ...all, dictionary: 'tools', businessKey: 'c' });
  assert.deepEqual(
    ofB.items.map(({ id }) => id),
    [3],
  );
  const second = admin.deadLetters({ limit: 2, cursor: first.nextCursor });
  assert.deepEqual([second.items.map(({ id }) => id), second.nextCursor], [[5], undefined]);

  broker.answer = () => 'acknowledge';
  await admin.requeue(3, 'anna', 'the limit was raised');
  assert.equal(publisher.status().waiting, 1);
  await settles('published', clock, () => publisher.status().waiting === 0);
  assert.deepEqual(broker.arrived.map(({ id }) => id).at(-1), 3);
  await assert.rejects(admin.requeue(3, 'anna', ''), { code: 'NOT_FOUND' });
  await admin.discard(5, 'anna', 'no use');
  await assert.rejects(admin.discard(5, 'anna', ''), { code: 'NOT_FOUND' });
  await assert.rejects(admin.discard(2, 'anna', ''), { code: 'NOT_FOUND' });
  assert.deepEqual(
    admin.deadLetters(all).items.map(({ id }) => id),
    [1],
  );
  assert.deepEqual(
    admin
      .audit(undefined, all)
      .items.map(({ actor, action, subject }) => [actor, action, subject])
      .slice(0, 3),
    [
      ['anna', 'outbox.discard', 'tools:e'],
      ['anna', 'outbox.requeue', 'tools:c'],
      ['publisher', 'outbox.dlq', 'tools:e'],
    ],
  );
  assert.deepEqual(admin.audit('outbox.requeue', all).items[0]?.details, {
    outboxId: 3,
    attempts: 1,
    reason: 'the limit was raised',
  });
});

test('a dead letter whose version is lost is named, and can be discarded', async (t) => {
  const rig = adminFor(t);
  const { admin, store } = rig;
  await answered(rig, ['a', 'b'], () => 'refuse for ever');
  store.connection.exec('PRAGMA foreign_keys = OFF; DELETE FROM record_versions WHERE id = 1');
  const message = /lost the version of outbox event 1$/;
  assert.throws(() => admin.deadLetters(all), { code: 'STORAGE_DAMAGED', message });
  await admin.discard(1, 'anna', 'its version is lost');
  assert.deepEqual(
    admin.deadLetters(all).items.map(({ id }) => id),
    [2],
  );
});

test('if a dead letter is requeued or discarded twice at once, one request succeeds and the other finds none', async (t) => {
  const rig = adminFor(t);
  const { admin, broker, publisher, clock } = rig;
  await answered(rig, ['a', 'b', 'c'], () => 'refuse for ever');
  broker.answer = () => 'acknowledge';
  const results = await Promise.allSettled([
    admin.requeue(1, 'anna', ''),
    admin.requeue(1, 'bert', ''),
    admin.requeue(2, 'anna', ''),
    admin.discard(2, 'bert', ''),
    admin.discard(3, 'anna', ''),
    admin.discard(3, 'bert', ''),
    admin.requeue(3, 'bert', ''),
  ]);
  assert.deepEqual(
    results.map((result) => (result.status === 'fulfilled' ? 'done' : result.reason.code)),
    ['done', 'NOT_FOUND', 'done', 'NOT_FOUND', 'done', 'NOT_FOUND', 'NOT_FOUND'],
  );
  assert.equal(publisher.status().waiting, 2);
  await settles('published', clock, () => publisher.status().waiting === 0);
  await turns();
  assert.deepEqual(
    broker.arrived.map(({ id }) => id),
    [1, 2],
  );
  assert.deepEqual(
    admin.audit(undefined, all).items.map(({ action }) => action),
    ['outbox.discard', 'outbox.requeue', 'outbox.requeue', 'outbox.dlq', 'outbox.dlq', 'outbox.dlq'],
  );
});

test('a dead letter requeued while the publisher stops waits, and the next process sends it', async (t) => {
  const rig = adminFor(t);
  const { admin, store, broker, publisher, clock, dir } = rig;
  await answered(rig, ['a', 'b'], () => 'refuse for ever');
  broker.answer = () => 'acknowledge';
  const stopped = publisher.stop(1_000);
  await admin.requeue(1, 'anna', '');
  await stopped;
  await admin.requeue(2, 'anna', '');
  await turns();
  assert.deepEqual([broker.arrived, publisher.status().waiting], [[], 2]);
  await store.close();
  const again = openStoreIn(t, dir, { clock });
  const next = new FakeBroker();
  const nextPublisher = publisherOn(again, next, clock);
  nextPublisher.start();
  await settles('published', clock, () => nextPublisher.status().waiting === 0);
  assert.deepEqual(
    next.arrived.map(({ id }) => id),
    [1, 2],
  );
  await nextPublisher.stop(0);
});

test('dead letters requeued the moment they appear, while all else drains, are each sent, and nothing is sent twice', async (t) => {
  const { admin, store, broker, publisher, clock } = adminFor(t);
  await changeAtOnce(
    store,
    Array.from({ length: 3_000 }, (_, n) => `k${n % 500}`),
  );
  const refused = new Map<number, number>();
  broker.answer = ({ id }) => {
    if (id % 7 !== 0 || (refused.get(id) ?? 0) === 2) return 'acknowledge';
    refused.set(id, (refused.get(id) ?? 0) + 1);
    return 'refuse for ever';
  };
  publisher.start();
  const requeues: Promise<void>[] = [];
  const asked = new Set<string>();
  await settles('all published', clock, () => {
    for (const { id, diedAt } of admin.deadLetters(all).items) {
      const name = `${id} ${diedAt} ${refused.get(id)}`;
      if (!asked.has(name)) requeues.push(admin.requeue(id, 'anna', ''));
      asked.add(name);
    }
    return publisher.status().waiting === 0 && broker.acknowledged.size === 3_000;
  });
  await Promise.all(requeues);
  assert.equal(requeues.length, 2 * Math.floor(3_000 / 7));
  assert.deepEqual([admin.status().deadLetters, publisher.inMemory], [0, 0]);
  assert.equal(broker.arrived.length, 3_000);
});

test('the audit is read newest first, by action, page by page', async (t) => {
  const { admin, store } = adminFor(t);
  for (let n = 0; n < 25; n++) {
    await store.commit(author, (tx) => tx.audit(n % 5 === 0 ? 'five' : 'other', `s${n}`, { n }));
  }
  const seen: string[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = admin.audit(undefined, { limit: 7, cursor });
    seen.push(...page.items.map(({ subject }) => subject));
    cursor = page.nextCursor;
    if (cursor === undefined) break;
  }
  assert.deepEqual(
    seen,
    Array.from({ length: 25 }, (_, n) => `s${24 - n}`),
  );
  assert.deepEqual(
    admin.audit('five', all).items.map(({ details }) => details['n']),
    [20, 15, 10, 5, 0],
  );
  assert.deepEqual(admin.audit('none', all), { items: [], nextCursor: undefined });
  assert.throws(() => admin.audit(undefined, { limit: 7, cursor: 'x' }), { code: 'INVALID_ARGUMENT' });
});

test('alerts report lag, dead letters and damage, with their age', async (t) => {
  const { admin, store, broker, publisher, clock } = adminFor(t);
  assert.deepEqual(admin.alerts(), []);
  broker.connected = false;
  publisher.start();
  await store.commit(author, (tx) => {
    for (let n = 0; n < 101; n++) emitEvent(tx, recordEvent(`k${n}`));
  });
  assert.deepEqual(
    admin.alerts().map(({ name, forSeconds, value }) => [name, forSeconds, value]),
    [['RefdataOutboxLagHigh', 0, 101]],
  );
  broker.answer = ({ id }) => (id === 1 ? 'refuse for ever' : 'acknowledge');
  broker.connected = true;
  await settles('settled', clock, () => publisher.status().waiting === 0);
  store.reportDamage('refdata.db is damaged: x');
  assert.deepEqual(
    admin.alerts().map(({ name }) => name),
    ['RefdataOutboxDLQNonEmpty', 'RefdataStoreDamaged'],
  );
});

const well: HealthReport = {
  waiting: 0,
  deadLetters: 0,
  damage: '',
  full: '',
  topicsLacking: [],
  brokerUnreachable: '',
};

test('each rule fires at its own condition and not before', () => {
  const table: readonly [Partial<HealthReport>, readonly (readonly [string, string, number])[]][] = [
    [{}, []],
    [{ waiting: 100 }, []],
    [{ waiting: 101 }, [['RefdataOutboxLagHigh', 'warning', 101]]],
    [{ deadLetters: 1 }, [['RefdataOutboxDLQNonEmpty', 'critical', 1]]],
    [{ damage: 'refdata.db is damaged: x' }, [['RefdataStoreDamaged', 'critical', 1]]],
    [{ full: 'the disk is full' }, [['RefdataStoreFull', 'critical', 1]]],
    [{ topicsLacking: ['a lacks b', 'c lacks d'] }, [['RefdataBrokerTopicsLacking', 'warning', 2]]],
    [
      { waiting: 5_000, deadLetters: 3 },
      [
        ['RefdataOutboxLagHigh', 'warning', 5_000],
        ['RefdataOutboxDLQNonEmpty', 'critical', 3],
      ],
    ],
  ];
  for (const [healthReport, expected] of table) {
    const firing = new Alerts(outboxRules).look({ ...well, ...healthReport }, 0);
    assert.deepEqual(
      firing.map(({ name, severity, value }) => [name, severity, value]),
      expected,
    );
    for (const { summary } of firing) assert.notEqual(summary, '');
  }
});

test('a broker that is unreachable is an alert after an hour', () => {
  const alerts = new Alerts(outboxRules);
  const names = (brokerUnreachable: string, seconds: number): string[] =>
    alerts.look({ ...well, brokerUnreachable }, seconds * 1_000).map(({ name, summary }) => `${name}: ${summary}`);
  assert.deepEqual(names('no route', 0), []);
  assert.deepEqual(names('refused', 3_599), []);
  assert.match(String(names('refused', 3_600)), /^KafkaNotConnected: .*refused/);
  assert.deepEqual(names('', 3_610), []);
  assert.deepEqual(names('refused', 3_620), []);
});
