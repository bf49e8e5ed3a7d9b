/** The hub's side of a Broker for tests: offers messages and keeps what became of each. */
import { execFile } from 'node:child_process';
import { after } from 'node:test';
import { promisify } from 'node:util';
import { KafkaBroker } from '../../src/hub/kafka/broker.ts';
import type { KafkaOptions, Outcome, OutgoingMessage, TopicSpec } from '../../src/hub/kafka/face.ts';
import { systemClock } from '../../src/shared/base/clock.ts';
import { createLogger } from '../../src/shared/base/logger.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { environment } from '../e2e/daemon.ts';
import { LIBRARIES } from '../e2e/python.ts';
import { TOPIC_PREFIX } from './broker.ts';

export function optionsFor(bootstrap: string, over: Partial<KafkaOptions> = {}): KafkaOptions {
  return {
    bootstrap,
    securityProtocol: 'plaintext',
    username: '',
    password: '',
    caFile: '',
    clientId: 'lineside-test',
    compression: 'zstd',
    messageTimeoutMs: 30_000,
    maxMessageBytes: 1_000_000,
    queueBytes: 4 * 1024 * 1024,
    topics: [],
    createTopics: true,
    ...over,
  };
}

export function topicSpec(end: string, over: Partial<TopicSpec> = {}): TopicSpec {
  const config = { 'retention.ms': '604800000', 'cleanup.policy': 'delete' };
  return { name: `${TOPIC_PREFIX}.${end}`, partitions: 3, replicationFactor: -1, config, ...over };
}

export function messageOf(id: number, topic: string, over: Partial<OutgoingMessage> = {}): OutgoingMessage {
  return { id, topic, key: `key-${id}`, value: `{"n":${id}}`, headers: { 'event-id': `e-${id}` }, ...over };
}

/** Started, and stopped when the file ends. */
export function watched(options: KafkaOptions) {
  const log: string[] = [];
  const write = (line: string): void => void log.push(line);
  const logger = createLogger({ write, journal: true, debug: false, wallMs: () => 0 });
  const broker = new KafkaBroker(options, systemClock, logger);
  /** Every outcome of each id, in order: exactly one is right. */
  const outcomes = new Map<number, Outcome[]>();
  let changes = 0;
  broker.start({
    settled: (batch) => {
      for (const { id, outcome } of batch) outcomes.set(id, [...(outcomes.get(id) ?? []), outcome]);
    },
    changed: () => void changes++,
  });
  after(() => broker.stop(0));
  const say = (): string => `${JSON.stringify(broker.state())}\n${log.join('')}`;
  const outcomeOf = (id: number): Promise<Outcome> =>
    until(`message ${id} is settled`, () => outcomes.get(id)?.[0], 45_000);
  return {
    broker,
    log,
    outcomes,
    changes: () => changes,
    connected: async (limitMs = 60_000) =>
      void (await until('connected', () => broker.state().connected, limitMs).catch((error: unknown) => {
        throw new Error(`${String(error)}\n${say()}`);
      })),
    disconnected: async (limitMs = 60_000) =>
      void (await until('not connected', () => !broker.state().connected, limitMs)),
    /** Offers until it is taken, and gives what became of it. */
    send: async (partial: Partial<OutgoingMessage> & Pick<OutgoingMessage, 'id' | 'topic'>): Promise<Outcome> => {
      const message = messageOf(partial.id, partial.topic, partial);
      await until(`message ${message.id} is taken`, () => broker.offer(message) === 'taken');
      return outcomeOf(message.id);
    },
    outcomeOf,
  };
}

/** As watched(), and connected. */
export async function met(options: KafkaOptions): Promise<ReturnType<typeof watched>> {
  const broker = watched(options);
  await broker.connected();
  return broker;
}

/** Everything in a topic, read by kcat, which knows nothing of us. `settings`: -X of kcat. */
export async function consumed(bootstrap: string, topic: string, settings: Readonly<Record<string, string>> = {}) {
  const given = Object.entries(settings).flatMap(([name, value]) => ['-X', `${name}=${value}`]);
  const format = '%p\\t%k\\t%s\\t%h\\n';
  const args = ['-C', '-b', bootstrap, '-t', topic, '-e', '-q', '-o', 'beginning', '-f', format, ...given];
  const { stdout } = await promisify(execFile)('kcat', args, {
    // Debian's kcat is linked with a librdkafka that is lent a later one.
    env: environment(LIBRARIES),
    timeout: 30_000,
    maxBuffer: 1e9,
  });
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [partition, key = '', value = '', headers = ''] = line.split('\t');
      return { partition: Number(partition), key, value, headers };
    });
}
