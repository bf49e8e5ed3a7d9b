import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EchoCalls } from './worker-host.fixture.ts';
import { besideModule, WorkerHost } from './worker-host.ts';

function startEcho(): WorkerHost<EchoCalls> {
  return new WorkerHost<EchoCalls>(besideModule('worker-host.fixture', import.meta.url));
}

test('answers come to their calls, buffers are handed over, errors keep their code', async (t) => {
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
    message: 'told to fail',
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

test('a worker that is held by its work is ended', async () => {
  const host = startEcho();
  const held = host.call('spin', true);
  const refused = assert.rejects(held, { code: 'WORKER_EXITED' });
  await host.terminate(5_000);
  await refused;
  await host.exited;
});
