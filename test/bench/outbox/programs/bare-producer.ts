/** node-rdkafka alone, with the settings that the hub gives it. */
import kafka from 'node-rdkafka';
import type { KafkaOptions } from '../../../../src/hub/kafka/face.ts';
import { producerSettings, topicSettings } from '../../../../src/hub/kafka/settings.ts';
import type { Drained } from '../../table.ts';

/** As the hub polls while something is under way. */
const POLL_MS = 5;
const QUEUE_FULL = -184;

export interface BareMessage {
  readonly key: Buffer;
  readonly value: Buffer;
  readonly headers: Readonly<Record<string, string>>;
}

/** Since its start, all threads of this process. */
export function ownCpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

export class BareProducer {
  readonly #producer;
  #acknowledged = 0;
  #wake: (() => void) | undefined;

  constructor(options: KafkaOptions) {
    this.#producer = new kafka.Producer({ ...producerSettings(options), dr_cb: true }, topicSettings(options));
    this.#producer.on('delivery-report', (error: unknown) => {
      if (error != null) throw new Error('not delivered', { cause: error });
      this.#acknowledged++;
      this.#wake?.();
    });
  }

  connect(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#producer.connect({ timeout: 10_000 }, (error) =>
        error == null ? resolve() : reject(new Error(error.message)),
      );
      this.#producer.setPollInterval(POLL_MS);
    });
  }

  /** False: the queue is full. */
  produce(topic: string, message: BareMessage): boolean {
    const headers = Object.entries(message.headers).map(([name, value]) => ({ [name]: value }));
    try {
      this.#producer.produce(topic, null, message.value, message.key, null, 1, headers);
      return true;
    } catch (error) {
      if ((error as { code?: number }).code === QUEUE_FULL) return false;
      throw error;
    }
  }

  /** Until something was acknowledged. */
  #reported(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = () => {
        this.#wake = undefined;
        resolve();
      };
    });
  }

  async drain(topic: string, messages: readonly BareMessage[]): Promise<Drained> {
    const [cpu, begin] = [ownCpuSeconds(), performance.now()];
    for (const message of messages) while (!this.produce(topic, message)) await this.#reported();
    while (this.#acknowledged < messages.length) await this.#reported();
    return { ms: performance.now() - begin, cpu: ownCpuSeconds() - cpu };
  }

  /** How many messages the topic holds. */
  held(topic: string, partitions: number): Promise<number> {
    const one = (partition: number): Promise<number> =>
      new Promise((resolve, reject) =>
        this.#producer.queryWatermarkOffsets(topic, partition, 10_000, (error, offsets) =>
          error == null ? resolve(offsets.highOffset - offsets.lowOffset) : reject(new Error(error.message)),
        ),
      );
    return Promise.all(Array.from({ length: partitions }, (_, i) => one(i))).then((all) => all.reduce((a, b) => a + b));
  }

  close(): Promise<void> {
    return new Promise((resolve) => this.#producer.disconnect(1_000, () => resolve()));
  }
}
