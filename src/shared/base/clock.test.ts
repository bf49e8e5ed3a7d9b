import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { withLimit } from './clock.ts';
import { FakeClock } from './fake-clock.fixture.ts';

/** Work that ends when its signal fires, as a call of gRPC does. */
const hangs = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('CANCELLED'))));

test('work with a limit: its answer, its own failure, or why it was cancelled; no timer and no listener stay', async () => {
  const clock = new FakeClock();
  const caller = new AbortController();
  const limited = <T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> =>
    withLimit(clock, 10_000, caller.signal, work);
  assert.equal(await limited(async () => 7), 7);
  await assert.rejects(
    limited(() => Promise.reject(new Error('own'))),
    /^Error: own$/,
  );
  const late = assert.rejects(limited(hangs), { code: 'REQUEST_TIMEOUT', message: 'no answer within 10 s' });
  clock.advance(10_000);
  await late;
  const cancelled = assert.rejects(limited(hangs), /CANCELLED/);
  caller.abort();
  await cancelled;
  assert.equal(await limited(async ({ aborted }) => aborted), true);
  assert.deepEqual([clock.pendingTimers, getEventListeners(caller.signal, 'abort').length], [0, 0]);
});
