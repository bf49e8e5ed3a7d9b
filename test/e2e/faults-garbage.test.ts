/** Noise at full speed: every byte is there, live and in the stored log. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { everythingAfter, logStatus, RX, startBox } from './faults.ts';
import { LiveReader } from './live-reader.ts';

const BYTES = 10 * 1024 * 1024;

test('10 MiB of random bytes at full speed: the same SHA-256 live and in the replay', async (t) => {
  const { daemon, pty } = await startBox();
  const { client } = daemon;
  const reader = await LiveReader.start(client);
  const noise = randomBytes(BYTES);
  const start = performance.now();
  await pty.write(noise);
  await reader.has(BYTES, 60_000);
  t.diagnostic(`${Math.round(BYTES / 1_000 / (performance.now() - start))} MB/s`);
  await client.serial.logRaw({ dir: RX, note: 'end' });
  const expected = createHash('sha256').update(noise).digest('hex');
  assert.equal(reader.rxSha256(), expected);
  const replay = createHash('sha256');
  for (const { entry } of await everythingAfter(client, 0)) replay.update(entry?.rawData ?? new Uint8Array());
  assert.equal(replay.digest('hex'), expected);
  const { lostEntries, error } = await logStatus(client);
  assert.equal(Number(lostEntries), 0);
  assert.equal(error, '');
  const { counters } = await client.line.getStatus({});
  assert.equal(Number(counters?.rxBytes), BYTES);
  assert.equal(await daemon.stop(), 0);
});
