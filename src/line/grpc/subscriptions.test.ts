import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { Subscriptions } from './subscriptions.ts';

const { signal } = new AbortController();

function rig(limit = 100) {
  const clock = new FakeClock();
  const releases: number[] = [];
  const subscriptions = new Subscriptions({
    limit,
    clock,
    releaseMemory: () => releases.push(subscriptions.count),
  });
  const pass = (streams: number): void => {
    const open = Array.from({ length: streams }, () => subscriptions.open(signal));
    for (const one of open) one.close();
  };
  return { clock, subscriptions, releases, pass };
}

test('the memory of many streams is released once they have ended', () => {
  const { clock, subscriptions, releases, pass } = rig();
  const stays = subscriptions.open(signal);
  pass(50);
  assert.deepEqual(releases, [], 'not between one end and the next');
  clock.advance(2_000);
  assert.deepEqual(releases, [1]);
  clock.advance(60_000);
  assert.deepEqual(releases, [1], 'once');
  stays.close();
});

test('a few streams are not worth it, until they are many', () => {
  const { clock, releases, pass } = rig();
  pass(7);
  clock.advance(60_000);
  assert.deepEqual(releases, []);
  pass(1);
  clock.advance(2_000);
  assert.deepEqual(releases, [0]);
});

test('streams that come and go without a pause have memory released once in 7 seconds', () => {
  const { clock, releases, pass } = rig();
  for (let ms = 0; ms < 28_000; ms += 500) {
    pass(8);
    clock.advance(500);
  }
  assert.equal(releases.length, 4);
});

test('a stop waits for no release', () => {
  const { clock, subscriptions, releases, pass } = rig();
  pass(8);
  subscriptions.endAll();
  assert.equal(clock.pendingTimers, 0);
  clock.advance(2_000);
  assert.deepEqual(releases, []);
});

test('one stream too many is refused, and has a place when another has ended', () => {
  const { subscriptions } = rig(1);
  const only = subscriptions.open(signal);
  assert.throws(() => subscriptions.open(signal), { code: 'TOO_MANY', hint: /grpc\.max_subscribers/ });
  only.close();
  subscriptions.open(signal).close();
});
