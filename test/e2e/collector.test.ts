/**
 * The serial log in transit to the reference collector, both as real processes: whatever is killed in between, the collector
 * has what the box has, entry by entry. And a client of other people's making, from the schema alone.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeCa, signed } from '../../src/shared/base/certificates.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { type CollectorProcess, collected, exported, startCollector } from './collector-process.ts';
import { temporaryDirectory } from './daemon.ts';
import { openPort } from './faults.ts';
import { startBoth } from './hub.ts';
import { PYTHON, pythonMissing, stubsDir } from './python.ts';
import { runCli } from './run-cli.ts';
import { DEVICE, figure, sender, shipped, writeEntries } from './upstream-support.ts';

/** A hub that was killed restarts, and finds its collector after some waits: a second here, much more on a machine that is busy. */
const SHIPPED_MS = 120_000;

test('over TLS, the hub and the collector killed in the middle, twice each: the collector has every entry of the box, once', async () => {
  const place = temporaryDirectory();
  const file = (name: string): string => join(place, name);
  makeCa(place);
  signed(place, 'collector', 'DNS:localhost');
  const token = (...more: string[]) => runCli(['collector', 'token', DEVICE, '--tokens', file('tokens'), ...more]);
  const own = (await token()).stdout.trim().split('\n').at(-1) ?? '';
  writeFileSync(file('token'), `${own}\n`);
  const tls = ['--tls-cert', file('collector.pem'), '--tls-key', file('collector.key'), '--tokens', file('tokens')];
  let collector = await startCollector(file('logs'), 0, tls);
  const { port, dir } = collector;
  await collector.kill();
  const keys = { collector_token_file: file('token'), collector_ca_file: file('ca.pem') };
  // Some seconds for the backlog, so that there is a middle.
  const pace = { batch_bytes: 4_096, max_kbit_per_s: 2_000 };
  const both = await startBoth({
    config: sender({ to: 'collector', collector: `localhost:${port}`, ...keys, ...pace }),
  });
  await openPort(both.client, `${both.dir}/run/sim0`);
  await writeEntries(both.client, 2_000, 500);
  await until('it waits', async () => (await figure(both, 'lag_entries')) >= 2_000, SHIPPED_MS);
  collector = await startCollector(dir, port, tls);
  for (const [part, what] of [
    [300, 'hub'],
    [700, 'collector'],
    [1_100, 'hub'],
    [1_500, 'collector'],
  ] as const) {
    await until(`${part} are sent`, async () => (await figure(both, 'position')) >= part, SHIPPED_MS);
    if (what === 'hub') await both.kill();
    else {
      await collector.kill();
      collector = await startCollector(dir, port, tls);
    }
  }
  await writeEntries(both.client, 100, 500, 2_000);
  assert.equal((await both.client.serial.close({})).status, 0);
  await shipped(both);
  const [found, logged] = [await collected(dir, DEVICE), await exported(join(both.dir, 'run', 'grpc.sock'))];
  assert.ok(logged.length > 0, 'the box has logged nothing');
  assert.deepEqual(found.entries, logged);
  assert.deepEqual(found.gaps, []);

  assert.equal((await token('--revoke')).status, 0);
  const seen = both.logLines.length;
  // It may be accepted for another second.
  await until('it is refused', async () => {
    await writeEntries(both.client, 1);
    const refusal = /(?:not connected|refuses the serial log).*UNAUTHENTICATED/;
    return both.logLines.slice(seen).some((line) => refusal.test(line));
  });
  assert.ok(!both.logLines.join('\n').includes(own), 'the journal has a token');
  assert.equal(await collector.stop(), 0);
  assert.equal(await both.stop(), 0);
});

test('an independent client pushes, asks where to resume, and is refused with the reason', {
  skip: pythonMissing('grpc, google.protobuf'),
}, async () => {
  const collector: CollectorProcess = await startCollector(join(temporaryDirectory(), 'logs'));
  const script = join(import.meta.dirname, 'collector_client.py');
  const ran = spawnSync(PYTHON, [script, stubsDir(), `127.0.0.1:${collector.port}`], {
    encoding: 'utf8',
    timeout: 60_000,
  });
  assert.equal(ran.status, 0, ran.stdout + ran.stderr);
  assert.deepEqual(ran.stdout.trim().split('\n'), [
    'ok nothing is there at first',
    'ok two batches are stored',
    'ok the position is kept',
    'ok ahead of the position is out of range',
    'ok a faulty batch is named by its field',
    'ok compressed too',
  ]);
  const { entries, gaps } = await collected(collector.dir, 'python-box');
  const ids = entries.map((entry) => (entry as { id: number }).id);
  assert.deepEqual(ids, [1, 2, 3, 6, 7, 8, 9]);
  assert.deepEqual(
    gaps.map(({ cause, firstId, lastId }) => [cause, firstId, lastId]),
    [['overtaken', 4, 5]],
  );
  assert.equal(await collector.stop(), 0);
});
