/**
 * Bad days of the broker, with a real one: unreachable for a week, killed, refusing. Whatever it was, afterwards an
 * independent consumer finds each change, each key in order.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { afterEach, before, describe, test } from 'node:test';
import Database from 'better-sqlite3';
import { until } from '../../src/shared/base/wait.fixture.ts';
import type { Acl } from '../kafka/admin.ts';
import { brokerMissing, killable, startBroker, type TestBroker, users } from '../kafka/broker.ts';
import { OutboxLedger, storedVersions } from '../soak/outbox-ledger.ts';
import { temporaryDirectory } from './daemon.ts';
import { fakeTime, withoutFaketime } from './faketime.ts';
import { residentMiB } from './faults.ts';
import { type Hub, isAlive, startHub } from './hub.ts';
import type { HubApi } from './hub-api.ts';
import * as hubs from './hub-support.ts';
import { consumerMissing, type ReaderSettings, type TopicMessage } from './outbox-reader.ts';

const { alerts, apiOf, close, consumed, create, dictionary, drained, expect, firsts, items, outbox } = hubs;
const { plainKafka, prefixOf, saslKafka, SCOPES, sendBundle, topicsOf, update } = hubs;

const skip = brokerMissing || consumerMissing;
const WEEK_STEPS = 12;
const WEEK_KEYS = 120;
/** Each bundle's worker comes and goes; what waits would be some 10 MiB if it were held. */
const GROWTH_LIMIT_MIB = 30;
const LAG_ALERT = 'RefdataOutboxLagHigh';

function pathOf(hub: Hub): string {
  return join(hub.dir, 'data', 'refdata.db');
}

function sql(hub: Hub, statement: string): unknown {
  const file = new Database(pathOf(hub), { readonly: true });
  try {
    return file.prepare(statement).pluck().get();
  } finally {
    file.close();
  }
}

/** Drained, and the topics say what the database says: all of it, in order, nothing else. Answers how many came twice. */
async function complete(
  broker: TestBroker,
  hub: Hub,
  prefix: string,
  more: Partial<ReaderSettings> = {},
): Promise<{ messages: readonly TopicMessage[]; duplicates: number }> {
  await drained(apiOf(hub));
  const messages = await consumed(broker, prefix, more);
  const ledger = new OutboxLedger();
  ledger.know(storedVersions(pathOf(hub)));
  return { messages, duplicates: ledger.published(messages) };
}

describe('a broker that has bad days', { skip }, () => {
  let broker: TestBroker;
  before(async () => {
    broker = await startBroker(killable);
  });
  afterEach(async () => {
    broker.thaw();
    if (!isAlive(broker.pid())) await broker.restart();
  });

  test('unreachable at the start, and for as many changes as a week has: no attempt is spent, nothing lost, memory stays flat', async (t) => {
    const prefix = prefixOf('week');
    const dir = temporaryDirectory();
    await broker.kill();
    const hub = await startHub({ dir, config: saslKafka(broker, dir, prefix) });
    const api = apiOf(hub);
    for (const scope of SCOPES) await dictionary(api, scope.toLowerCase(), scope);
    let early = 0;
    for (let hours = 1; hours <= WEEK_STEPS; hours++) {
      const bundle = SCOPES.flatMap((scope) => items(scope.toLowerCase(), WEEK_KEYS, hours));
      await expect(200, sendBundle(api, bundle));
      if (hours === 1) await create(api, 'public', 'single', { hours });
      else await update(api, 'public', 'single', hours - 1, { hours });
      if (hours === WEEK_STEPS / 4) early = residentMiB(hub.pid());
    }
    const grown = residentMiB(hub.pid()) - early;
    const offline = await outbox(api);
    assert.equal(offline.waiting, WEEK_STEPS * (SCOPES.length * WEEK_KEYS + 1));
    assert.equal(offline.broker.connected, false);
    assert.match(offline.broker.reason, /refused/, 'the operator sees why');
    assert.equal(offline.refusedTotal, 0);
    assert.equal(sql(hub, 'SELECT max(attempts) FROM outbox'), 0);
    assert.ok((await alerts(api)).includes(LAG_ALERT));
    t.diagnostic(`${offline.waiting} changes waited; resident memory grew by ${grown.toFixed(1)} MiB`);
    assert.ok(grown < GROWTH_LIMIT_MIB, `resident memory grew by ${grown} MiB`);

    await broker.restart();
    const { duplicates } = await complete(broker, hub, prefix);
    assert.equal(duplicates, 0);
    assert.equal(sql(hub, 'SELECT max(attempts) FROM outbox'), 0);
    assert.equal((await outbox(api)).deadLetters, 0);
    assert.ok(!(await alerts(api)).includes(LAG_ALERT));
    assert.equal(await hub.stop(), 0);
  });

  test('the clock is set back by a year while the broker is unreachable: it is found again', {
    skip: withoutFaketime,
  }, async () => {
    const prefix = prefixOf('clock');
    const dir = temporaryDirectory();
    const time = fakeTime(dir, '+1y');
    await broker.kill();
    const { env } = time;
    const hub = await startHub({ dir, config: plainKafka(broker, prefix), env });
    const api = apiOf(hub);
    await dictionary(api, 'd');
    await create(api, 'd', 'key', { n: 1 });
    // By then each thread of the Kafka client waits for a time that is a year ahead when the clock is set back.
    await until('it has been looked for', async () => (await outbox(api)).broker.forSeconds >= 3);
    time.set('+0');
    await update(api, 'd', 'key', 1, { n: 2 });
    await broker.restart();
    await complete(broker, hub, prefix);
    assert.equal(await hub.stop(), 0);
  });

  test('one topic refused by ACL: the others continue; once granted, all of it arrives in order', async () => {
    const prefix = 'acl.events';
    const dir = temporaryDirectory();
    await topicsFor(broker, prefix, ['public', 'internal']);
    const hub = await startHub({ dir, config: saslKafka(broker, dir, prefix) });
    const api = apiOf(hub);
    await threeDictionaries(api, 5);
    const blocked = await until('the refused ones alone wait', async () => {
      const now = await outbox(api);
      return now.waiting === 15 && now.blockedKeyCount > 0 && now;
    });
    assert.ok(blocked.blockedKeys.every(({ topic }) => topic === `${prefix}.restricted`));
    assert.match(blocked.blockedKeys[0]?.reason ?? '', /authoriz/i);
    assert.ok(blocked.blockedKeys.every(({ attempts }) => attempts >= 1));
    assert.equal(blocked.broker.connected, true);
    assert.equal(blocked.deadLetters, 0);
    const others = await consumed(broker, prefix);
    assert.equal(others.length, 30);
    // A change to a topic that works is not held up by one that does not.
    await create(api, 'public', 'beside', {});
    await until('it goes past', async () => (await outbox(api)).waiting === 15);
    await broker.admin.allow(writing(`${prefix}.restricted`));
    const { messages } = await complete(broker, hub, prefix);
    assert.equal(messages.length, 46);
    assert.equal((await outbox(api)).blockedKeyCount, 0);
    assert.equal(await hub.stop(), 0);
  });

  test('a topic is deleted: it is made again as it should be, and what is changed from then on arrives', async () => {
    const prefix = prefixOf('deleted');
    const dir = temporaryDirectory();
    const hub = await startHub({ dir, config: saslKafka(broker, dir, prefix) });
    const api = apiOf(hub);
    await dictionary(api, 'd');
    await create(api, 'd', 'key', { n: 1 });
    await drained(api);
    await broker.admin.deleteTopic(`${prefix}.public`);
    const created = `kafka topic created topic=${prefix}.public`;
    let version = 1;
    // Which of these changes the old topic took along is not decided.
    await until(
      'the topic is made again',
      async () => {
        await update(api, 'd', 'key', version, { n: ++version });
        await drained(api);
        return hub.logLines.filter((line) => line.includes(created)).length === 2;
      },
      60_000,
    );
    await update(api, 'd', 'key', version, { n: ++version });
    await create(api, 'd', 'other', { n: 1 });
    await drained(api);
    const arrived = firsts(await consumed(broker, prefix, { order: false }));
    assert.ok(arrived.includes(`d:key ${version}`) && arrived.includes('d:other 1'), arrived.join(', '));
    const { broker: seen, deadLetters } = await outbox(api);
    assert.equal(deadLetters, 0);
    const topic = seen.topics.find(({ name }) => name === `${prefix}.public`);
    assert.deepEqual([topic?.partitions, topic?.lacks], [3, []]);
    assert.equal(seen.producersReplaced, 0);
    await close(api, 'd', 'key', version);
    await drained(api);
    assert.equal(await hub.stop(), 0);
  });
});

/** `count` keys of three versions each, in a dictionary of each scope. */
async function threeDictionaries(api: HubApi, count: number): Promise<void> {
  for (const scope of SCOPES) {
    const of = scope.toLowerCase();
    await dictionary(api, of, scope);
    for (let version = 0; version < 3; version++) await expect(200, sendBundle(api, items(of, count, version)));
  }
}

/** Outside the prefix that the device may write: these it may, and not the others. */
async function topicsFor(broker: TestBroker, prefix: string, granted: readonly string[]): Promise<void> {
  for (const name of Object.keys(topicsOf(prefix))) {
    await broker.admin.createTopic(name, 3, { 'retention.ms': '604800000', 'cleanup.policy': 'delete' });
  }
  await broker.admin.allow(granted.flatMap((scope) => writing(`${prefix}.${scope}`)));
}

function writing(name: string): Acl[] {
  const operations = ['write', 'describe', 'describeConfigs'] as const;
  return operations.map((operation) => ({
    user: users.device.name,
    resource: 'topic',
    pattern: 'literal',
    name,
    operation,
  }));
}
