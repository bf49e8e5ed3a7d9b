import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, it, type TestContext } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import type { Broker, BrokerListener, BrokerState, Offered, Outcome, OutgoingMessage } from '../kafka/face.ts';
import { changeEvents } from '../log-shipping.ts';
import { KafkaTransport, type KafkaTransportOptions } from './kafka-transport.ts';

class FakeBroker implements Broker {
  connected = false;
  reason = 'connecting';
  answer: Offered = 'taken';
  offered: OutgoingMessage[] = [];
  stopped = false;
  #listener: BrokerListener = { settled() {}, changed() {} };

  offer(message: OutgoingMessage): Offered {
    if (this.answer === 'taken') this.offered.push(message);
    return this.answer;
  }
  settle(outcome: Outcome, id = this.offered.at(-1)?.id ?? 0): void {
    this.#listener.settled([{ id, outcome }]);
  }
  hasRoom(): boolean {
    return true;
  }
  state(): BrokerState {
    const { connected, reason } = this;
    return { connected, reason, forMs: 0, topics: [], outstanding: 0, outstandingBytes: 0, producersReplaced: 0 };
  }
  become(connected: boolean, reason = ''): void {
    Object.assign(this, { connected, reason });
    this.#listener.changed();
  }
  start(listener: BrokerListener): void {
    this.#listener = listener;
  }
  async stop(): Promise<void> {
    this.stopped = true;
  }
}

const never = new AbortController().signal;
const about = { logId: 'log', afterId: 0, throughId: 5 };

function setUp(t: TestContext, more: Partial<KafkaTransportOptions> = {}) {
  const clock = new FakeClock();
  const brokers: FakeBroker[] = [];
  let changes = 0;
  const transport = new KafkaTransport({
    newBroker: async () => {
      brokers.push(new FakeBroker());
      return brokers.at(-1) as FakeBroker;
    },
    outage: () => '',
    settings: { topic: 'log', compression: 'zstd', maxKbitPerS: 64, maxBytesPerDay: 0 },
    kafka: { maxMessageBytes: 10_000, securityProtocol: 'plaintext' },
    deviceId: 'device',
    clock,
    ...more,
  });
  transport.start(() => {
    changes += 1;
  });
  t.after(() => void transport.stop());
  const connected = async (): Promise<FakeBroker> => {
    const asked = transport.position('log', never);
    const before = brokers.length;
    while (brokers.length === before && brokers.at(-1)?.stopped !== false) await turn();
    brokers.at(-1)?.become(true);
    await asked;
    return brokers.at(-1) as FakeBroker;
  };
  return { clock, brokers, transport, connected, changes: () => changes };
}

describe('the Kafka transport', () => {
  it('a connection that is kept is charged by the second; one that was let go costs nothing until the next', async (t) => {
    const { transport, connected, clock, brokers } = setUp(t);
    assert.deepEqual([transport.takeOverhead(), transport.state().connected], [0, false]);
    await connected();
    assert.deepEqual([transport.takeOverhead(), transport.state().connected], [transport.connectBytes, true]);
    clock.advance(60_000);
    assert.ok(transport.takeOverhead() >= 60 * 76);
    transport.rest();
    assert.ok(brokers[0]?.stopped);
    clock.advance(3_600_000);
    assert.equal(transport.takeOverhead(), 0);
    await connected();
    assert.deepEqual([brokers.length, transport.takeOverhead()], [2, transport.connectBytes]);
  });

  it('a batch is stored when the broker has acknowledged it, with key and headers; charged for what it costs', async (t) => {
    const { transport, connected } = setUp(t);
    const broker = await connected();
    const batch = randomBytes(5_000);
    const sent = transport.send(batch, about, never);
    broker.settle({ kind: 'acknowledged' });
    const cost = transport.cost(batch);
    assert.deepEqual(await sent, { kind: 'stored' });
    assert.ok(cost > 5_000 && cost < 7_000, `${cost}`);
    assert.ok(transport.cost(Buffer.alloc(5_000)) < 1_500, 'what compresses well costs less');
    assert.deepEqual(broker.offered[0], {
      id: 1,
      topic: 'log',
      key: 'device',
      value: batch,
      headers: {
        'content-type': 'application/x-protobuf',
        message: 'lineside.v1.UpstreamBatch',
        'schema-version': '1',
        'device-id': 'device',
      },
    });
  });

  it('a batch that may have arrived is abandoned with its producer, so that it does not arrive beside its successor', async (t) => {
    const { transport, connected, brokers } = setUp(t);
    const broker = await connected();
    const batch = Buffer.from('x');
    const sent = transport.send(batch, about, never);
    broker.settle({ kind: 'unreached', reason: 'no acknowledgement in time' });
    assert.deepEqual(await sent, { kind: 'unreached', reason: 'no acknowledgement in time' });
    assert.ok(broker.stopped);
    const next = await connected();
    assert.equal(brokers.length, 2);
    const cut = transport.send(batch, about, never);
    next.become(false, 'the connection was reset');
    assert.deepEqual(await cut, { kind: 'unreached', reason: 'the connection was reset' });
    assert.ok(next.stopped);
  });

  it('several batches are in flight, each with its own outcome; if one may not have arrived, none behind it does', async (t) => {
    const { transport, connected } = setUp(t);
    assert.equal(transport.hasRoom(1), false, 'there is no connection');
    const broker = await connected();
    assert.equal(transport.hasRoom(1), true);
    const sent = [1, 2, 3].map((n) => transport.send(Buffer.from(String(n)), about, never));
    broker.settle({ kind: 'acknowledged' }, 1);
    broker.settle({ kind: 'unreached', reason: 'no acknowledgement in time' }, 2);
    assert.deepEqual(
      (await Promise.all(sent.slice(0, 2))).map(({ kind }) => kind),
      ['stored', 'unreached'],
    );
    assert.ok(broker.stopped);
    broker.settle({ kind: 'unreached', reason: 'stopped' }, 3);
    assert.equal((await sent[2])?.kind, 'unreached');
    assert.equal(transport.hasRoom(1), false);
  });

  it('a refusal is returned, a disconnected broker costs nothing, and a stop does not wait', async (t) => {
    const { transport, connected } = setUp(t);
    const broker = await connected();
    const refused = transport.send(Buffer.from('x'), about, never);
    broker.settle({ kind: 'refused', reason: 'too large', permanent: true });
    const outcome = await refused;
    assert.ok(outcome.kind === 'refused' && outcome.permanent && !broker.stopped);
    broker.answer = 'offline';
    const offline = await transport.send(Buffer.from('x'), about, never);
    assert.ok(offline.kind === 'unreached' && offline.unsent);
    assert.equal((await transport.send(Buffer.from('x'), about, never)).kind, 'unreached');
    const next = await connected();
    const stopping = new AbortController();
    const hanging = transport.send(Buffer.from('x'), about, stopping.signal);
    stopping.abort();
    assert.equal((await hanging).kind, 'unreached');
    assert.ok(next.stopped);
  });

  it('while the brokers are known to be unreachable it makes no connection, and reports at once that they are reachable again', async (t) => {
    let outage = 'no route to the broker';
    const { transport, brokers, clock, changes } = setUp(t, { outage: () => outage });
    const asked = assert.rejects(transport.position('log', never), { code: 'NOT_READY', message: outage });
    // One that is just being made is waited for.
    for (let n = 0; n < 20; n++) {
      clock.advance(500);
      await turn();
    }
    await asked;
    assert.deepEqual(
      [brokers.length, transport.takeOverhead(), transport.state()],
      [0, 0, { connected: false, reason: outage }],
    );
    outage = '';
    clock.advance(1_000);
    assert.deepEqual([changes(), transport.state().connected], [1, true]);
  });

  it('a broker that does not answer is let go of after a while: trying on would cost bytes', async (t) => {
    const { transport, brokers, clock } = setUp(t);
    const asked = assert.rejects(transport.position('log', never), { code: 'NOT_READY', message: 'connecting' });
    while (brokers.length === 0) await turn();
    await turn();
    clock.advance(30_000);
    await asked;
    assert.ok(brokers[0]?.stopped);
  });
});

describe('change events', () => {
  it('take precedence while they can be sent, and not while they are stuck', () => {
    const clock = new FakeClock();
    const now = { waiting: 0, publishedTotal: 0 };
    let broker = { connected: true, reason: '' };
    const events = changeEvents({ status: () => now }, { state: () => broker }, clock);
    assert.equal(events.busy(), false);
    now.waiting = 5;
    assert.equal(events.busy(), true);
    clock.advance(29_000);
    now.publishedTotal = 1;
    assert.equal(events.busy(), true);
    clock.advance(29_000);
    assert.equal(events.busy(), true);
    clock.advance(2_000);
    assert.equal(events.busy(), false, 'none has moved for 30 s');
    now.publishedTotal = 2;
    assert.equal(events.busy(), true);
    broker = { connected: false, reason: 'unreachable' };
    assert.deepEqual([events.busy(), events.outage()], [false, 'unreachable']);
    const unconfigured = changeEvents({ status: () => now }, undefined, clock);
    assert.deepEqual([unconfigured.busy(), unconfigured.outage()], [false, '']);
  });
});
