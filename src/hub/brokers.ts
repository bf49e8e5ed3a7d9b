/** The broker that the configuration asks for, and the three topics of the specification. */
import type { Clock } from '../shared/base/clock.ts';
import type { Logger } from '../shared/base/logger.ts';
import type { Config } from '../shared/config/config.ts';
import { readPassword } from '../shared/config/start-checks.ts';
import type { Broker, KafkaOptions, TopicSpec } from './kafka/face.ts';
import { type Scope, scopes } from './outbox/event.ts';

/** Seven days, by the specification. */
const RETENTION_MS = 604_800_000;

export function topicOf({ kafka }: Config, scope: Scope): string {
  return `${kafka.topicPrefix}.${scope.toLowerCase()}`;
}

/** Not started yet. undefined: none is configured, and nothing of librdkafka is loaded. */
export async function openBroker(config: Config, clock: Clock, logger: Logger): Promise<Broker | undefined> {
  const { kafka, outbox, device } = config;
  if (kafka.bootstrap === '') return undefined;
  const topics = scopes.map((scope) => topicSpec(config, topicOf(config, scope)));
  const own = { topics, compression: kafka.compression, clientId: device.id, queueBytes: outbox.inFlightBytes };
  return newBroker(config, own, clock, logger);
}

/** A client for the serial log alone: its backlog never shares a queue with change events. Not started yet. */
export function openUpstreamBroker(config: Config, clock: Clock, logger: Logger): Promise<Broker> {
  const { topic, compression } = config.upstream;
  const own = {
    topics: [topicSpec(config, topic)],
    compression,
    clientId: `${config.device.id}-upstream`,
    queueBytes: config.kafka.maxMessageBytes,
    isolated: true,
  };
  return newBroker(config, own, clock, logger);
}

function topicSpec({ kafka }: Config, name: string): TopicSpec {
  const { partitions, replicationFactor } = kafka;
  const settings = { 'retention.ms': String(RETENTION_MS), 'cleanup.policy': 'delete' };
  return { name, partitions, replicationFactor, config: settings };
}

type Own = Pick<KafkaOptions, 'topics' | 'compression' | 'clientId' | 'queueBytes' | 'isolated'>;

async function newBroker({ kafka }: Config, own: Own, clock: Clock, logger: Logger): Promise<Broker> {
  const { KafkaBroker } = await import('./kafka/broker.ts');
  const password = kafka.passwordFile === '' ? '' : readPassword(kafka.passwordFile);
  return new KafkaBroker({ ...kafka, ...own, password }, clock, logger);
}
