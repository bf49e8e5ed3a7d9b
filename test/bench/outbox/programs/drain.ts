/**
 * Rows that wait, sent to the broker: by the hub's publisher out of refdata.db, or by node-rdkafka alone out of memory.
 * drain.ts own|bare BOOTSTRAP TOPIC_PREFIX DIR ROWS KEYS: prints the milliseconds from the first offer to the last
 * acknowledgement (and its mark in the file) as JSON.
 */
import { randomUUID } from 'node:crypto';
import { envelopeOf } from '../../../../src/hub/outbox/event.ts';
import { until } from '../../../../src/shared/base/wait.fixture.ts';
import { eventAt } from '../samples.ts';
import { headersOf, kafkaOptions, PARTITIONS } from '../settings.ts';
import { type BareMessage, BareProducer } from './bare-producer.ts';
import { ownPublisher } from './own-publisher.ts';
import { openOwnStore } from './own-store.ts';

export interface Drain {
  readonly ms: number;
  readonly cpu: number;
}

const [who, bootstrap = '', prefix = '', dir = '', rowsText, keysText] = process.argv.slice(2);
const [rows, keys] = [Number(rowsText), Number(keysText)];
const topic = `${prefix}.public`;
const options = kafkaOptions(bootstrap, [topic]);
const DRAIN_LIMIT_MS = 120_000;

const drain = who === 'own' ? await byPublisher() : await byProducer();
console.log(JSON.stringify(drain));
process.exit(0);

function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

async function byPublisher(): Promise<Drain> {
  const own = openOwnStore(dir);
  const publisher = ownPublisher(own.store, bootstrap, prefix);
  const cpu = cpuSeconds();
  publisher.start();
  await until('the last row', () => publisher.waiting() === 0, DRAIN_LIMIT_MS);
  const found = { ms: performance.now() - (publisher.firstOfferMs() ?? 0), cpu: cpuSeconds() - cpu };
  await publisher.stop();
  await own.close();
  return found;
}

async function byProducer(): Promise<Drain> {
  const storeId = randomUUID();
  const messages = Array.from({ length: rows }, (_, n): BareMessage => {
    const { event, stamp } = eventAt(n, keys);
    const key = Buffer.from(`${event.dictionary}:${event.businessKey}`);
    return { key, value: Buffer.from(envelopeOf(event, stamp)), headers: headersOf(`${storeId}-${n + 1}`) };
  });
  const producer = new BareProducer(options);
  await producer.connect();
  const before = await producer.held(topic, PARTITIONS);
  const [cpu, begin] = [cpuSeconds(), performance.now()];
  for (const message of messages) while (!producer.produce(topic, message)) await producer.reported();
  await producer.all(rows);
  const found = { ms: performance.now() - begin, cpu: cpuSeconds() - cpu };
  const held = (await producer.held(topic, PARTITIONS)) - before;
  if (held !== rows) throw new Error(`the broker holds ${held} of ${rows}`);
  await producer.close();
  return found;
}
