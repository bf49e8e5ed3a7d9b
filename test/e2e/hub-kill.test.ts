/** A sample of the campaign in test/soak/outbox.ts; `npm run soak -- outbox` runs 200 rounds and more. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { brokerMissing, killable, startBroker } from '../kafka/broker.ts';
import { outboxRounds } from '../soak/outbox.ts';
import { chosenSeed } from '../soak/random.ts';
import { temporaryDirectory } from './daemon.ts';
import { consumerMissing } from './outbox-reader.ts';
import { pythonMissing } from './python.ts';

/** One of them with a kill of the broker. */
const ROUNDS = 8;

test('kill -9 of hub and broker under load: every change that was answered arrives, in order, and none that was not made', {
  skip: brokerMissing || consumerMissing || pythonMissing('confluent_kafka'),
}, async (t) => {
  const seed = chosenSeed();
  t.diagnostic(`SEED=${seed}`);
  const broker = await startBroker(killable);
  const report = await outboxRounds(temporaryDirectory(), broker, ROUNDS, seed, (line) => t.diagnostic(line));
  t.diagnostic(JSON.stringify(report));
  assert.ok(report.answered > 0 && report.refused > 0 && report.copied > 0 && report.brokerKills > 0);
});
