/** What of the log may change while it is open, and whether its worker is at work. */
import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { test } from 'node:test';
import type { Worker } from 'node:worker_threads';
import { openSerialLog } from '../../src/line/log/serial-log.ts';
import { FakeClock } from '../../src/shared/base/fake-clock.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { MiB, newEntry, optionsFor, temporaryDir } from './support.ts';

const BLOCK_BYTES = 256 * 1024;

test('a smaller limit of the log counts at once, a shorter commit from the next entry on', async (t) => {
  const clock = new FakeClock();
  const options = optionsFor(temporaryDir(t), { clock, commitMs: 60_000 });
  const log = await openSerialLog(options);
  t.after(() => log.close());
  for (let i = 0; i < 20; i++) await log.store(newEntry('', { data: Buffer.alloc(BLOCK_BYTES, i) }));
  const before = await log.status();
  assert.equal(before.firstId, 1);
  log.limit({ ...options, maxBytes: 2 * MiB, commitMs: 50 });
  await until('firstId > 1', async () => (await log.status()).firstId > 1);
  await until('usedBytes <= 2 * MiB', async () => (await log.status()).usedBytes <= 2 * MiB);
  assert.equal((await log.status()).maxBytes, 2 * MiB);
  const { commits } = await log.status();
  log.record(1, 0, Buffer.from('x'));
  clock.advance(60);
  await until('one more commit', async () => (await log.status()).commits > commits);
});

test('the worker answers behind what it does; one that has died is started again', async (t) => {
  const workers: Worker[] = [];
  const started = (message: unknown): void => void workers.push((message as { worker: Worker }).worker);
  subscribe('worker_threads', started);
  t.after(() => unsubscribe('worker_threads', started));
  const log = await openSerialLog(optionsFor(temporaryDir(t)));
  t.after(() => log.close());
  await log.answers();
  await workers[0]?.terminate();
  await assert.rejects(log.answers(), { code: 'WORKER_EXITED' });
  await until('the limits hold', async () =>
    log.answers().then(
      () => true,
      () => false,
    ),
  );
  assert.equal((await log.store(newEntry('kept all the same'))).id, 1);
  assert.equal(workers.length, 2);
});
