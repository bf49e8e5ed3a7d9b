/** Runs the independent consumer (outbox_consumer.py) and hands over what it read, and what it found wrong. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { consume, PYTHON } from './python.ts';

const READ_LIMIT_MS = 120_000;

/** The missing prerequisites of the consumer on this machine; false: none. */
export const consumerMissing: string | false =
  spawnSync(PYTHON, ['-c', 'import confluent_kafka']).status === 0
    ? false
    : "Debian's python3-confluent-kafka is missing";

export interface ReaderSettings {
  readonly bootstrap: string;
  /** librdkafka's settings: security.protocol, sasl.username, ... */
  readonly security: Readonly<Record<string, string>>;
  /** Topic: the scope that belongs on it. */
  readonly topics: Readonly<Record<string, string>>;
  /** Subscribes with a consumer group of this name; without, it reads the partitions directly. */
  readonly group?: string;
  readonly deviceId?: string;
  /** false: versions may be late or missing (dead letters sent again, a topic deleted). */
  readonly order?: boolean;
  /** Asks for the topics' configuration as well, as an administrator with these settings of librdkafka. */
  readonly describe?: Readonly<Record<string, string>>;
}

export interface TopicEvent {
  readonly txTime: string;
  readonly changedBy: string;
  readonly changeReason: string;
  readonly dictionary: string;
  readonly businessKey: string;
  readonly action: string;
  readonly version: number;
  readonly validFrom: string;
  readonly validTo: string;
  readonly data: Readonly<Record<string, unknown>>;
}

export interface TopicMessage {
  readonly key: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly event: TopicEvent;
}

export interface ReadTopics {
  /** In the order of each partition. */
  readonly messages: readonly TopicMessage[];
  readonly topics: Readonly<Record<string, { partitions: number; config: Readonly<Record<string, string>> }>>;
  /** In words, with topic, partition and offset; empty: all as the specification wants it. */
  readonly faults: readonly string[];
  readonly duplicates: number;
}

/** Every message that is on the topics now. */
export async function readTopics(settings: ReaderSettings): Promise<ReadTopics> {
  const script = join(import.meta.dirname, 'outbox_consumer.py');
  const { lines, end } = await consume([script], JSON.stringify(settings), READ_LIMIT_MS);
  const printed = lines as readonly (Omit<TopicMessage, 'event'> & { readonly value: string })[];
  const messages = printed.map((message) => ({ ...message, event: JSON.parse(message.value) as TopicEvent }));
  return { messages, ...(end as Omit<ReadTopics, 'messages'>) };
}
