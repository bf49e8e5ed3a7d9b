/** The Broker on a bad network between it and Apache Kafka: one that is slow, one that delivers late, one that is cut. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { before, describe, it } from 'node:test';
import type { OutgoingMessage } from '../../src/hub/kafka/face.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { brokerMissing, startBroker, type TestBroker } from './broker.ts';
import { consumed, messageOf, met, optionsFor, topicSpec } from './offering.ts';
import { startProxy } from './proxy.ts';

/** Field of /proc/PID/stat behind the name; stime is the next one. */
const UTIME = 12;
const TICKS_A_SECOND = 100;

let port = 0;
const proxy = await startProxy(() => port);

describe('a bad network', { skip: brokerMissing }, () => {
  let kafka: TestBroker;
  before(async () => {
    kafka = await startBroker((ports) => {
      port = ports.plain;
      return { 'advertised.listeners': `PLAIN://${proxy.address}` };
    });
  });

  it('may be as slow as 64 kbit/s: a backlog goes as fast as the line does, and nothing of it times out', async () => {
    const topic = topicSpec('slow');
    const options = optionsFor(proxy.address, { topics: [topic], compression: 'none' });
    const { broker, outcomes } = await met(options);
    const value = randomBytes(300).toString('base64');
    proxy.slow(8_000);
    const before = processorSeconds('rdk:broker');
    let next = 0;
    try {
      // More than the line carries in the time-out of a message, 30 s: all of it at once would time out.
      await until(
        '300 are acknowledged',
        () => {
          while (next < 10_000 && broker.offer(messageOf(next, topic.name, { value })) === 'taken') next++;
          return outcomes.size >= 300;
        },
        45_000,
      );
    } finally {
      proxy.slow(0);
    }
    assert.ok([...outcomes.values()].every(([outcome]) => outcome?.kind === 'acknowledged'));
    assert.equal(broker.state().connected, true);
    // While messages wait for the answers to those before, the client sleeps.
    const took = processorSeconds('rdk:broker') - before;
    assert.ok(took < 1, `${took} s of the processor for ${outcomes.size} messages`);
  });

  for (const [what, messageTimeoutMs] of [
    ['a message that timed out', 3_000],
    ['a request that was sent again', 30_000],
  ] as const) {
    it(`may deliver ${what} after its successors: the broker drops it, and versions do not go back`, async () => {
      const topic = topicSpec(`late-${messageTimeoutMs}`, { partitions: 1 });
      const { broker, send } = await met(optionsFor(proxy.address, { topics: [topic], messageTimeoutMs }));
      const version = (value: number): Omit<OutgoingMessage, 'id' | 'headers'> => {
        return { topic: topic.name, key: 'one', value: String(value) };
      };
      assert.equal((await send({ id: 1, ...version(1) })).kind, 'acknowledged');
      proxy.hold();
      const versions = 10;
      let id = 2;
      for (let value = 2; value <= versions; ) {
        const outcome = await send({ id: id++, ...version(value) });
        if (outcome.kind === 'acknowledged') value++;
        else assert.match(broker.state().reason, /no acknowledgement in time|no broker answers/);
      }
      assert.ok(proxy.deliver() > 0, 'nothing was kept');
      // Through another connection: it is the broker's answer to what came late that is waited for.
      await until('the late ones are answered', () => proxy.answeredLate() > 0);
      assert.equal((await send({ id, ...version(versions + 1) })).kind, 'acknowledged');
      const found = (await consumed(kafka.plain, topic.name)).map(({ value }) => Number(value));
      assert.deepEqual(
        found,
        Array.from({ length: versions + 1 }, (_, index) => index + 1),
      );
      assert.equal(broker.state().reason, '');
    });
  }

  it('may be cut; if the topic has more partitions afterwards, that the order of keys suffers is said', async () => {
    const topic = topicSpec('grown', { partitions: 1 });
    const { connected, disconnected, log } = await met(optionsFor(proxy.address, { topics: [topic] }));
    await kafka.admin.setPartitions(topic.name, 4);
    proxy.cut();
    await disconnected();
    proxy.open();
    await connected();
    const saysSo = (): string | undefined => log.find((line) => line.includes('another number of partitions'));
    const said = await until('it is said', saysSo, 60_000);
    assert.match(said, /before=1 now=4/);
  });
});

/** Of the threads of this process whose name begins so. */
function processorSeconds(name: string): number {
  const all = readdirSync('/proc/self/task').map((id) => readFileSync(`/proc/self/task/${id}/stat`, 'latin1'));
  const named = all.filter((one) => one.includes(`(${name}`)).map((one) => one.slice(one.lastIndexOf(')')).split(' '));
  return named.reduce((sum, fields) => sum + Number(fields[UTIME]) + Number(fields[UTIME + 1]), 0) / TICKS_A_SECOND;
}
