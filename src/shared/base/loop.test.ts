import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { FakeClock } from './fake-clock.fixture.ts';
import { recordingLogger } from './logger.fixture.ts';
import { FailureLog, Loop, type LoopOptions } from './loop.ts';

/** A loop on a fake clock: each pass writes down its second, and then does what the test put in `next`. */
class Rig {
  readonly clock = new FakeClock();
  readonly passes: number[] = [];
  readonly recorded = recordingLogger();
  readonly lines = this.recorded.lines;
  readonly loop: Loop;
  next: LoopOptions['pass'] = () => 10_000;

  constructor(t: TestContext, limits: Partial<LoopOptions> = {}) {
    const failures = new FailureLog(this.recorded.logger, 'failed', 'recovered');
    const pass = (signal: AbortSignal): number | Promise<number> => {
      this.passes.push(this.clock.monoMs() / 1_000);
      return this.next(signal);
    };
    this.loop = new Loop({ pass, failures, clock: this.clock, ...limits });
    t.after(() => void this.loop.stop());
  }

  seconds(seconds: number): Promise<void> {
    return this.clock.pass(seconds * 1_000);
  }
}

function fail(why = 'disk 7 is full'): never {
  throw new Error(why);
}

describe('a loop', () => {
  const schedules: readonly (Partial<LoopOptions> & {
    name: string;
    at: number[];
    delayMs?: number;
    fails?: boolean;
  })[] = [
    { name: 'waits between passes for as long as the pass says', at: [0, 10, 20, 30] },
    { name: 'begins after the delay that it is started with', delayMs: 5_000, at: [5, 15, 25, 35] },
    { name: 'doubles the wait while passes fail', fails: true, at: [0, 1, 3, 7, 15, 31] },
    {
      name: 'keeps to limits of its own',
      fails: true,
      retryFirstMs: 3_000,
      retryMaxMs: 9_000,
      at: [0, 3, 9, 18, 27, 36],
    },
    {
      name: 'spreads the waits over their upper half',
      fails: true,
      random: () => 0,
      at: [0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5],
    },
  ];
  for (const { name, at, delayMs, fails = false, ...limits } of schedules) {
    it(name, async (t) => {
      const rig = new Rig(t, limits);
      if (fails) rig.next = () => fail();
      rig.loop.start(delayMs);
      await rig.seconds(39);
      assert.deepEqual(rig.passes, at);
    });
  }

  it('is woken while it waits and during a pass, never later than it would pass anyway, and not during a backoff', async (t) => {
    const rig = new Rig(t);
    rig.loop.start();
    await rig.seconds(2);
    rig.loop.wake(3_000);
    rig.loop.wake(7_000);
    await rig.seconds(4);
    assert.deepEqual(rig.passes, [0, 5]);
    const pass = Promise.withResolvers<number>();
    rig.next = () => pass.promise;
    rig.loop.wake();
    await rig.seconds(1);
    rig.loop.wake(2_000);
    rig.next = () => fail();
    pass.resolve(10_000);
    await rig.seconds(2.5);
    rig.loop.wake();
    await rig.seconds(1);
    assert.deepEqual(rig.passes, [0, 5, 6, 9, 10]);
  });

  it('logs each reason of an outage once, numbers aside, and its end once', async (t) => {
    const rig = new Rig(t, { retryMaxMs: 1_000 });
    let pass = 0;
    rig.next = () => fail(`${pass % 2 === 0 ? 'disk is full' : 'file is gone'}: try ${(pass += 1)}`);
    rig.loop.start();
    await rig.seconds(30);
    const outage = ['warn failed error="disk is full: try 1"', 'warn failed error="file is gone: try 2"'];
    assert.deepEqual(rig.lines, outage);
    rig.next = () => 1_000;
    await rig.seconds(30);
    assert.deepEqual(rig.lines.splice(0), [...outage, 'info recovered']);
    rig.next = () => fail();
    await rig.seconds(30);
    assert.deepEqual(rig.lines, ['warn failed error="disk 7 is full"']);
  });

  it('stops at once while it waits; a pass under way gets its grace, then its signal fires', async (t) => {
    const waiting = new Rig(t);
    waiting.loop.start();
    await turn();
    await waiting.loop.stop(5_000);
    assert.equal(waiting.clock.pendingTimers, 0);

    const busy = new Rig(t);
    busy.next = (signal) =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))));
    busy.loop.start();
    let stoppedAt = 0;
    const stopped = busy.loop.stop(5_000).then(() => {
      stoppedAt = busy.clock.monoMs();
    });
    await busy.seconds(6);
    await stopped;
    assert.deepEqual([stoppedAt, busy.passes, busy.lines], [5_000, [0], []]);
  });

  it('is alive while passes or their beats come, before it has begun and after it was stopped', async (t) => {
    const rig = new Rig(t, { stalledMs: 30_000 });
    rig.next = () => new Promise(() => undefined);
    await rig.seconds(40);
    rig.loop.assertAlive();
    rig.loop.start();
    await rig.seconds(20);
    rig.loop.beat();
    await rig.seconds(30);
    rig.loop.assertAlive();
    await rig.seconds(1);
    assert.throws(() => rig.loop.assertAlive(), /it has not turned for 31 s/);
    void rig.loop.stop();
    rig.loop.assertAlive();
  });

  it('makes a pass on demand, shared with the one under way, also during a backoff', async (t) => {
    const rig = new Rig(t, { retryFirstMs: 60_000 });
    rig.next = () => fail();
    rig.loop.start();
    await rig.seconds(5);
    await assert.rejects(rig.loop.passNow(), /disk 7 is full/);
    rig.next = () => 10_000;
    await Promise.all([rig.loop.passNow(), rig.loop.passNow()]);
    await rig.seconds(12);
    assert.deepEqual(rig.passes, [0, 5, 5, 15]);
    assert.deepEqual(rig.lines, ['warn failed error="disk 7 is full"', 'info recovered']);
  });
});
