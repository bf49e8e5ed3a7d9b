/** A real broker for a row: Apache Kafka, as the tests start it, in a directory of its own. */
import { join } from 'node:path';
import type { KafkaOptions } from '../../../src/hub/kafka/face.ts';
import { checkTopics } from '../../../src/hub/kafka/topics.ts';
import { systemClock } from '../../../src/shared/base/clock.ts';
import { kafkaJars, Missing } from '../../kafka/jars.ts';
import { startKafka } from '../../kafka/kafka.ts';
import { freePort } from '../peers/peers.ts';
import { Skipped, temporaryDirectory } from '../processes.ts';
import { kafkaOptions } from './settings.ts';

export interface BenchBroker {
  /** "127.0.0.1:port", no password. */
  readonly bootstrap: string;
  /** With the three partitions that the hub's own topics have. */
  createTopic(name: string): Promise<void>;
  close(): Promise<void>;
}

export async function startBroker(): Promise<BenchBroker> {
  const jars = await kafkaJars().catch((error: unknown) => {
    throw error instanceof Missing ? new Skipped(`no Apache Kafka here: ${error.message}`) : error;
  });
  const ports = {
    plain: await freePort(),
    sasl: await freePort(),
    expired: await freePort(),
    controller: await freePort(),
  };
  const kafka = await startKafka({ jars, dir: join(temporaryDirectory(), 'kafka'), ports });
  // It ends with this process; this is for rows that end before.
  const bootstrap = `127.0.0.1:${ports.plain}`;
  return {
    bootstrap,
    async createTopic(name) {
      const options: KafkaOptions = kafkaOptions(bootstrap, [name]);
      const [report] = await checkTopics(options, systemClock);
      if (report === undefined || report.lacks.length > 0) throw new Error(report?.lacks.join('; ') ?? 'no topic');
    },
    async close() {
      kafka.child.kill('SIGKILL');
      await kafka.ended;
    },
  };
}
