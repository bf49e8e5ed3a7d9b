/** The Broker against Apache Kafka: what is taken, acknowledged, refused, and the state shown for it, also during failures. */
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import type { KafkaOptions } from '../../src/hub/kafka/face.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { brokerMissing, killable, startBroker, type TestBroker, TOPIC_PREFIX, users } from './broker.ts';
import { consumed, messageOf, met, optionsFor, topicSpec, watched } from './offering.ts';

const PUBLIC = `${TOPIC_PREFIX}.public`;

let kafka: TestBroker;
before(async () => {
  if (brokerMissing === false) kafka = await startBroker(killable);
});

describe('a broker at work', { skip: brokerMissing, concurrency: true }, () => {
  const byScram = (over: Partial<KafkaOptions> = {}): KafkaOptions => ({
    ...optionsFor(kafka.sasl),
    securityProtocol: 'sasl_ssl',
    username: users.device.name,
    password: users.device.password,
    caFile: kafka.caFile,
    topics: [topicSpec('public')],
    ...over,
  });

  it('creates the topics that are missing, as requested, and takes messages by SCRAM over TLS', async () => {
    const { broker, send, log } = await met(byScram());
    assert.deepEqual(broker.state().topics, [{ name: PUBLIC, partitions: 3, lacks: [] }]);
    assert.match(log.join(''), new RegExp(`kafka topic created topic=${PUBLIC}`));
    assert.deepEqual(await send({ id: 1, topic: PUBLIC, key: 'cities:Zürich', value: '{"a":"ü"}' }), {
      kind: 'acknowledged',
    });
    assert.equal(broker.state().reason, '');
  });

  it('says full beyond its bytes, and that there is room again', async () => {
    const topic = topicSpec('full');
    const { broker, outcomes, changes } = await met(optionsFor(kafka.plain, { topics: [topic], queueBytes: 10_000 }));
    const before = changes();
    let taken = 0;
    while (broker.offer(messageOf(taken, topic.name, { value: 'x'.repeat(1_000) })) === 'taken') taken++;
    assert.equal(taken, 9);
    assert.equal(broker.offer(messageOf(taken, topic.name, { value: 'y'.repeat(20_000) })), 'full');
    assert.ok(broker.state().outstandingBytes <= 10_000);
    await until('room again', () => changes() > before);
    await until('all are settled', () => outcomes.size === taken);
    // Larger than the queue, and the queue is empty.
    assert.equal(broker.offer(messageOf(taken, topic.name, { value: 'y'.repeat(20_000) })), 'taken');
    await until('the large one too', () => outcomes.get(taken)?.[0]?.kind === 'acknowledged');
    assert.equal(broker.state().outstandingBytes, 0);
  });

  it('refuses for ever what is larger than kafka.max_message_bytes, and what its topic never takes', async () => {
    const small = topicSpec('small');
    await kafka.admin.createTopic(small.name, 3, { ...small.config, 'max.message.bytes': '200000' });
    const { broker, send, log } = await met(optionsFor(kafka.plain, { topics: [small], compression: 'none' }));
    const lacks = 'takes messages of up to 200000 bytes (max.message.bytes), kafka.max_message_bytes allows 1000000';
    assert.deepEqual(broker.state().topics[0]?.lacks, [lacks]);
    assert.equal(log.filter((line) => line.includes('not as requested')).length, 1);
    const [own, theirs] = [
      await send({ id: 1, topic: small.name, value: 'x'.repeat(1_000_001) }),
      await send({ id: 2, topic: small.name, value: 'x'.repeat(300_000) }),
    ];
    assert.equal(own.kind === 'refused' && own.permanent && /kafka.max_message_bytes/.test(own.reason), true);
    assert.equal(theirs.kind === 'refused' && theirs.permanent && /200000/.test(theirs.reason), true);
    assert.match(broker.state().reason, /too large/);
    assert.equal((await send({ id: 3, topic: small.name })).kind, 'acknowledged');
    assert.equal(broker.state().reason, '');
  });

  it('reads a topic again whose known limit does not explain a refusal', async () => {
    const lowered = topicSpec('lowered');
    const { broker, send } = await met(optionsFor(kafka.plain, { topics: [lowered], compression: 'none' }));
    assert.deepEqual(broker.state().topics[0]?.lacks, [], 'it would be read again in any case');
    await kafka.admin.configure(lowered.name, 'max.message.bytes', '50000');
    const large = { topic: lowered.name, value: 'x'.repeat(300_000) };
    let id = 0;
    await until('the lower limit', async () => {
      await send({ ...large, id: ++id });
      return broker.state().topics[0]?.lacks.some((lack) => lack.includes('up to 50000 bytes'));
    });
    const later = await send({ ...large, id: ++id });
    assert.equal(later.kind === 'refused' && later.permanent && /takes up to 50000 bytes/.test(later.reason), true);
  });

  it('never condemns a message that fits because its batch did not', async () => {
    const tiny = topicSpec('tiny');
    await kafka.admin.createTopic(tiny.name, 1, { ...tiny.config, 'max.message.bytes': '5000' });
    const { broker, outcomes } = await met(optionsFor(kafka.plain, { topics: [tiny], compression: 'none' }));
    for (let id = 0; id < 20; id++) broker.offer(messageOf(id, tiny.name, { value: 'x'.repeat(1_000) }));
    await until('all are settled', () => outcomes.size === 20);
    const first = [...outcomes.values()].map(([outcome]) => outcome);
    assert.ok(first.some((outcome) => outcome?.kind === 'refused'));
    assert.ok(first.every((outcome) => outcome?.kind !== 'refused' || !outcome.permanent));
  });

  it('says what an existing topic lacks, once, and changes nothing of it', async () => {
    const poor = topicSpec('poor');
    await kafka.admin.createTopic(poor.name, 1, { 'retention.ms': '1000', 'cleanup.policy': 'compact' });
    const first = watched(optionsFor(kafka.plain, { topics: [poor] }));
    await first.connected();
    const lacks = [
      'has 1 partition, 3 are requested',
      'retention.ms is 1000, 604800000 is requested',
      'cleanup.policy is compact, delete is requested',
    ];
    assert.deepEqual(first.broker.state().topics, [{ name: poor.name, partitions: 1, lacks }]);
    assert.equal(first.log.filter((line) => line.includes('not as requested')).length, 1);
    await first.broker.stop(0);
    const second = watched(optionsFor(kafka.plain, { topics: [poor] }));
    await second.connected();
    assert.deepEqual(second.broker.state().topics[0]?.lacks, lacks);
  });

  it('creates no topic if that is not requested, and reports which one is missing', async () => {
    const absent = topicSpec('absent');
    const { broker, send } = await met(optionsFor(kafka.plain, { topics: [absent], createTopics: false }));
    assert.deepEqual(broker.state().topics, [
      { name: absent.name, partitions: 0, lacks: ['does not exist, and kafka.create_topics is false'] },
    ]);
    const outcome = await send({ id: 1, topic: absent.name });
    assert.equal(outcome.kind === 'refused' && !outcome.permanent && /does not exist/.test(outcome.reason), true);
  });

  it('looks for a missing topic again, though no message asks for it', async () => {
    const late = topicSpec('created-later');
    const { broker } = await met(optionsFor(kafka.plain, { topics: [late], createTopics: false }));
    assert.equal(broker.state().topics[0]?.partitions, 0);
    await kafka.admin.createTopic(late.name, 3, late.config);
    await until('it is found', () => broker.state().topics[0]?.partitions === 3);
    assert.deepEqual(broker.state().topics[0]?.lacks, []);
  });

  it('may name no broker for a while, not even itself: the connection stays', async () => {
    // Between two heartbeats its controller takes it for dead, as one that was frozen.
    const dozing = { 'broker.session.timeout.ms': '1000', 'broker.heartbeat.interval.ms': '3000' };
    const { plain, kill } = await startBroker(dozing);
    const topic = topicSpec('dozing');
    const { connected, log, send } = await met(optionsFor(plain, { topics: [topic] }));
    log.length = 0;
    const answer = /has no broker that is ready.*\(local: partial response\)/;
    await until('such an answer', () => log.some((line) => answer.test(line) || line.includes('is lost')), 60_000);
    assert.doesNotMatch(log.join(''), /is lost/);
    await connected();
    let id = 0;
    await until('it continues', async () => (await send({ id: ++id, topic: topic.name })).kind === 'acknowledged');
    await kill();
  });

  it('replaces its producer after a fatal error, loses nothing by it, and says what is wrong', async () => {
    // A user who may write no topic at all gets no producer id: for librdkafka the end of that producer.
    const nobody = { username: users.nobody.name, password: users.nobody.password };
    const { broker, connected, outcomes, send } = watched(byScram(nobody));
    let id = 0;
    await until('a replacement', () => {
      if (broker.offer(messageOf(id, PUBLIC)) === 'taken') id++;
      return broker.state().producersReplaced > 0;
    });
    assert.match(broker.state().reason, /does not let this user write to any topic: it lacks the ACL/);
    assert.deepEqual([broker.state().connected, broker.state().outstanding], [false, 0]);
    await until('all are settled', () => outcomes.size === id);
    assert.ok([...outcomes.values()].every((all) => all.length === 1 && all[0]?.kind === 'unreached'));
    const acl = { user: users.nobody.name, resource: 'topic', pattern: 'literal', name: PUBLIC } as const;
    const acls = [
      { ...acl, operation: 'write' },
      { ...acl, operation: 'describe' },
    ] as const;
    await kafka.admin.allow(acls);
    await connected();
    await until('it continues', async () => (await send({ id: ++id, topic: PUBLIC })).kind === 'acknowledged');
    await kafka.admin.forbid(acls);
  });

  const strangers: readonly [string, () => Partial<KafkaOptions>, RegExp][] = [
    [
      'an unknown user',
      () => ({ username: 'stranger' }),
      /refuses user name or password.*kafka\.username and kafka\.password_file/,
    ],
    [
      'a certificate of another authority',
      () => ({ caFile: kafka.strangerCaFile }),
      /not from an authority that kafka\.ca_file names/,
    ],
    [
      'an expired certificate',
      () => ({ bootstrap: kafka.expired }),
      /certificate has expired \(.*\); or this device's clock/,
    ],
    ['a port that speaks no TLS', () => ({ bootstrap: kafka.plain }), /does not speak TLS on this port/],
    ['a port that wants TLS', () => ({ securityProtocol: 'plaintext' }), /TLS|hangs up|closed the connection/],
    ['a CA file that is not there', () => ({ caFile: '/nowhere/ca.pem' }), /ca\.pem|ca\.location/],
  ];
  for (const [what, over, reason] of strangers) {
    it(`says so for ${what}, and offers nothing`, async () => {
      const { broker, log } = watched(byScram(over()));
      await until(`the reason: ${reason}`, () => reason.test(broker.state().reason)).catch((error: unknown) => {
        throw new Error(`${String(error)}\n${broker.state().reason}\n${log.join('')}`);
      });
      assert.equal(broker.state().connected, false);
      assert.equal(broker.offer(messageOf(1, PUBLIC)), 'offline');
      assert.ok(log.length <= 4, `one line for a change of reason:\n${log.join('')}`);
      assert.ok(!`${broker.state().reason}${log.join('')}`.includes(users.device.password));
    });
  }
});

/** Killed, frozen, stopped. Nothing is lost or settled twice. One that comes up after the hub: test/e2e/hub-broker.test.ts. */
describe('a broker on bad days', { skip: brokerMissing }, () => {
  it('may be killed mid-batch and come back: what was taken is acknowledged, in order, or settled as unreached', async () => {
    const topic = topicSpec('killed', { partitions: 1 });
    const options = optionsFor(kafka.plain, { topics: [topic], messageTimeoutMs: 20_000 });
    const { broker, connected, disconnected, outcomes } = await met(options);
    const value = 'x'.repeat(400);
    let next = 0;
    const offerAll = (): void => {
      while (
        next < 60_000 &&
        broker.offer(messageOf(next, topic.name, { key: 'one', value: `${next}:${value}` })) === 'taken'
      )
        next++;
    };
    await until('some are acknowledged', () => {
      offerAll();
      return outcomes.size > 1_000;
    });
    offerAll();
    const killed = kafka.kill();
    await Promise.all([killed, disconnected(5_000)]);
    assert.ok(broker.state().outstanding > 0, 'nothing was under way');
    await kafka.restart();
    await connected();
    await until('all are settled', () => outcomes.size === next);
    assert.ok([...outcomes.values()].every((all) => all.length === 1));
    const acknowledged = [...outcomes].filter(([, [outcome]]) => outcome?.kind === 'acknowledged').map(([id]) => id);
    assert.ok(
      [...outcomes.values()].every(([outcome]) => outcome?.kind === 'acknowledged' || outcome?.kind === 'unreached'),
    );
    const found = (await consumed(kafka.plain, topic.name)).map((message) => Number.parseInt(message.value, 10));
    const there = new Set(found);
    assert.deepEqual(
      acknowledged.filter((id) => !there.has(id)),
      [],
    );
    assert.ok(
      found.every((id, index) => index === 0 || id > (found[index - 1] ?? -1)),
      'out of order, or twice',
    );
  });

  it('is missed when it hangs, and what it does not acknowledge in time is settled as unreached', async () => {
    const topic = topicSpec('frozen');
    const options = optionsFor(kafka.plain, { topics: [topic], messageTimeoutMs: 10_000 });
    const { broker, connected, disconnected, send, outcomeOf } = await met(options);
    await send({ id: 1, topic: topic.name });
    kafka.freeze();
    assert.equal(broker.offer(messageOf(2, topic.name)), 'taken');
    assert.deepEqual(await outcomeOf(2), { kind: 'unreached', reason: 'no acknowledgement in time' });
    await disconnected();
    assert.match(broker.state().reason, /no broker answers|timed out/);
    kafka.thaw();
    await connected();
    assert.equal((await send({ id: 3, topic: topic.name })).kind, 'acknowledged');
  });

  it('gets what is outstanding at stop() when it can, within the limit', async () => {
    const topic = topicSpec('drained');
    const { broker, outcomes } = await met(optionsFor(kafka.plain, { topics: [topic] }));
    for (let id = 0; id < 1_000; id++) broker.offer(messageOf(id, topic.name));
    await broker.stop(5_000);
    assert.equal(outcomes.size, 1_000);
    assert.ok([...outcomes.values()].every((all) => all.length === 1 && all[0]?.kind === 'acknowledged'));
    assert.equal(broker.offer(messageOf(1_001, topic.name)), 'offline');
  });

  it('does not hold up stop(): what is still outstanding is settled as unreached', async () => {
    const topic = topicSpec('hung');
    const { broker, outcomes, send } = await met(optionsFor(kafka.plain, { topics: [topic] }));
    await send({ id: 1_000, topic: topic.name });
    kafka.freeze();
    try {
      for (let id = 0; id < 100; id++) assert.equal(broker.offer(messageOf(id, topic.name)), 'taken');
      const begun = performance.now();
      await broker.stop(200);
      assert.ok(performance.now() - begun < 1_700, 'stop() took longer than its limit and a second');
    } finally {
      kafka.thaw();
    }
    assert.equal(outcomes.size, 101);
    assert.ok([...outcomes].every(([id, all]) => all.length === 1 && (id === 1_000 || all[0]?.kind === 'unreached')));
    assert.deepEqual([broker.state().outstanding, broker.state().outstandingBytes], [0, 0]);
  });

  it('is stopped while it was never reached', async () => {
    const { broker } = watched(optionsFor('127.0.0.1:9'));
    await until('the reason', () => /connection refused/.test(broker.state().reason));
    await broker.stop(5_000);
    assert.equal(broker.state().connected, false);
  });
});
