/** When each alert of the line fires: test/metrics/alerts-agree.test.ts. */
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

  it('says why the port is lost, and how much of the log is not stored', async () => {
    const line = new FakeLine();
    line.says({
      ...statusWith({}, { state: 'failing', error: 'the disk is full', lostEntries: 7 }),
      portState: 'lost',
      portError: 'gone',
    });
    assert.deepEqual(await line.after(10), ['LineLogFailing critical']);
    assert.deepEqual(await line.after(300), ['LinePortLost critical', 'LineLogFailing critical']);
    assert.match(
      line.watch
        .alerts()
        .map(({ summary }) => summary)
        .join('\n'),
      /gone\n.*7 entries.*the disk is full/,
    );
  });
});
