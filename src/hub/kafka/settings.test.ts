import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { KafkaOptions } from './face.ts';
import { clientSettings, producerSettings, topicSettings } from './settings.ts';

const options: KafkaOptions = {
  bootstrap: 'h:1',
  securityProtocol: 'plaintext',
  username: 'u',
  password: 'p',
  caFile: '',
  clientId: 'c',
  compression: 'zstd',
  messageTimeoutMs: 3_000,
  maxMessageBytes: 1_000_000,
  queueBytes: 4_194_304,
  topics: [],
  createTopics: true,
};

describe('settings for librdkafka', () => {
  it('hands user and password to SASL alone, and the authorities to TLS alone', () => {
    assert.equal(JSON.stringify(clientSettings(options)).includes('sasl'), false);
    const sasl = clientSettings({ ...options, securityProtocol: 'sasl_ssl', caFile: '/ca.pem' });
    assert.equal(sasl['sasl.mechanisms'], 'SCRAM-SHA-512');
    assert.deepEqual([sasl['sasl.username'], sasl['sasl.password'], sasl['ssl.ca.location']], ['u', 'p', '/ca.pem']);
    assert.equal(sasl['ssl.endpoint.identification.algorithm'], 'https');
    assert.equal('ssl.ca.location' in clientSettings({ ...options, securityProtocol: 'ssl' }), false);
  });

  it('keeps what is of topics out of the first argument, where it would be ignored silently', () => {
    const topic = topicSettings(options);
    assert.equal(topic.acks, -1);
    assert.equal(topic['message.timeout.ms'], 3_000);
    for (const name of Object.keys(topic)) assert.equal(name in producerSettings(options), false, name);
  });

  it('waits longer and longer for a broker that is unreachable, and less than half a minute', () => {
    const settings = clientSettings(options);
    const [first, last] = [settings['reconnect.backoff.ms'], settings['reconnect.backoff.max.ms']].map(Number);
    // A connection lost is tried again after a random part of ten times the first (scripts/kafka-client): of seconds.
    assert.ok(first !== undefined && 10 * first >= 10_000, `${first} ms`);
    // A fleet's tries after an outage spread over half of the last to all of it; a box alone waits no longer for its own.
    assert.ok(last !== undefined && last >= 20_000 && last < 30_000, `${last} ms`);
  });

  it('is idempotent, and its own queue is never the first to be full', () => {
    const producer = producerSettings(options);
    assert.equal(producer['enable.idempotence'], true);
    assert.ok(Number(producer['queue.buffering.max.kbytes']) * 1_024 > options.queueBytes);
  });
});
