import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stopAll } from './service-process.ts';

test('every step runs, whatever the ones before it did, and all failures are reported at once', async () => {
  const ran: string[] = [];
  const step = (what: string, stop: () => Promise<void>, limitMs?: number) => ({
    what,
    stop: () => {
      ran.push(what);
      return stop();
    },
    ...(limitMs === undefined ? {} : { limitMs }),
  });
  const stopped = stopAll([
    step('good', () => Promise.resolve()),
    step('throwing', () => Promise.reject(new Error('no'))),
    step('hanging', () => new Promise(() => {}), 20),
    step('last', () => Promise.resolve()),
  ]);
  await assert.rejects(stopped, { message: 'throwing: no; hanging: did not stop within 20 ms' });
  assert.deepEqual(ran, ['good', 'throwing', 'hanging', 'last']);
});
