/** The Broker on bad days, with Apache Kafka: down, killed, frozen, stopped, replaced. Nothing is lost or settled twice. */
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { brokerMissing, startBroker, type TestBroker } from './broker.ts';
import { consumed, messageOf, optionsFor, topicSpec, watched } from './offering.ts';

describe('a broker on bad days', { skip: brokerMissing }, () => {
  let kafka: TestBroker;
  before(async () => {
    kafka = await startBroker();
  });

  it('is found when it comes up after the service', async () => {
    await kafka.kill();
    const topic = topicSpec('late');
    const { broker, connected, send, log } = watched(optionsFor(kafka.plain, { topics: [topic] }));
    await until('the reason', () => /connection refused/.test(broker.state().reason));
    assert.equal(broker.offer(messageOf(1, topic.name)), 'offline');
    await kafka.restart();
    await connected();
    assert.deepEqual(await send({ id: 1, topic: topic.name }), { kind: 'acknowledged' });
    assert.ok(log.length <= 4, log.join(''));
  });

  it('may be killed mid-batch and come back: what was taken is acknowledged, in order, or settled as unreached', async () => {
    const topic = topicSpec('killed', { partitions: 1 });
    const options = optionsFor(kafka.plain, { topics: [topic], messageTimeoutMs: 20_000 });
    const { broker, connected, disconnected, outcomes } = watched(options);
    await connected();
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
    const options = optionsFor(kafka.plain, { topics: [topic], messageTimeoutMs: 3_000 });
    const { broker, connected, disconnected, send, outcomeOf } = watched(options);
    await connected();
    await send({ id: 1, topic: topic.name });
    kafka.freeze();
    assert.equal(broker.offer(messageOf(2, topic.name)), 'taken');
    assert.deepEqual(await outcomeOf(2), { kind: 'unreached', reason: 'no acknowledgement in time' });
    await disconnected();
    assert.match(broker.state().reason, /does not respond|timed out/);
    kafka.thaw();
    await connected();
    assert.equal((await send({ id: 3, topic: topic.name })).kind, 'acknowledged');
  });

  it('gets what is outstanding at stop() when it can, within the limit', async () => {
    const topic = topicSpec('drained');
    const { broker, connected, outcomes } = watched(optionsFor(kafka.plain, { topics: [topic] }));
    await connected();
    for (let id = 0; id < 1_000; id++) broker.offer(messageOf(id, topic.name));
    await broker.stop(5_000);
    assert.equal(outcomes.size, 1_000);
    assert.ok([...outcomes.values()].every((all) => all.length === 1 && all[0]?.kind === 'acknowledged'));
    assert.equal(broker.offer(messageOf(1_001, topic.name)), 'offline');
  });

  it('does not hold up stop(): what is still outstanding is settled as unreached', async () => {
    const topic = topicSpec('hung');
    const { broker, connected, outcomes, send } = watched(optionsFor(kafka.plain, { topics: [topic] }));
    await connected();
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
