/** The wall clock jumps by years, both ways, while the daemon runs (libfaketime): it stamps, and decides nothing. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { startDaemon, temporaryDirectory } from './daemon.ts';
import { fakeTime, withoutFaketime } from './faketime.ts';
import { everythingAfter, logStatus, openPort, RX } from './faults.ts';
import { LiveReader } from './live-reader.ts';
import { namedPty } from './pty.ts';

const MIB = 1024 * 1024;
const YEAR_MS = 365 * 86_400_000;
/** Long against the few milliseconds between two writes of this test. */
const GAP_MS = 1_000;

test('the clock jumps: order stays by id, age removes nothing, chunks and streams are as ever', {
  skip: withoutFaketime,
}, async () => {
  const dir = temporaryDirectory();
  const { env, set: jump } = fakeTime(dir, '+0');
  const pty = namedPty(dir);
  const daemon = await startDaemon({
    dir,
    config: {
      serial: { extra_ports: [pty.portName], rx_gap_ms: GAP_MS },
      log: { commit_ms: 50, max_bytes: MIB, max_age_days: 30, tail_bytes: 65_536 },
    },
    env,
  });
  const { client } = daemon;
  await openPort(client, pty.portName);
  const reader = await LiveReader.start(client);
  const jumps = ['+0', '+10y', '-20y', '+3y', '+0'];
  for (const by of jumps) {
    jump(by);
    await client.serial.logRaw({ dir: RX, note: by });
  }
  // Two halves of a chunk, with a jump back between them, and one after it.
  await pty.write(Buffer.from('first half, '));
  jump('-1y');
  await pty.write(Buffer.from('second half'));
  await reader.has(23);
  const before = reader.ids.length;
  // Filling the log while the clock is ten years ahead calls for retention: by size, never by such an age.
  await pty.write(randomBytes(700_000));
  await reader.has(700_023);
  assert.equal(Number((await logStatus(client)).prunedEntries), 0);
  jump('+10y');
  await pty.write(randomBytes(700_000));
  await reader.has(1_400_023);
  await until('retention', async () => Number((await logStatus(client)).prunedEntries) > 0);
  await client.serial.logRaw({ dir: RX, note: 'end' });
  const status = await logStatus(client);
  assert.ok(Number(status.usedBytes) > 0.8 * MIB, `${String(status.usedBytes)} bytes left`);

  const { ids } = reader;
  assert.ok(
    ids.every((id, i) => i === 0 || id === (ids[i - 1] ?? 0) + 1),
    'every entry once, in order',
  );
  assert.equal(before, jumps.length + 1, 'two halves of one chunk');
  assert.deepEqual(reader.notes.slice(0, jumps.length), jumps);
  const stamps = reader.entries.slice(0, jumps.length).map(({ entry }) => Number(entry?.timestamp));
  const years = stamps.map((stamp) => Math.round((stamp - (stamps[0] ?? 0)) / YEAR_MS));
  assert.deepEqual(years, [0, 10, -20, 3, 0], 'the clock did jump');
  const stored = await everythingAfter(client, 0);
  assert.equal(stored.length, Number(status.lastId) - Number(status.firstId) + 1);
  assert.equal(reader.ended, '');
  assert.equal(await daemon.stop(), 0);
});
