/**
 * Single changes on an idle system, by the hub's parts and by node-rdkafka alone, in turns of a block each.
 * latency.ts BOOTSTRAP OWN_PREFIX BARE_TOPIC DIR BLOCKS: prints for each the key of its message and the monotonic
 * nanoseconds at which it was committed (own) or about to be produced (bare).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../../../src/shared/base/wait.fixture.ts';
import { DICTIONARY, dataOf, dictionary, sentOf } from '../samples.ts';
import { headersOf, kafkaOptions } from '../settings.ts';
import { BareProducer } from './bare-producer.ts';
import { ownPublisher } from './own-publisher.ts';
import { actor, openOwnStore } from './own-store.ts';

const BLOCK = 25;
/** The system is idle again by then: the change before was acknowledged and marked. */
const BETWEEN_MS = [24, 37] as const;
const STOP_LIMIT_MS = 1_000;

const [bootstrap = '', prefix = '', bareTopic = '', dir = '', blocks] = process.argv.slice(2);
const own = openOwnStore(dir);
// Called first after a commit, before the publisher.
let committedAt = 0n;
own.store.onCommitted(() => {
  committedAt = process.hrtime.bigint();
});
const { broker, publisher } = ownPublisher(own.store, bootstrap, prefix);
publisher.start();
const producer = new BareProducer(kafkaOptions(bootstrap, [bareTopic]));
await producer.connect();
await own.refdata.createDictionary(actor, dictionary, '');
await until('the connection', () => broker.state().connected);

let n = 0;
// The block before the first warms up.
for (let block = -1; block < Number(blocks); block++) {
  for (const change of [ownChange, bareMessage]) {
    for (let i = 0; i < BLOCK; i++) {
      n++;
      const [key, at] = await change(n);
      if (block >= 0) console.log(`${key} ${at}`);
      await sleep(BETWEEN_MS[0] + ((n * 7) % (BETWEEN_MS[1] - BETWEEN_MS[0])));
    }
  }
}
await publisher.stop(STOP_LIMIT_MS);
await own.close();
await producer.close();
process.exit(0);

async function ownChange(n: number): Promise<[string, bigint]> {
  const key = `own-${n}`;
  await own.refdata.createRecord(actor, DICTIONARY, key, { data: dataOf(n) });
  return [`${DICTIONARY}:${key}`, committedAt];
}

async function bareMessage(n: number): Promise<[string, bigint]> {
  const key = `${DICTIONARY}:bare-${n}`;
  const message = { key: Buffer.from(key), value: Buffer.from(sentOf(n)), headers: headersOf(String(n)) };
  const at = process.hrtime.bigint();
  if (!producer.produce(bareTopic, message)) throw new Error('the queue is full');
  return [key, at];
}
