import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import Long from 'long';
import { LinesideError } from '../../shared/base/errors.ts';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { recordingLogger } from '../../shared/base/logger.fixture.ts';
import { lineside } from '../../shared/proto/services.ts';
import { nothingUnset } from './corrections.ts';
import { Cause } from './packer.ts';
import { Shipper, type ShipperOptions } from './shipper.ts';
import { FakeLineLog, FakePositions, FakeTransport } from './upstream.fixture.ts';

class Box {
  readonly clock = new FakeClock();
  readonly line = new FakeLineLog();
  readonly transport: FakeTransport;
  readonly #recorded = recordingLogger();
  readonly log = this.#recorded.lines;
  readonly file = new FakePositions();
  busy = false;
  shipper: Shipper;

  constructor(t: TestContext, more: Partial<ShipperOptions['settings']> = {}, name: FakeTransport['name'] = 'kafka') {
    this.transport = new FakeTransport(name);
    this.shipper = this.begin(more);
    t.after(() => this.stop());
  }
  begin(more: Partial<ShipperOptions['settings']> = {}): Shipper {
    this.shipper = new Shipper({
      transport: this.transport,
      line: this.line,
      file: this.file,
      deviceId: 'device',
      settings: { batchBytes: 10_000, lingerMs: 1_000, maxKbitPerS: 0, maxBytesPerDay: 0, ...more },
      busy: () => this.busy,
      sendLimitMs: 60_000,
      clock: this.clock,
      logger: this.#recorded.logger,
      random: () => 0.5,
    });
    return this.shipper;
  }
  /** Time passes until it is so. */
  async until(what: string, look: () => boolean): Promise<void> {
    for (let n = 0; n < 50_000; n++) {
      if (look()) return;
      this.clock.advance(20);
      await turn();
    }
    throw new Error(`never: ${what}; ${JSON.stringify(this.shipper.status())}`);
  }
  async pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 20) {
      this.clock.advance(20);
      await turn();
    }
  }
  async sent(lastId: number): Promise<void> {
    await this.until(`all up to ${lastId} is sent`, () => this.shipper.status().position === lastId);
  }
  async stop(): Promise<void> {
    let stopped = false;
    const stopping = this.shipper.stop(100).then(() => {
      stopped = true;
    });
    await this.until('it stops', () => stopped);
    await stopping;
  }
  logged(what: string): number {
    return this.log.filter((line) => line.includes(what)).length;
  }
}

const upTo = (lastId: number, from = 1): number[] => Array.from({ length: lastId - from + 1 }, (_, n) => from + n);

describe('the shipper', () => {
  it('sends what there is, then waits for more, and lets the connection rest', async (t) => {
    const box = new Box(t);
    box.line.lastId = 500;
    box.shipper.start();
    await box.sent(500);
    assert.deepEqual(box.transport.ids, upTo(500));
    const before = box.transport.sends;
    box.line.lastId = 501;
    await box.sent(501);
    assert.equal(box.transport.sends, before + 1);
    await box.until('it is up to date', () => box.shipper.status().state === 'up to date');
    await box.until('it rests', () => box.transport.rests > 0);
    const { lagEntries, oldestUnsentAgeS, sentEntries, sentBytes } = box.shipper.status();
    assert.deepEqual([lagEntries, oldestUnsentAgeS, sentEntries, sentBytes], [0, 0, 501, 50_100]);
    assert.deepEqual([box.logged('upstream: connected'), box.log.length], [1, 1]);
  });

  it('resumes at the position of the remote: behind, ahead, and at 0 if it lost all', async (t) => {
    for (const [at, ids] of [
      [40, upTo(100, 41)],
      [0, upTo(100)],
      [90, upTo(100, 91)],
    ] as const) {
      const box = new Box(t, {}, 'collector');
      const places = [{ logId: 'log', afterId: 60, lastId: 60 }];
      box.file.saved = { places, budget: { ranMs: 0, hours: [] }, unset: nothingUnset };
      box.transport.at = at;
      box.line.lastId = 100;
      box.shipper.start();
      await box.sent(100);
      assert.deepEqual(box.transport.ids, ids);
    }
  });

  it('a log that was lost with its card ends with a gap of what waited, and the new log begins', async (t) => {
    const box = new Box(t);
    const places = [{ logId: 'lost', afterId: 40, lastId: 65 }];
    box.file.saved = { places, budget: { ranMs: 0, hours: [] }, unset: nothingUnset };
    Object.assign(box.line, { firstId: 66, lastId: 80 });
    box.shipper.start();
    await box.sent(80);
    assert.deepEqual(box.transport.ids, upTo(80, 66));
    assert.deepEqual(box.transport.gaps, [['lost', Cause.LOG_REPLACED, 41, 65, 25, true]]);
  });

  it('corrects times that were sent before the clock was set, also when the hub was killed right after sending them', async (t) => {
    for (const name of ['kafka', 'collector'] as const) {
      const killed = new Box(t, {}, name);
      killed.line.clockSet = false;
      killed.line.unsetTo = killed.line.lastId = 30;
      let onCard = killed.file.saved;
      const send = killed.transport.send.bind(killed.transport);
      killed.transport.send = (...batch) => {
        onCard = killed.file.saved;
        return send(...batch);
      };
      if (name === 'collector') killed.transport.at = 0;
      killed.shipper.start();
      await killed.sent(30);
      const next = new Box(t, {}, name);
      next.file.saved = onCard;
      next.line.unsetTo = next.line.lastId = 30;
      if (name === 'collector') next.transport.at = 30;
      next.shipper.start();
      const corrections = () => next.transport.stored.flatMap(({ clockCorrections }) => clockCorrections);
      await next.until('the correction is sent', () => corrections().length > 0);
      assert.deepEqual(
        corrections().map(({ firstId, lastId, correctionMs }) => [firstId, lastId, correctionMs].map(Number)),
        [[1, 30, 60_000]],
      );
    }
  });

  it('sends several at a time where the link carries them, and none stays behind one that was not stored', async (t) => {
    for (const outcome of [
      { kind: 'unreached', reason: 'reset' },
      { kind: 'refused', reason: 'not now', permanent: false },
      { kind: 'refused', reason: 'too large', permanent: true },
    ] as const) {
      const box = new Box(t, { batchBytes: 1_000 });
      const { transport } = box;
      transport.depth = 3;
      transport.answer = async () => {
        for (let n = 0; n < 6; n++) await turn();
      };
      box.line.lastId = 50;
      box.shipper.start();
      await box.sent(50);
      assert.equal(transport.mostInFlight, 3);
      box.line.lastId = 200;
      await box.until('some are under way', () => transport.ids.length >= 100 && transport.inFlight >= 2);
      transport.outcomes = [outcome];
      await box.sent(200);
      assert.deepEqual(transport.outcomes, []);
      assert.ok(box.shipper.status().repeatedBatches > 1, 'others were behind it');
      assert.deepEqual([...new Set(transport.ids)], upTo(200), 'in order, none before the ones in front of it');
    }
  });

  it('several in flight are charged before another is sent, and have their time at a stop', async (t) => {
    const box = new Box(t, { batchBytes: 1_000, maxBytesPerDay: 20_000 });
    box.transport.depth = 100;
    box.line.lastId = 20;
    box.shipper.start();
    await box.sent(20);
    let arrive = (): void => {};
    box.transport.answer = () =>
      new Promise<void>((resolve) => {
        const before = arrive;
        arrive = () => {
          before();
          resolve();
        };
      });
    box.line.lastId = 500;
    await box.until('the budget is used up', () => box.shipper.status().state === 'waiting for the budget');
    const { inFlight } = box.transport;
    assert.ok(inFlight > 5 && box.shipper.status().budgetUsedBytes <= 20_000, `${inFlight}`);
    const stopped = box.shipper.stop(10_000);
    await box.pass(1_000);
    arrive();
    await stopped;
    assert.equal(box.shipper.status().position, box.transport.ids.at(-1));
    assert.ok(box.shipper.status().budgetUsedBytes <= 20_000);
  });

  it('a refusal is reported, and retried in growing steps', async (t) => {
    const box = new Box(t);
    box.line.lastId = 10;
    const no = { kind: 'refused', reason: 'the topic is read-only', permanent: false } as const;
    box.transport.outcomes = [no, no, no];
    box.shipper.start();
    await box.until('it is refused', () => box.shipper.status().state === 'refused');
    assert.equal(box.shipper.status().reason, 'the topic is read-only');
    await box.sent(10);
    assert.deepEqual([box.transport.sends, box.logged('read-only'), box.shipper.status().repeatedBatches], [4, 1, 3]);
    assert.deepEqual(box.transport.ids, upTo(10));
  });

  it('while the line does not answer it waits, and loses nothing', async (t) => {
    const box = new Box(t);
    box.line.lastId = 5;
    box.shipper.start();
    await box.sent(5);
    box.line.isUnreachable = true;
    await box.until('it says so', () => box.shipper.status().state === 'waiting for the line');
    assert.equal(box.shipper.status().reason, 'the line is unreachable');
    await box.pass(5_000);
    assert.equal(box.logged('the line does not answer'), 0, 'a restart is no news');
    await box.pass(15_000);
    box.line.isUnreachable = false;
    box.line.lastId = 9;
    await box.sent(9);
    assert.deepEqual(box.transport.ids, upTo(9));
    assert.deepEqual([box.logged('the line does not answer'), box.logged('the line answers again')], [1, 1]);
  });

  it('change events take precedence: no batch is sent while they wait', async (t) => {
    const box = new Box(t);
    box.busy = true;
    box.line.lastId = 5;
    box.shipper.start();
    await box.until('it waits', () => box.shipper.status().state === 'waiting for change events');
    await box.pass(5_000);
    assert.deepEqual([box.transport.sends, box.transport.asked], [0, 0]);
    box.busy = false;
    await box.sent(5);
  });

  it('without room in the budget not even a connection is made, also by its successor; a day later it resumes', async (t) => {
    const box = new Box(t, { maxBytesPerDay: 5_000 });
    box.line.lastId = 200;
    box.shipper.start();
    await box.until('the budget is used up', () => box.shipper.status().state === 'waiting for the budget');
    const { budgetUsedBytes, position } = box.shipper.status();
    assert.ok(budgetUsedBytes <= 5_000 && position > 0, `${budgetUsedBytes}`);
    const { sends, asked } = box.transport;
    await box.stop();
    box.begin({ maxBytesPerDay: 5_000 }).start();
    await box.until('the next waits too', () => box.shipper.status().state === 'waiting for the budget');
    await box.pass(10_000);
    assert.deepEqual([box.transport.sends, box.transport.asked], [sends, asked]);
    assert.equal(box.logged('the data budget of 24 h is used up'), 2);
    box.clock.advance(26 * 3_600_000);
    await box.until('some more goes', () => box.shipper.status().position > position);
    assert.equal(box.logged('the data budget has room again'), 1);
  });

  it('a log that is replaced when all that was seen of it is sent ends with a gap of unknown size, reported once', async (t) => {
    for (const name of ['kafka', 'collector'] as const) {
      const box = new Box(t, {}, name);
      if (name === 'collector') box.transport.at = 0;
      box.line.lastId = 10;
      box.shipper.start();
      await box.sent(10);
      Object.assign(box.line, { logId: 'other', firstId: 1, lastId: 3 });
      if (name === 'collector') box.transport.at = 10;
      await box.until('the other log is sent', () => {
        const { logId, position } = box.shipper.status();
        if (name === 'collector' && logId === 'other' && box.transport.at === 10) box.transport.at = 0;
        return logId === 'other' && position === 3;
      });
      assert.deepEqual(box.transport.gaps, [['log', Cause.LOG_REPLACED, 11, 10, 0, true]]);
    }
  });

  it('a log that was put back to an earlier copy is sent from its end on, and that is logged; a collector has other entries there', async (t) => {
    for (const name of ['kafka', 'collector'] as const) {
      const box = new Box(t, {}, name);
      if (name === 'collector') box.transport.at = 0;
      box.line.lastId = 60;
      box.shipper.start();
      await box.sent(60);
      await box.stop();
      box.line.lastId = 40;
      box.begin().start();
      await box.until('it is said', () => box.logged('ends before what was sent of it') === 1);
      box.line.lastId = 50;
      if (name === 'kafka') await box.sent(50);
      await box.pass(5_000);
      box.line.lastId = 70;
      await box.sent(70);
      assert.deepEqual(box.transport.ids.slice(60), name === 'kafka' ? upTo(70, 41) : upTo(70, 61));
      assert.equal(box.logged('ends before what was sent of it'), 1);
    }
  });

  it('corrections that do not fit one batch come in several, and nothing else comes of them', async (t) => {
    const box = new Box(t);
    box.transport.maxBytes = 1_500;
    box.line.clockSet = false;
    box.line.lastId = 300;
    box.line.change = (one) => {
      const { ENTRY_CLOCK_KNOWN, ENTRY_CLOCK_NOT_SET, ENTRY_CLOCK_CORRECTED } = lineside.v1.EntryClock;
      const id = Number(one.id);
      one.clock = id % 10 === 0 ? ENTRY_CLOCK_KNOWN : box.line.clockSet ? ENTRY_CLOCK_CORRECTED : ENTRY_CLOCK_NOT_SET;
      if (one.entry) one.entry.timestamp = Long.fromNumber(box.line.clockSet ? 1_000 + id : 0, true);
    };
    box.shipper.start();
    await box.sent(300);
    const before = box.transport.stored.length;
    box.line.clockSet = true;
    await box.pass(10_000);
    const later = box.transport.stored.slice(before);
    assert.ok(later.length > 1 && later.length < 30, `${later.length}`);
    assert.deepEqual(
      later.flatMap(({ entries, gaps }) => [...entries, ...gaps]),
      [],
    );
    const ranges = later.flatMap(({ clockCorrections }) =>
      clockCorrections.map(({ firstId, lastId }) => [Number(firstId), Number(lastId)] as const),
    );
    const covered = new Set(ranges.flatMap(([first, last]) => upTo(last, first)));
    assert.deepEqual(
      upTo(300).filter((id) => id % 10 !== 0 && !covered.has(id)),
      [],
    );
  });

  it('an entry that the budget of a whole day has no room for goes as a gap, and holds up nothing', async (t) => {
    const box = new Box(t, { maxBytesPerDay: 5_000 });
    box.line.lastId = 3;
    box.line.change = ({ id, entry }) => {
      if (entry && Number(id) === 2) entry.rawData = new Uint8Array(6_000);
    };
    box.shipper.start();
    await box.sent(3);
    assert.deepEqual(box.transport.ids, [1, 3]);
    assert.deepEqual(box.transport.gaps, [['log', Cause.TOO_LARGE, 2, 2, 1, false]]);
  });

  it('corrections that take long to find are no stalled loop, and a line that cannot read is logged once', async (t) => {
    const box = new Box(t);
    box.line.clockSet = false;
    box.line.lastId = 3;
    box.line.change = (entry) => {
      entry.clock = lineside.v1.EntryClock.ENTRY_CLOCK_NOT_SET;
    };
    box.shipper.start();
    await box.sent(3);
    box.line.timeAt = () => Promise.reject(new LinesideError('INTERNAL', 'the log cannot be read'));
    box.line.clockSet = true;
    await box.pass(20_000);
    assert.deepEqual([box.logged('the log cannot be read'), box.logged('unexpected')], [1, 0]);
    assert.equal(box.shipper.status().reason, 'the log cannot be read');
  });

  it('cancels a batch whose transport hangs after the limit, and is not held up by it at a stop', async (t) => {
    const box = new Box(t);
    box.line.lastId = 5;
    box.transport.outcomes = ['hang'];
    box.shipper.start();
    await box.sent(5);
    assert.equal(box.transport.sends, 2);
    box.transport.outcomes = ['hang'];
    box.line.lastId = 6;
    await box.until('it is under way', () => box.transport.sends === 3);
    await box.stop();
    assert.equal(box.shipper.status().position, 5);
  });

  it('is reported if it stalls, and not while a batch takes its time', async (t) => {
    const box = new Box(t);
    box.line.lastId = 5;
    box.transport.outcomes = ['hang'];
    box.shipper.start();
    await box.until('it is under way', () => box.transport.sends === 1);
    box.clock.advance(59_000);
    box.shipper.assertAlive();
    await box.sent(5);
    // A line that never answers, and no time limit of its own.
    box.line.now = () => new Promise(() => {});
    await box.pass(3_000);
    box.shipper.assertAlive();
    box.clock.advance(300_000);
    assert.throws(() => box.shipper.assertAlive(), /it has not turned for/);
    box.line.now = async () => ({ logId: 'log', beginId: 1, firstId: 1, lastId: 5, headId: 5, clockSet: true });
    // Nothing wakes such a loop: what is left of it is left behind.
    box.begin();
  });

  it('an unexpected failure is logged, and retried', async (t) => {
    const box = new Box(t);
    box.line.lastId = 5;
    box.transport.fault = 'a fault of ours';
    box.shipper.start();
    await box.until('it is said', () => box.logged('a fault of ours') > 0);
    await box.pass(10_000);
    assert.equal(box.logged('a fault of ours'), 1);
    box.transport.fault = '';
    await box.sent(5);
    assert.deepEqual(box.transport.ids, upTo(5));
  });
});
