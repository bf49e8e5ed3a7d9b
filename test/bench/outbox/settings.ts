/** What the broker is talked to with: the hub's defaults, for lineside's rows and the bare producer's. */
import type { KafkaOptions } from '../../../src/hub/kafka/face.ts';

export const IN_FLIGHT_BYTES = 4 * 1024 * 1024;
export const PARTITIONS = 3;
export const DEVICE_ID = 'bench-device';

export function kafkaOptions(bootstrap: string, topics: readonly string[]): KafkaOptions {
  return {
    bootstrap,
    securityProtocol: 'plaintext',
    username: '',
    password: '',
    caFile: '',
    clientId: DEVICE_ID,
    compression: 'zstd',
    messageTimeoutMs: 30_000,
    maxMessageBytes: 1_000_000,
    queueBytes: IN_FLIGHT_BYTES,
    topics: topics.map((name) => ({
      name,
      partitions: PARTITIONS,
      replicationFactor: -1,
      config: { 'retention.ms': '604800000', 'cleanup.policy': 'delete' },
    })),
    createTopics: true,
  };
}

/** As the hub's messages have them. */
export function headersOf(eventId: string): Readonly<Record<string, string>> {
  return { 'device-id': DEVICE_ID, 'event-id': eventId, 'content-type': 'application/json' };
}
