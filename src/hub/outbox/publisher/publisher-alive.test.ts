/** Whether the publisher's loop is seen to turn, and seen to stand. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { change, rigFor, turns } from './publisher.fixture.ts';

const limitMs = 30_000;

test('a publisher that turns each second is well, with nothing to send, offline, and stopped', async (t) => {
  const { store, broker, publisher, clock } = rigFor(t);
  publisher.assertAlive();
  publisher.start();
  broker.answer = () => 'silent';
  await change(store, ['a', 'b']);
  for (let s = 0; s < 120; s++) {
    clock.advance(1_000);
    await turns();
    publisher.assertAlive();
  }
  await publisher.stop(0);
  clock.advance(10 * limitMs);
  publisher.assertAlive();
});

test('one whose timer never comes again is told from its turns', async (t) => {
  const { publisher, clock } = rigFor(t);
  publisher.start();
  const lost = t.mock.method(clock, 'timer', () => ({ cancel() {} }));
  clock.advance(limitMs);
  publisher.assertAlive();
  clock.advance(2_000);
  await turns();
  assert.throws(() => publisher.assertAlive(), /it has not turned for 32 s/);
  lost.mock.restore();
});

test('without a broker there is no loop to miss', (t) => {
  const { publisher, clock } = rigFor(t, { broker: undefined });
  publisher.start();
  clock.advance(100 * limitMs);
  publisher.assertAlive();
});
