/**
 * The same bytes as a backlog of the serial log, by node-rdkafka alone out of memory, in messages of a batch each.
 * bare-upstream.ts BOOTSTRAP TOPIC BYTES BATCH_BYTES: prints milliseconds from the first message to the last acknowledgement
 * and the processor's seconds as JSON.
 */

import { BareProducer } from '../../outbox/programs/bare-producer.ts';
import { headersOf, kafkaOptions } from '../../outbox/settings.ts';
import { sentences } from '../sentences.ts';

const [bootstrap = '', topic = '', ...numbers] = process.argv.slice(2);
const [bytes = 0, batchBytes = 1] = numbers.map(Number);
const content = sentences();
const doubled = Buffer.concat([content, content]);
const messages = Array.from({ length: Math.ceil(bytes / batchBytes) }, (_, n) => {
  const from = (n * batchBytes) % content.length;
  const value = doubled.subarray(from, from + Math.min(batchBytes, bytes - n * batchBytes));
  return { key: Buffer.from('bench-device'), value, headers: headersOf(String(n)) };
});
const producer = new BareProducer(kafkaOptions(bootstrap, [topic]));
await producer.connect();
console.log(JSON.stringify(await producer.drain(topic, messages)));
await producer.close();
process.exit(0);
