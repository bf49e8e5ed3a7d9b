import assert from 'node:assert/strict';
import { test } from 'node:test';
import { temporaryDirectory } from '../e2e/daemon.ts';
import { migrationRun } from '../soak/migration.ts';
import { chosenSeed } from '../soak/random.ts';

test('a database of 40 MiB, moved by a process that is killed: every delivery keeps its bytes, every record its versions', async (t) => {
  const seed = chosenSeed();
  t.diagnostic(`SEED=${seed}`);
  const report = await migrationRun(temporaryDirectory(), 40, 3, seed, (line) => t.diagnostic(line));
  t.diagnostic(JSON.stringify(report));
  assert.ok(report.deliveries > 10_000);
  assert.ok(report.peakWalMib < 32);
});
