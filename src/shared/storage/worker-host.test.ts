import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { test } from 'node:test';
import type { Worker } from 'node:worker_threads';
import type { EchoCalls } from './worker-host.fixture.ts';
import { besideModule, WorkerHost } from './worker-host.ts';

function startEcho(): WorkerHost<EchoCalls> {
  return new WorkerHost<EchoCalls>(besideModule('worker-host.fixture', import.meta.url));
}

test('answers reach their calls, buffers are handed over, errors keep their code', async (t) => {
  const host = startEcho();
  t.after(() => host.terminate(1000));
  const buffer = new ArrayBuffer(8);
  const answers = await Promise.all([
    host.call('echo', 'a'),
    host.call('size', buffer, [buffer]),
    host.call('echo', 'b'),
  ]);
  assert.deepEqual(answers, ['a', 8, 'b']);
  assert.equal(buffer.byteLength, 0, 'handed over, not copied');
  await assert.rejects(host.call('fail', 'SQLITE_FULL'), {
    name: 'WorkerError',
    code: 'SQLITE_FULL',
    message: 'asked to fail',
  });
  assert.equal(host.alive, true);
});

test('a worker that dies rejects what is pending and what comes after', async () => {
  const host = startEcho();
  await assert.rejects(host.call('die', 'now'), { code: 'WORKER_EXITED' });
  await host.exited;
  assert.equal(host.alive, false);
  await assert.rejects(host.call('echo', 'late'), { code: 'WORKER_EXITED' });
});

test('says that it is at work behind its calls, whatever its contract; one that is held does not', async (t) => {
  const host = startEcho();
  t.after(() => host.terminate(100));
  const order: string[] = [];
  const echo = host.call('echo', 'a').then(() => order.push('echo'));
  await Promise.all([echo, host.answers().then(() => order.push('alive'))]);
  assert.deepEqual(order, ['echo', 'alive']);
  const held = host.call('spin', true).catch(() => undefined);
  const asked = host.answers().then(
    () => 'answered',
    () => 'died',
  );
  const other = startEcho();
  t.after(() => other.terminate(1_000));
  const first = await Promise.race([asked, other.answers().then(() => 'the other')]);
  assert.equal(first, 'the other');
  await host.terminate(100);
  await held;
  assert.equal(await asked, 'died');
});

test('a worker that is held by its work is ended', async () => {
  const host = startEcho();
  const held = host.call('spin', true);
  const refused = assert.rejects(held, { code: 'WORKER_EXITED' });
  await host.terminate(100);
  await refused;
  await host.exited;
});

test('a worker that is still loading SQLite, or checks whether it was asked to stop, ends without force', async (t) => {
  const statuses: number[] = [];
  const started = (message: unknown): void => {
    (message as { worker: Worker }).worker.once('exit', (status: number) => statuses.push(status));
  };
  subscribe('worker_threads', started);
  t.after(() => unsubscribe('worker_threads', started));
  const loading = new WorkerHost(new URL('../../line/log/log-worker.ts', import.meta.url));
  await loading.terminate(60_000);
  const looking = startEcho();
  const held = assert.rejects(looking.call('look', ''), { code: 'WORKER_EXITED' });
  await looking.terminate(60_000);
  await held;
  assert.deepEqual(statuses, [0, 0]);
});
