/**
 * Reads topics from their start: consumer.ts BOOTSTRAP TOPIC...: prints "ready", then for each message its key and the
 * monotonic nanoseconds at which it was received.
 */
import kafka from 'node-rdkafka';
import { PARTITIONS } from '../settings.ts';

const [bootstrap = '', ...topics] = process.argv.slice(2);
const consumer = new kafka.KafkaConsumer(
  {
    'bootstrap.servers': bootstrap,
    'group.id': 'bench',
    'enable.auto.commit': false,
    // The broker answers as soon as there is anything.
    'fetch.min.bytes': 1,
  },
  { 'auto.offset.reset': 'earliest' },
);
consumer.on('data', ({ key }) => console.log(`${String(key)} ${process.hrtime.bigint()}`));
consumer.connect({ timeout: 10_000 }, (error) => {
  if (error != null) throw new Error(error.message);
  const partitions = Array.from({ length: PARTITIONS }, (_, partition) => partition);
  consumer.assign(topics.flatMap((topic) => partitions.map((partition) => ({ topic, partition, offset: 0 }))));
  consumer.consume();
  console.log('ready');
});
