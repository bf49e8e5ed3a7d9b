/** The interface to Kafka: messages are offered one by one, and each that was taken is settled exactly once. */
export interface OutgoingMessage {
  /** The caller's own, unique among the messages not yet settled. */
  readonly id: number;
  readonly topic: string;
  /** Same key, same partition. */
  readonly key: string;
  /** A string is sent as UTF-8. */
  readonly value: string | Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
}

export type Outcome =
  /** All in-sync replicas have it (acks=all). */
  | { readonly kind: 'acknowledged' }
  /** A broker was reached and refused it. `permanent`: it can never be accepted (too large). */
  | { readonly kind: 'refused'; readonly reason: string; readonly permanent: boolean }
  /** It may have arrived or not: no broker reached, timed out, the producer was replaced or stopped. Not an attempt. */
  | { readonly kind: 'unreached'; readonly reason: string };

export interface Settled {
  readonly id: number;
  readonly outcome: Outcome;
}

/**
 * 'taken': it will be settled, once. 'full': not taken, the queue is full, offer it again after something was settled.
 * 'offline': not taken, there is no connection to offer it to.
 */
export type Offered = 'taken' | 'full' | 'offline';

export interface TopicReport {
  readonly name: string;
  /** 0: it does not exist, or is not checked yet. */
  readonly partitions: number;
  /** What it lacks of its specification; reported, never changed. */
  readonly lacks: readonly string[];
}

export interface BrokerState {
  readonly connected: boolean;
  /** Why it is not connected, or the last refusal; '' when there is neither. */
  readonly reason: string;
  /** Monotonic milliseconds since `connected` last changed. */
  readonly forMs: number;
  readonly topics: readonly TopicReport[];
  /** Messages taken and not yet settled, and their bytes. */
  readonly outstanding: number;
  readonly outstandingBytes: number;
  /** Times the producer was replaced after a fatal error. */
  readonly producersReplaced: number;
}

export interface BrokerListener {
  /** In batches; never before the offer() that took a message has returned. */
  settled(batch: readonly Settled[]): void;
  /** Connected, disconnected, or room in the queue again. */
  changed(): void;
}

export interface Broker {
  /** Never calls settled() itself, not even for a message that is too large: that follows in a later turn of the loop. */
  offer(message: OutgoingMessage): Offered;
  /** A message of so many bytes would be taken beside those in flight, and the topic's limit on its size cannot refuse it. */
  hasRoom(topic: string, bytes: number): boolean;
  state(): BrokerState;
  /** Connects in the background and keeps trying. */
  start(listener?: BrokerListener): void;
  /**
   * Waits up to `limitMs` for acknowledgements, then disconnects; unacknowledged messages are settled as 'unreached'.
   * Always resolves within a second after the limit.
   */
  stop(limitMs: number): Promise<void>;
}

/** For the creation of a topic; an existing topic is compared with it. */
export interface TopicSpec {
  readonly name: string;
  readonly partitions: number;
  /** -1: the broker's default. */
  readonly replicationFactor: number;
  /** "retention.ms": "604800000" */
  readonly config: Readonly<Record<string, string>>;
}

/**
 * Of a connection for isolated messages: the largest passes at 28 kbit/s (1,000,000 bytes). librdkafka takes no
 * larger socket.timeout.ms, which runs while a request is still being sent.
 */
export const LARGE_MESSAGE_MS = 300_000;

export interface KafkaOptions {
  readonly bootstrap: string;
  readonly securityProtocol: 'plaintext' | 'ssl' | 'sasl_plaintext' | 'sasl_ssl';
  /** SCRAM-SHA-512; '' without SASL. */
  readonly username: string;
  readonly password: string;
  /** PEM file of the authorities; '': the system's. */
  readonly caFile: string;
  readonly clientId: string;
  readonly compression: 'none' | 'gzip' | 'snappy' | 'lz4' | 'zstd';
  /** Milliseconds a message may wait for its acknowledgement until it is settled as 'unreached'. */
  readonly messageTimeoutMs: number;
  /** Bytes: the largest message that is offered to the broker. */
  readonly maxMessageBytes: number;
  /** Bytes of messages taken and not settled; beyond that, and on a slow line long before, offer() answers 'full'. */
  readonly queueBytes: number;
  /**
   * Each message is a request of its own, sent at once: a refusal for the size concerns only this message, and it may take minutes
   * on a slow link, whatever messageTimeoutMs is.
   */
  readonly isolated?: boolean;
  readonly topics: readonly TopicSpec[];
  /** false: missing topics are reported, not created. */
  readonly createTopics: boolean;
}
