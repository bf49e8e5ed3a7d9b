import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import type { LineNumbers } from '../../shared/proto/line-status.ts';
import { anyStatus, statusWith } from './status.fixture.ts';
import { LineWatch } from './watch.ts';

/** A line whose answers are set by the test; time passes by its clock alone. */
class FakeLine {
  readonly clock = new FakeClock();
  asked = 0;
  answer: (signal: AbortSignal) => Promise<LineNumbers> = async () => anyStatus;
  readonly watch = new LineWatch((signal) => {
    this.asked += 1;
    return this.answer(signal);
  }, this.clock);

  says(changes: Partial<LineNumbers>): void {
    this.answer = async () => ({ ...anyStatus, ...changes });
  }

  /** A look every ten seconds; the alerts after the last one. */
  async after(seconds: number): Promise<string[]> {
    let names: string[] = [];
    for (let passed = 0; passed < seconds; passed += 10) {
      this.clock.advance(10_000);
      await this.watch.look();
      names = this.watch.alerts().map(({ name, severity }) => `${name} ${severity}`);
    }
    return names;
  }
}

describe('the watch on the line', () => {
  it('asks once for all who look within a second', async () => {
    const line = new FakeLine();
    const [a, b] = await Promise.all([line.watch.look(), line.watch.look()]);
    await line.watch.look();
    assert.equal(line.asked, 1);
    assert.equal(a, b);
    assert.deepEqual(a, { status: anyStatus, reason: '' });
    line.clock.advance(1_000);
    await line.watch.look();
    assert.equal(line.asked, 2);
  });

  it('waits no longer than two seconds for an answer, and reports why there was none', async () => {
    const line = new FakeLine();
    line.answer = (signal) =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('cut'))));
    const looked = line.watch.look();
    line.clock.advance(2_000);
    assert.deepEqual(await looked, { status: undefined, reason: 'no answer within 2 s' });
    line.clock.advance(1_000);
    line.answer = () => Promise.reject(new Error('UNAVAILABLE: no such socket'));
    assert.deepEqual(await line.watch.look(), { status: undefined, reason: 'UNAVAILABLE: no such socket' });
    assert.equal(line.clock.pendingTimers, 0);
  });

  it('has no alert before it has looked, and none of a line that is well', async () => {
    const line = new FakeLine();
    assert.deepEqual(line.watch.alerts(), []);
    assert.deepEqual(await line.after(600), []);
  });

  it('has an alert of a line that has not answered for a minute, and none as soon as it answers', async () => {
    const line = new FakeLine();
    line.answer = () => Promise.reject(new Error('UNAVAILABLE'));
    assert.deepEqual(await line.after(60), []);
    assert.deepEqual(await line.after(10), ['LinesideLineDown critical']);
    line.says({});
    assert.deepEqual(await line.after(10), []);
  });

  it('has an alert of a port that has been lost for five minutes, however often it is retried', async () => {
    const line = new FakeLine();
    line.says({ portState: 'lost', portError: 'gone' });
    assert.deepEqual(await line.after(150), []);
    line.says({ portState: 'reopening', portError: 'gone' });
    assert.deepEqual(await line.after(150), []);
    assert.deepEqual(await line.after(10), ['LinePortLost critical']);
    assert.match(line.watch.alerts()[0]?.summary ?? '', /gone/);
    for (const portState of ['open', 'closed', 'opening', 'closing'] as const) {
      line.says({ portState });
      assert.deepEqual(await line.after(400), []);
    }
  });

  it('has an alert at once if the log is not stored', async () => {
    const line = new FakeLine();
    line.says(statusWith({}, { state: 'failing', error: 'the disk is full', lostEntries: 7 }));
    assert.deepEqual(await line.after(10), ['LineLogFailing critical']);
    assert.match(line.watch.alerts()[0]?.summary ?? '', /7 entries.*the disk is full/);
  });

  it('has an alert of dropped packets for five minutes, if a client fetches packets', async () => {
    const line = new FakeLine();
    const { rxDroppedPackets: dropped, rxFetchedPackets: fetched } = anyStatus.counters;
    await line.after(10);
    line.says(statusWith({ rxDroppedPackets: dropped + 1 }));
    assert.deepEqual(await line.after(10), []);
    line.says(statusWith({ rxDroppedPackets: dropped + 3, rxFetchedPackets: fetched + 1 }));
    assert.deepEqual(await line.after(290), ['LineRxDropped warning']);
    assert.deepEqual(await line.after(20), []);
  });

  it('has an alert of more than ten errors in five minutes; a break is none', async () => {
    const line = new FakeLine();
    const kernel = { frame: 90, overrun: 90, parity: 90, brk: 90, bufOverrun: 90, rx: 0, tx: 0 };
    line.says({ kernel });
    await line.after(10);
    line.says({ kernel: { ...kernel, frame: 95, overrun: 92, parity: 92, bufOverrun: 91, brk: 999 } });
    assert.deepEqual(await line.after(10), []);
    line.says({ kernel: { ...kernel, frame: 96, overrun: 92, parity: 92, bufOverrun: 91, brk: 999 } });
    assert.deepEqual(await line.after(10), ['LineErrors warning']);
    assert.deepEqual(await line.after(300), []);
    line.says({ kernel: null });
    assert.deepEqual(await line.after(10), []);
  });
});
