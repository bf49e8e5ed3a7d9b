import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NextDueCache } from './schedule.ts';

function nextDueOf(...ids: readonly number[]): NextDueCache {
  const nextDue = new NextDueCache();
  assert.deepEqual(nextDue.keep(ids), ids);
  return nextDue;
}

test('a new one is looked at at once, one that is not kept never', () => {
  const nextDue = nextDueOf(1, 2);
  assert.deepEqual([nextDue.isDue(1, 0), nextDue.isDue(3, 1e12)], [true, false]);
  assert.deepEqual(nextDue.keep([2, 3]), [3]);
  assert.deepEqual([nextDue.isDue(1, 1e12), nextDue.isDue(3, 0)], [false, true]);
});

test('after it was read it is looked at when something is due, however often it is told of what is due later', () => {
  const nextDue = nextDueOf(1, 2);
  nextDue.from(1, 5_000);
  nextDue.from(2, Number.POSITIVE_INFINITY);
  nextDue.notLaterThan(1, 9_000);
  assert.deepEqual([nextDue.isDue(1, 4_999), nextDue.isDue(1, 5_000), nextDue.isDue(2, 1e12)], [false, true, false]);
  assert.equal(nextDue.nextAfter(0), 5_000);
  assert.equal(nextDue.nextAfter(5_000), Number.POSITIVE_INFINITY);
  nextDue.notLaterThan(2, 3_000);
  assert.equal(nextDue.nextAfter(0), 3_000);
});

test('one that cannot be read is tried after 1, 2, 4, ... 60 s, and after a success after 1 s again', () => {
  const nextDue = nextDueOf(1);
  const waits = Array.from({ length: 8 }, () => {
    nextDue.failed(1, 1_000);
    return (nextDue.nextAfter(1_000) - 1_000) / 1_000;
  });
  assert.deepEqual(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
  nextDue.all();
  assert.equal(nextDue.isDue(1, 1_000), false, 'also when all others are looked at');
  nextDue.succeeded(1);
  nextDue.failed(1, 1_000);
  assert.equal(nextDue.nextAfter(1_000), 2_000);
  nextDue.succeeded(1);
  nextDue.all();
  assert.equal(nextDue.isDue(1, 0), true);
});
