import assert from 'node:assert/strict';
import { test } from 'node:test';
import { killRounds } from './kill-rounds.ts';
import { temporaryDir } from './support.ts';

/** A sample; `npm run soak -- kill` does hundreds. */
const rounds = 8;

test('kill -9 under traffic: nothing told to be stored is missing or torn, no id comes twice', async (t) => {
  const report = await killRounds(temporaryDir(t), rounds, (line) => t.diagnostic(line));
  assert.equal(report.rounds, rounds);
  assert.ok(report.told > rounds);
});
