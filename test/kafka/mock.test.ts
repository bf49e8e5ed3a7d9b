/** The Broker against librdkafka's mock cluster: what a real Kafka does not do on command, and all there is without Java. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { mockMissing, startMockCluster } from './mock-cluster.ts';
import { messageOf, met, optionsFor } from './offering.ts';

// ApiKey of Produce, and error codes of the Kafka protocol.
const PRODUCE = 0;
const NOT_ENOUGH_REPLICAS = 19;
const INVALID_RECORD = 87;
const OUT_OF_ORDER_SEQUENCE = 45;

describe('a mock cluster', { skip: mockMissing }, () => {
  it('may lack replicas for a while: that is waited out, not counted as a refusal', async () => {
    const mock = await startMockCluster();
    const { send } = await met(optionsFor(mock.bootstrap));
    await send({ id: 1, topic: 't' });
    await mock.say(`err ${PRODUCE} ${NOT_ENOUGH_REPLICAS} 2`);
    assert.equal((await send({ id: 2, topic: 't' })).kind, 'acknowledged');
  });

  it('may refuse one message: that one is refused, and the next is acknowledged', async () => {
    const mock = await startMockCluster();
    const { send } = await met(optionsFor(mock.bootstrap));
    await send({ id: 1, topic: 't' });
    await mock.say(`err ${PRODUCE} ${INVALID_RECORD} 1`);
    const outcome = await send({ id: 2, topic: 't' });
    assert.ok(outcome.kind === 'refused' && !outcome.permanent);
    assert.equal((await send({ id: 3, topic: 't' })).kind, 'acknowledged');
  });

  it('may end a producer by a lost sequence: everything is settled once, and a new one continues', async () => {
    const mock = await startMockCluster();
    const { broker, connected, outcomes, send } = await met(optionsFor(mock.bootstrap));
    await send({ id: 1, topic: 't' });
    await mock.say(`err ${PRODUCE} ${OUT_OF_ORDER_SEQUENCE} 5`);
    for (let id = 2; id < 50; id++) broker.offer(messageOf(id, 't'));
    await until('a new producer', () => broker.state().producersReplaced === 1);
    assert.equal(broker.state().outstanding, 0);
    await connected();
    await mock.say('rtt 1 0');
    let id = 100;
    await until('it continues', async () => (await send({ id: id++, topic: 't' })).kind === 'acknowledged');
    assert.ok([...outcomes.values()].every((all) => all.length === 1));
  });
});
