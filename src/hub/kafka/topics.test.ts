import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { lacksOf } from './topics.ts';

const spec = {
  name: 't',
  partitions: 3,
  replicationFactor: -1,
  config: { 'retention.ms': '1000', 'cleanup.policy': 'delete' },
};
const good = new Map([
  ['retention.ms', '1000'],
  ['cleanup.policy', 'delete'],
  ['max.message.bytes', '2000'],
]);

describe('the faults of a topic', () => {
  it('is nothing if it has at least what was requested', () => {
    assert.deepEqual(lacksOf(spec, { partitions: 6, config: good }, 2_000), []);
  });

  it('names each difference, with what the topic has', () => {
    const config = new Map([...good, ['retention.ms', '-1'] as const]);
    assert.deepEqual(lacksOf(spec, { partitions: 1, config }, 3_000), [
      'has 1 partition, 3 are requested',
      'retention.ms is -1, 1000 is requested',
      'takes messages of up to 2000 bytes (max.message.bytes), kafka.max_message_bytes allows 3000',
    ]);
  });

  it('is unknown, with the reason, if the user may not see the settings', () => {
    assert.deepEqual(lacksOf(spec, { partitions: 2, config: 'not allowed' }, 1), [
      'has 2 partitions, 3 are requested',
      'its settings are not known: not allowed',
    ]);
  });
});
