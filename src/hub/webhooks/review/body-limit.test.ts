/** What the history of deliveries may take of refdata.db. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Logger, silentLogger } from '../../../shared/base/logger.ts';
import { put, subscriptionRow } from '../delivery/stored.fixture.ts';
import type { Rig } from './retention.fixture.ts';
import { left, mib, rigFor } from './retention.fixture.ts';

const hourMs = 3_600_000;
const states = ['pending', 'rejected', 'delivered', 'failed'] as const;

/** Of 64 KiB each. */
function keepBodies({ connection }: Rig, ids: readonly number[]): void {
  const keep = connection.prepare('INSERT INTO webhook_bodies (delivery_id, body) VALUES (?, zeroblob(65536))');
  for (const id of ids) keep.run(id);
}

function bodies({ connection }: Rig): readonly number[] {
  return connection.prepare<[], number>('SELECT delivery_id FROM webhook_bodies ORDER BY delivery_id').pluck().all();
}

function warnings(): { readonly logger: Logger; readonly said: string[] } {
  const said: string[] = [];
  return { logger: { ...silentLogger, warn: (message) => said.push(message) }, said };
}

test('bodies of ended deliveries are brought within their share, the oldest first; the deliveries stay, and what waits keeps its own', async (t) => {
  const { logger, said } = warnings();
  const rig = rigFor(t, { maxBytes: 128 * mib, logger });
  subscriptionRow(rig.connection, 1);
  for (let n = 0; n < 100; n++) for (const state of states) put(rig.connection, { state });
  const ids = left(rig);
  keepBodies(rig, ids);
  rig.retention.start();
  await rig.clock.pass(2 * hourMs);
  assert.equal(left(rig).length, 400);
  // Of 300 that have ended 256 are 16 MiB: the first 44 go.
  const gone = ids.filter((_, n) => n % 4 !== 0).slice(0, 44);
  assert.deepEqual(
    bodies(rig),
    ids.filter((id) => !gone.includes(id)),
  );
  assert.equal(said.length, 1);
  await rig.clock.pass(2 * hourMs);
  assert.equal(bodies(rig).length, 356, 'and no others');
  assert.equal(rig.retention.historyBytes(), 16 * mib);
});

test('while refdata.db is nearly full nothing is kept that was delivered; what is for review stays', async (t) => {
  const { logger, said } = warnings();
  const rig = rigFor(t, { maxBytes: 32 * mib, logger });
  const { connection, clock } = rig;
  subscriptionRow(connection, 1);
  for (const state of states) put(connection, { state, endedRunMs: 1 });
  const kept = left(rig).filter((_, n) => states[n] !== 'delivered');
  rig.runMs = 1_000;
  rig.retention.start();
  await clock.pass(120_000);
  assert.equal(left(rig).length, 4);
  connection.exec('CREATE TABLE others AS SELECT zeroblob(25 * 1048576) AS bytes');
  await clock.pass(hourMs);
  assert.deepEqual(left(rig), kept);
  assert.equal(said.length, 1);
  connection.exec('DROP TABLE others');
  await clock.pass(hourMs);
  put(connection, { endedRunMs: 1 });
  await clock.pass(hourMs);
  assert.equal(left(rig).length, 4);
});
