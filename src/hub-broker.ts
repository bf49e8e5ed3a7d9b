/** The broker that the configuration asks for, and the three topics of the specification. */
import type { Clock } from './base/clock.ts';
import type { Logger } from './base/logger.ts';
import type { Config } from './config/config.ts';
import { readPassword } from './config/load.ts';
import type { Broker, TopicWish } from './kafka/face.ts';
import { type Scope, scopes } from './outbox/event.ts';

/** Seven days, as the specification has it. */
const RETENTION_MS = 604_800_000;

export function topicOf({ kafka }: Config, scope: Scope): string {
  return `${kafka.topicPrefix}.${scope.toLowerCase()}`;
}

/** Not started yet. undefined: none is configured, and nothing of librdkafka is loaded. */
export async function openBroker(config: Config, clock: Clock, logger: Logger): Promise<Broker | undefined> {
  const { kafka, outbox, device } = config;
  if (kafka.bootstrap === '') return undefined;
  const topics = scopes.map((scope): TopicWish => {
    const { partitions, replicationFactor } = kafka;
    const settings = { 'retention.ms': String(RETENTION_MS), 'cleanup.policy': 'delete' };
    return { name: topicOf(config, scope), partitions, replicationFactor, config: settings };
  });
  const { createKafkaBroker } = await import('./kafka/broker.ts');
  const { bootstrap, securityProtocol, username, passwordFile, caFile, compression, createTopics } = kafka;
  return createKafkaBroker(
    {
      bootstrap,
      securityProtocol,
      username,
      caFile,
      compression,
      createTopics,
      topics,
      password: passwordFile === '' ? '' : readPassword(passwordFile),
      clientId: device.id,
      messageTimeoutMs: kafka.messageTimeoutMs,
      maxMessageBytes: kafka.maxMessageBytes,
      queueBytes: outbox.inFlightBytes,
    },
    clock,
    logger,
  );
}
