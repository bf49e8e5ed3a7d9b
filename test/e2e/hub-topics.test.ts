/**
 * The topics as an independent consumer finds them: Debian's confluent-kafka for Python, with SCRAM-SHA-512 over TLS, judges
 * each message by the specification (outbox_consumer.py); here it is held against what was asked for.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { brokerMissing, startBroker, type TestBroker, TOPIC_PREFIX, users } from '../kafka/broker.ts';
import { OutboxLedger, storedVersions } from '../soak/outbox-ledger.ts';
import { temporaryDirectory, writeConfig } from './daemon.ts';
import { type Hub, startHub } from './hub.ts';
import { HubApi, recordPath } from './hub-api.ts';
import {
  apiOf,
  close,
  create,
  dictionary,
  drained,
  expect,
  saslKafka,
  sendBundle,
  topicsOf,
  update,
} from './hub-support.ts';
import {
  consumerMissing,
  type ReaderSettings,
  type ReadTopics,
  readTopics,
  type TopicMessage,
} from './outbox-reader.ts';
import { addToken } from './run-cli.ts';

const skip = brokerMissing || consumerMissing;
const DEVICE = 'box-17';
const OPEN = '9999-12-31T23:59:59.999999+00:00';
const SOON = '2999-01-01T00:00:00+00:00';
const CYRILLIC = 'Ключ: ü/ß %2F 💡';
const LONG = 'k'.repeat(255) + 'ü';

describe('the topics, read by an independent consumer with SCRAM over TLS', { skip }, () => {
  let broker: TestBroker;
  let hub: Hub;
  let read: ReadTopics;
  const asked: string[] = [];

  /** A change with what its events must be: "key version action", in order. */
  const change = async (answer: Promise<unknown>, ...events: readonly string[]): Promise<void> => {
    await answer;
    asked.push(...events);
  };

  before(async () => {
    broker = await startBroker();
    const dir = temporaryDirectory();
    const config = { ...saslKafka(broker, dir, TOPIC_PREFIX), device: { id: DEVICE, inventory: false } };
    const token = await addToken(writeConfig(dir, config), 'meister', 'writer', 'refdata-restricted');
    hub = await startHub({ dir, config });
    const local = apiOf(hub);
    const writer = new HubApi(hub.address, token);
    await changes(local, writer);
    await drained(local);
    const more = ['internal', 'restricted'].map((scope) => `${TOPIC_PREFIX}.${scope}`);
    await broker.admin.allow(
      more.flatMap((name) =>
        (['read', 'describe'] as const).map((operation) => {
          return { user: users.consumer.name, resource: 'topic', pattern: 'literal', name, operation } as const;
        }),
      ),
    );
    read = await readTopics({
      ...readerOf(broker),
      describe: { 'bootstrap.servers': broker.plain, 'security.protocol': 'plaintext' },
    });
    writer.close();
  });

  async function changes(local: HubApi, writer: HubApi): Promise<void> {
    await dictionary(local, 'werkstoff', 'PUBLIC', { schema: { type: 'object' } });
    await dictionary(local, 'rezept', 'INTERNAL');
    await dictionary(local, 'geheim', 'RESTRICTED');
    await expect(200, local.send('PATCH', '/api/v1/dictionaries/rezept', { body: { title: 'Rezepte' } }));
    await draft(local);

    const whole = { a: 1, b: { deep: [1, 2, { c: true }] }, gone: 'x', nul: null, same: [1.5, -0.25, 1e21] };
    const words = { changeReason: 'erste Lieferung – "neu"\nzweite Zeile' };
    await change(create(writer, 'werkstoff', CYRILLIC, whole, words), `werkstoff:${CYRILLIC} 1 created`);
    const changed = { a: true, b: { deep: [1, 2, { c: 1 }] }, nul: null, same: [1.5, -0.25, 1e21], fresh: '' };
    await change(update(local, 'werkstoff', CYRILLIC, 1, changed), `werkstoff:${CYRILLIC} 2 updated`);
    await change(update(local, 'werkstoff', CYRILLIC, 2, changed), `werkstoff:${CYRILLIC} 3 updated`);
    await change(close(local, 'werkstoff', CYRILLIC, 3), `werkstoff:${CYRILLIC} 4 closed`);
    await change(create(local, 'werkstoff', CYRILLIC, {}), `werkstoff:${CYRILLIC} 5 created`);
    await change(create(local, 'werkstoff', LONG, { long: true }), `werkstoff:${LONG} 1 created`);

    const soon = { validFrom: '2999-01-01T01:00:00+01:00' };
    await change(create(local, 'rezept', 'bald', { x: 1 }, soon), 'rezept:bald 1 created');
    await change(close(local, 'rezept', 'bald', 1), 'rezept:bald 2 closed');

    const keys = ['a', 'b', 'c:d'];
    for (const key of keys) await change(create(local, 'geheim', key, { key }), `geheim:${key} 1 created`);
    const bulk = local.post('/api/v1/dictionaries/geheim/bulk-close', { businessKeys: keys, changeReason: 'Inventur' });
    await change(expect(200, bulk), ...keys.map((key) => `geheim:${key} 2 closed`));

    const bundle = [
      { dictionary: 'werkstoff', businessKey: LONG, data: { long: false } },
      { dictionary: 'werkstoff', businessKey: CYRILLIC, data: {} },
      { dictionary: 'rezept', businessKey: 'bald', data: { x: 2 }, validFrom: SOON },
      { dictionary: 'geheim', businessKey: 'neu', data: { from: 'bundle' } },
    ];
    const events = [`werkstoff:${LONG} 2 updated`, 'rezept:bald 3 created', 'geheim:neu 1 created'];
    await change(expect(200, sendBundle(writer, bundle, 'Sammelimport')), ...events);
    const end = [{ dictionary: 'geheim', businessKey: 'neu', action: 'close' }];
    await change(expect(200, sendBundle(local, end)), 'geheim:neu 2 closed');
  }

  const of = (name: string): readonly TopicMessage[] =>
    read.messages.filter(({ event }) => `${event.dictionary}:${event.businessKey} ${event.version}` === name);
  const one = (name: string): TopicMessage['event'] => {
    const [message, ...others] = of(name);
    assert.ok(message && others.length === 0, `${name} is there once`);
    return message.event;
  };

  test('finds every field, header, key, partition and order as the specification has them', () => {
    assert.deepEqual(read.faults, []);
    assert.deepEqual(new Set(read.messages.map(({ headers }) => headers['device-id'])), new Set([DEVICE]));
  });

  test('finds each change once, and nothing else: no definition, no draft', () => {
    const found = read.messages.map(({ event: { dictionary: of, businessKey, version, action } }) => {
      return `${of}:${businessKey} ${version} ${action}`;
    });
    assert.deepEqual(found.sort(), [...asked].sort());
  });

  test('finds what the database has, to the byte', () => {
    const ledger = new OutboxLedger();
    const versions = storedVersions(join(hub.dir, 'data', 'refdata.db'));
    assert.equal(versions.length, asked.length);
    ledger.know(versions);
    assert.equal(ledger.published(read.messages), 0);
  });

  test('finds who, why, and from when to when', () => {
    const first = one(`werkstoff:${CYRILLIC} 1`);
    assert.equal(first.changedBy, 'meister');
    assert.equal(first.changeReason, 'erste Lieferung – "neu"\nzweite Zeile');
    assert.deepEqual([first.validFrom, first.validTo], [first.txTime, OPEN]);
    assert.equal(one(`werkstoff:${CYRILLIC} 2`).changedBy, 'local');
    assert.equal(one('geheim:neu 1').changedBy, 'meister');
    assert.equal(one('geheim:a 2').changeReason, 'Inventur');
    assert.equal(one('geheim:neu 1').changeReason, 'Sammelimport');
    assert.deepEqual([one('rezept:bald 1').validFrom, one('rezept:bald 1').validTo], [SOON, OPEN]);
    const ended = one('rezept:bald 2');
    assert.deepEqual([ended.validFrom, ended.validTo], [ended.txTime, ended.txTime], 'what lay ahead never came to be');
    const closed = one(`werkstoff:${CYRILLIC} 4`);
    assert.equal(closed.validTo, closed.txTime);
    assert.equal(closed.validFrom, one(`werkstoff:${CYRILLIC} 3`).validFrom);
  });

  test('finds three topics with a retention of 7 days, cleanup by deletion, and at least 3 partitions', () => {
    assert.deepEqual(Object.keys(read.topics).sort(), Object.keys(topicsOf(TOPIC_PREFIX)).sort());
    for (const [name, { partitions, config }] of Object.entries(read.topics)) {
      assert.ok(partitions >= 3, `${name}: ${partitions} partitions`);
      assert.deepEqual(config, { 'retention.ms': '604800000', 'cleanup.policy': 'delete' }, name);
    }
  });

  test('finds the hub at rest afterwards: nothing waits, nothing was refused', async () => {
    const api = apiOf(hub);
    const { waiting, refusedTotal, deadLetters } = await drained(api);
    assert.deepEqual({ waiting, refusedTotal, deadLetters }, { waiting: 0, refusedTotal: 0, deadLetters: 0 });
    assert.equal((await api.get(recordPath('werkstoff', LONG))).body?.version, 2);
    assert.equal(await hub.stop(), 0);
  });
});

/** The whole workflow of a draft: each step is an event, and none is a topic's. */
async function draft(api: HubApi): Promise<void> {
  const path = '/api/v1/dictionaries/rezept/drafts';
  const { id } = await expect(201, api.post(path, { schema: { type: 'object', minProperties: 1 } }));
  for (const step of ['request-review', 'decide', 'publish']) {
    const body = step === 'decide' ? { decision: 'approved' } : {};
    await expect(200, api.post(`${path}/${String(id)}/${step}`, body));
  }
}

function readerOf(broker: TestBroker): ReaderSettings {
  return {
    bootstrap: broker.sasl,
    security: {
      'security.protocol': 'sasl_ssl',
      'sasl.mechanism': 'SCRAM-SHA-512',
      'sasl.username': users.consumer.name,
      'sasl.password': users.consumer.password,
      'ssl.ca.location': broker.caFile,
    },
    topics: topicsOf(TOPIC_PREFIX),
    group: `${users.consumer.name}.proof`,
    deviceId: DEVICE,
  };
}
