import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { nothingUnset, type SentUnset, sentUnset } from './corrections.ts';
import { Lag, LogPositions } from './log-positions.ts';

describe('positions in logs', () => {
  it('a log that is seen for the first time is sent from its oldest entry on', () => {
    const places = new LogPositions([]);
    assert.equal(places.seen({ logId: 'a', beginId: 0, firstId: 0, lastId: 0 }), 'known');
    assert.equal(places.current, undefined);
    assert.equal(places.seen({ logId: 'a', beginId: 40, firstId: 40, lastId: 90 }), 'first');
    assert.deepEqual(places.current, { logId: 'a', afterId: 39, lastId: 90 });
  });

  it('a log that begins with a gap is sent from the gap on, and one that uses ids on from where the other is known to end', () => {
    for (const [beginId, firstId, afterId] of [
      [1, 5, 4],
      [7, 20, 9],
      [12, 20, 11],
      [15, 15, 14],
    ] as const) {
      const places = new LogPositions([{ logId: 'a', afterId: 5, lastId: 9 }]);
      places.seen({ logId: 'b', beginId, firstId, lastId: 30 });
      assert.deepEqual(places.all.at(-1), { logId: 'b', afterId, lastId: 30 });
    }
    const first = new LogPositions([]);
    first.seen({ logId: 'a', beginId: 3, firstId: 8, lastId: 9 });
    assert.equal(first.current?.afterId, 2);
  });

  it('of many that were replaced during an outage the first and the newest are kept', () => {
    const places = new LogPositions([]);
    for (let n = 0; n < 100; n++) places.seen({ logId: `log ${n}`, beginId: 1, firstId: 1, lastId: 2 });
    assert.ok(places.all.length <= 4);
    assert.deepEqual([places.current?.logId, places.all.at(-1)?.logId], ['log 0', 'log 99']);
  });
});

describe('the age of what waits', () => {
  it('is that of the oldest entry that was not sent, to some seconds', () => {
    const lag = new Lag();
    for (let s = 0; s <= 100; s++) lag.seen('a', s * 10, s * 1_000);
    assert.equal(lag.ageMs(1_000, 100_000), 0);
    for (const [afterId, ageMs] of [
      [0, 100_000],
      [500, 50_000],
      [990, 1_000],
    ] as const) {
      const age = lag.ageMs(afterId, 100_000);
      assert.ok(age >= ageMs - 1_000 && age <= ageMs + 5_000, `${age} for ${ageMs}`);
    }
  });

  it('is never too short, however long nothing is sent', () => {
    const lag = new Lag();
    for (let n = 0; n <= 20_000; n++) lag.seen('a', n + 1, n * 10_000);
    assert.equal(lag.ageMs(0, 200_000_000), 200_000_000);
    assert.ok(lag.ageMs(10_000, 200_000_000) >= 100_000_000);
  });

  it('begins again with another log', () => {
    const lag = new Lag();
    lag.seen('a', 100, 0);
    lag.seen('b', 5, 60_000);
    assert.equal(lag.ageMs(0, 61_000), 1_000);
  });
});

describe('entries sent before the clock was set', () => {
  it('are ranges of one boot, at most 64', () => {
    let sent: SentUnset = nothingUnset;
    sent = sentUnset(sent, { logId: 'log', bootId: 'a' }, [1, 2, 3]);
    sent = sentUnset(sent, { logId: 'log', bootId: 'a' }, [4, 6]);
    sent = sentUnset(sent, { logId: 'log', bootId: 'a' }, []);
    sent = sentUnset(sent, { logId: 'log', bootId: 'a' }, [10]);
    assert.deepEqual(sent, {
      logId: 'log',
      bootId: 'a',
      ranges: [
        [1, 6],
        [10, 10],
      ],
    });
    assert.deepEqual(sentUnset(sent, { logId: 'log', bootId: 'b' }, [20]), {
      logId: 'log',
      bootId: 'b',
      ranges: [[20, 20]],
    });
    for (let id = 100; id < 1_000; id += 2) sent = sentUnset(sent, { logId: 'log', bootId: 'a' }, [id]);
    assert.equal(sent.ranges.length, 64);
    assert.equal(sent.ranges.at(-1)?.[1], 998);
  });
});
