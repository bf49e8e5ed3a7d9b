/**
 * Rows that wait, sent to the broker: by the hub's publisher out of refdata.db, or by node-rdkafka alone out of memory.
 * drain.ts own|bare BOOTSTRAP TOPIC_PREFIX DIR ROWS KEYS: prints the milliseconds from the first message taken to the last
 * acknowledgement (and its mark in the file) as JSON.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { sentText } from '../../../../src/hub/outbox/event.fixture.ts';
import type { Drained } from '../../table.ts';
import { eventAt } from '../samples.ts';
import { headersOf, kafkaOptions, PARTITIONS } from '../settings.ts';
import { type BareMessage, BareProducer, ownCpuSeconds } from './bare-producer.ts';
import { ownPublisher } from './own-publisher.ts';
import { openOwnStore } from './own-store.ts';

const [who, bootstrap = '', prefix = '', dir = '', rowsText, keysText] = process.argv.slice(2);
const [rows, keys] = [Number(rowsText), Number(keysText)];
const topic = `${prefix}.public`;
const options = kafkaOptions(bootstrap, [topic]);
const DRAIN_LIMIT_MS = 120_000;
/** What is measured ends so much too late at most. */
const LOOK_MS = 5;
const STOP_LIMIT_MS = 1_000;

const drain = who === 'own' ? await byPublisher() : await byProducer();
console.log(JSON.stringify(drain));
process.exit(0);

async function byPublisher(): Promise<Drained> {
  const own = openOwnStore(dir);
  const { broker, publisher } = ownPublisher(own.store, bootstrap, prefix);
  const cpu = ownCpuSeconds();
  publisher.start();
  for (const endMs = performance.now() + DRAIN_LIMIT_MS; publisher.waiting > 0; await sleep(LOOK_MS))
    if (performance.now() > endMs) throw new Error(`${publisher.waiting} rows still wait after ${DRAIN_LIMIT_MS} ms`);
  const found = { ms: performance.now() - (broker.firstMs ?? 0), cpu: ownCpuSeconds() - cpu };
  await publisher.stop(STOP_LIMIT_MS);
  await own.close();
  return found;
}

async function byProducer(): Promise<Drained> {
  const storeId = randomUUID();
  const messages = Array.from({ length: rows }, (_, n): BareMessage => {
    const { event, stamp } = eventAt(n, keys);
    const key = Buffer.from(`${event.dictionary}:${event.businessKey}`);
    return { key, value: Buffer.from(sentText(event, stamp)), headers: headersOf(`${storeId}-${n + 1}`) };
  });
  const producer = new BareProducer(options);
  await producer.connect();
  const before = await producer.held(topic, PARTITIONS);
  const found = await producer.drain(topic, messages);
  const held = (await producer.held(topic, PARTITIONS)) - before;
  if (held !== rows) throw new Error(`the broker holds ${held} of ${rows}`);
  await producer.close();
  return found;
}
