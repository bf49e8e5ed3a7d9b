/** KafkaOptions as settings of librdkafka, with the reasons. Pure. */
import type { ProducerGlobalConfig, ProducerTopicConfig } from 'node-rdkafka';
import { type KafkaOptions, LARGE_MESSAGE_MS } from './face.ts';

/**
 * Bytes of a batch. The broker refuses a whole batch for one message that is too large, and no topic's limit is sensibly below
 * this: larger messages are sent alone, so a refusal concerns only the message itself.
 */
export const BATCH_BYTES = 131_072;
/** Messages taken and not settled; librdkafka's own default, which bounds what small messages cost beside their bytes. */
export const QUEUE_MESSAGES = 100_000;
/** How long messages wait for a batch: librdkafka's default, stated because latency depends on it. */
const LINGER_MS = 5;
/**
 * A lost connection is retried after a random part of ten times the first (compiled so by scripts/kafka-client: a thousand boxes
 * lose their broker at the same moment); then the wait doubles up to the second, and is a random value from half of it. After an
 * outage of a minute all boxes reconnect within half a minute, spread over the seconds.
 */
const RECONNECT_FIRST_MS = 1_000;
const RECONNECT_MAX_MS = 20_000;
/** A request to a broker that is busy for longer is sent again elsewhere. */
const REQUEST_TIMEOUT_MS = 10_000;
/** Above the time-out of a request, so that the request times out first. */
const SOCKET_TIMEOUT_MS = 15_000;
/** Messages for a topic that is missing for longer are refused. */
const TOPIC_GONE_MS = 5_000;
/** Added partitions and deleted topics are detected within this. */
const METADATA_REFRESH_MS = 60_000;
/** librdkafka counts a few bytes beside key, value and headers; the limit itself is checked before. */
export const MESSAGE_OVERHEAD_BYTES = 1_024;

/** For every connection: address, authentication, encryption. */
export function clientSettings(options: KafkaOptions): Record<string, string> {
  const { securityProtocol } = options;
  const settings: Record<string, string> = {
    'bootstrap.servers': options.bootstrap,
    'client.id': options.clientId,
    'security.protocol': securityProtocol,
    'reconnect.backoff.ms': String(RECONNECT_FIRST_MS),
    'reconnect.backoff.max.ms': String(RECONNECT_MAX_MS),
    'socket.timeout.ms': String(options.isolated ? LARGE_MESSAGE_MS : SOCKET_TIMEOUT_MS),
    'socket.connection.setup.timeout.ms': String(REQUEST_TIMEOUT_MS),
    // A pulled cable is not reported.
    'socket.keepalive.enable': 'true',
  };
  if (securityProtocol.startsWith('sasl_')) {
    settings['sasl.mechanisms'] = 'SCRAM-SHA-512';
    settings['sasl.username'] = options.username;
    settings['sasl.password'] = options.password;
  }
  if (securityProtocol.endsWith('ssl')) {
    settings['ssl.endpoint.identification.algorithm'] = 'https';
    if (options.caFile !== '') settings['ssl.ca.location'] = options.caFile;
  }
  return settings;
}

export function producerSettings(options: KafkaOptions): ProducerGlobalConfig {
  return {
    ...clientSettings(options),
    // No message twice and none out of order within a session, whatever is sent again inside.
    'enable.idempotence': true,
    'compression.codec': options.compression,
    'linger.ms': options.isolated ? 0 : LINGER_MS,
    'batch.size': BATCH_BYTES,
    'message.max.bytes': options.maxMessageBytes + MESSAGE_OVERHEAD_BYTES,
    'queue.buffering.max.messages': QUEUE_MESSAGES,
    // Must be above the limit of the broker's own count of bytes.
    'queue.buffering.max.kbytes':
      Math.ceil((2 * Math.max(options.queueBytes, options.maxMessageBytes)) / 1_024) + 1_024,
    'topic.metadata.refresh.interval.ms': METADATA_REFRESH_MS,
    'topic.metadata.propagation.max.ms': TOPIC_GONE_MS,
  };
}

/** Of topics: node-rdkafka silently ignores them among the settings above. */
export function topicSettings(options: KafkaOptions): ProducerTopicConfig {
  return {
    acks: -1,
    'message.timeout.ms': options.isolated
      ? Math.max(LARGE_MESSAGE_MS, options.messageTimeoutMs)
      : options.messageTimeoutMs,
    'request.timeout.ms': Math.min(REQUEST_TIMEOUT_MS, options.messageTimeoutMs),
    // What Java's clients use: the same key goes to the same partition from every client.
    partitioner: 'murmur2_random',
  };
}
