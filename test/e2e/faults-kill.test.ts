/** A sample of the campaign in test/soak/kill.ts; `npm run soak -- kill` runs 200 rounds and more. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { killRounds } from '../soak/kill.ts';
import { chosenSeed } from '../soak/random.ts';
import { temporaryDirectory } from './daemon.ts';

const ROUNDS = 8;

test('kill -9 under traffic: nothing that was promised is missing, torn, doubled or out of order', async (t) => {
  const seed = chosenSeed();
  t.diagnostic(`SEED=${seed}`);
  const { figures } = await killRounds(temporaryDirectory(), ROUNDS, seed, (line) => t.diagnostic(line));
  t.diagnostic(JSON.stringify(figures));
  assert.ok(figures.logRaw > 0 && figures.sent > 0 && figures.received > 0);
});
