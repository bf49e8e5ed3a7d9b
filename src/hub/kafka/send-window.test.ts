import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { SendWindow } from './send-window.ts';

const mostBytes = 4 * 1024 * 1024;

/** A line of so many bytes a second and a round trip: what is offered is carried in turn. Answers bytes carried, and late ones. */
function carry(window: SendWindow, bytesPerSecond: number, roundTripMs: number, seconds: number, messageBytes = 500) {
  const queue: { readonly takenMs: number; readonly atMs: number }[] = [];
  let freeMs = 0;
  let carried = 0;
  let timedOut = 0;
  for (let nowMs = 0; nowMs < seconds * 1_000; nowMs += 50) {
    while (queue[0] !== undefined && queue[0].atMs <= nowMs) {
      const [one] = queue.splice(0, 1);
      if (one === undefined) break;
      if (nowMs - one.takenMs > 30_000) {
        timedOut++;
        window.timedOut(one.takenMs, nowMs);
      } else {
        carried += messageBytes;
        window.acknowledged(messageBytes, one.takenMs, nowMs);
      }
    }
    while (queue.length === 0 || (queue.length + 1) * messageBytes <= window.bytes) {
      freeMs = Math.max(freeMs, nowMs) + (messageBytes / bytesPerSecond) * 1_000;
      queue.push({ takenMs: nowMs, atMs: freeMs + roundTripMs });
    }
  }
  return { carried, timedOut };
}

test('a fast line gets all there is within a second of acknowledgements', () => {
  const window = new SendWindow(mostBytes, 30_000);
  carry(window, 50_000_000, 20, 1, 10_000);
  assert.equal(window.bytes, mostBytes);
});

test('a slow line is kept busy, and nothing waits in it until it times out', () => {
  for (const bytesPerSecond of [2_000, 8_000, 100_000]) {
    const { carried, timedOut } = carry(new SendWindow(mostBytes, 30_000), bytesPerSecond, 600, 120);
    assert.ok(carried > 0.8 * 120 * bytesPerSecond, `${carried} at ${bytesPerSecond}`);
    // What the first window held too much of.
    assert.ok(timedOut * 500 < 65_536, `${timedOut} timed out at ${bytesPerSecond}`);
  }
});

test('one lost crowd halves it once, not once for each message', () => {
  const window = new SendWindow(mostBytes, 30_000);
  carry(window, 50_000_000, 20, 1, 10_000);
  for (let n = 0; n < 1_000; n++) window.acknowledged(500, 1_000, 9_000);
  assert.equal(window.bytes, mostBytes / 2);
  window.timedOut(9_000, 40_000);
  assert.equal(window.bytes, 65_536);
});

test('whatever happens it stays between its bounds, also where little is allowed', () => {
  const events = fc.array(fc.tuple(fc.boolean(), fc.nat(1_000_000), fc.nat(60_000), fc.nat(60_000)));
  fc.assert(
    fc.property(fc.integer({ min: 1, max: mostBytes }), events, (most, all) => {
      const window = new SendWindow(most, 30_000);
      let nowMs = 0;
      for (const [acknowledged, bytes, ageMs, passMs] of all) {
        nowMs += passMs;
        if (acknowledged) window.acknowledged(bytes, nowMs - ageMs, nowMs);
        else window.timedOut(nowMs - ageMs, nowMs);
        assert.ok(window.bytes <= most && window.bytes >= Math.min(most, 8_192));
      }
    }),
  );
});
