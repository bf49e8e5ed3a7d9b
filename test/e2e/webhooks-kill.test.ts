/** A sample of the campaign in test/soak/webhooks.ts; `npm run soak -- webhooks` runs 100 rounds and more. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chosenSeed } from '../soak/random.ts';
import { webhookRounds } from '../soak/webhooks.ts';
import { temporaryDirectory } from './daemon.ts';

const ROUNDS = 8;

test('kill -9 of the hub under load: every change reaches each subscription that it is for, planned once, with the same bytes', async (t) => {
  const seed = chosenSeed();
  t.diagnostic(`SEED=${seed}`);
  const report = await webhookRounds(temporaryDirectory(), ROUNDS, seed, (line) => t.diagnostic(line));
  t.diagnostic(JSON.stringify(report));
  const { kills, killsAtStart, changes, deliveries, severalEvents, requests } = report;
  assert.ok(kills > 0 && killsAtStart > 0 && changes > 0 && severalEvents > 0);
  assert.ok(requests > deliveries, 'some were tried again');
});
