import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type FeedState, LogFeed } from './log-feed.ts';
import { ProblemError, problemOf } from './problem.ts';

/** Text that comes, 'cut' (the connection breaks), 'hang' (nothing more comes), or a refusal. */
type Step = string | { status: number; code: string };

const head = (logId = 'a', headId = 0): string => `${JSON.stringify({ type: 'log', logId, headId })}\n`;
const entry = (id: number): string =>
  `${JSON.stringify({ type: 'entry', id, dir: 'rx', timestampMs: 1, clock: 'known', data: 'eA==' })}\n`;
const position = (nextAfterId: number): string => `${JSON.stringify({ type: 'position', nextAfterId })}\n`;
const end = (code: string): string => `${JSON.stringify({ type: 'end', code, message: 'why' })}\n`;

/** A box that answers each connection by a script, and a clock that is moved by hand. */
function rig(connections: readonly (readonly Step[])[], firstStored = 1) {
  const asked: string[] = [];
  const states: FeedState[] = [];
  const seen: string[] = [];
  const timers = new Map<() => void, number>();
  let now = 0;
  async function* steps(script: readonly Step[], signal: AbortSignal): AsyncIterable<string> {
    for (const step of script) {
      if (step === 'cut') throw new Error('network error');
      else if (step === 'hang')
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))));
      else if (typeof step === 'string') yield step;
    }
  }
  const feed = new LogFeed({
    async open(query, signal) {
      const script = connections[asked.length] ?? ['hang'];
      asked.push(query);
      const [first] = script;
      if (typeof first === 'object')
        throw new ProblemError(problemOf(first.status, JSON.stringify({ code: first.code })));
      return steps(script, signal);
    },
    firstStoredId: async () => firstStored,
    after(ms, call) {
      timers.set(call, now + ms);
      return () => void timers.delete(call);
    },
    onState: (state) => states.push(state),
    onRows: (rows) =>
      seen.push(...rows.map((row) => (row.kind === 'gap' ? `${row.firstId}-${row.id}` : String(row.id)))),
    onReset: (why) => seen.push(why),
  });
  return {
    feed,
    asked,
    seen,
    is: () => states.at(-1)?.is,
    saw: (is: FeedState['is']) => states.some((state) => state.is === is),
    /** Until everything that is on its way has come. */
    async settle() {
      for (let turn = 0; turn < 50; turn += 1) await Promise.resolve();
      await new Promise((resolve) => setImmediate(resolve));
    },
    async pass(ms: number) {
      now += ms;
      for (const [call, at] of timers) {
        if (at > now) continue;
        timers.delete(call);
        call();
      }
      await this.settle();
    },
  };
}

describe('the live log', () => {
  it('goes on after the last entry when the connection breaks: each once, in order', async () => {
    const box = rig([
      [head(), entry(1), entry(2), 'cut'],
      [head(), entry(3), 'cut'],
      [head(), entry(4), 'hang'],
    ]);
    box.feed.start();
    await box.settle();
    assert.equal(box.is(), 'waiting');
    await box.pass(500);
    await box.pass(500);
    assert.equal(box.is(), 'live');
    assert.deepEqual(box.asked, ['last=500&follow=true', 'after=2&follow=true', 'after=3&follow=true']);
    assert.deepEqual(box.seen, ['1', '2', '3', '4']);
    box.feed.pause();
  });

  it('takes lines that come in pieces, and not what it has already', async () => {
    const text = head() + entry(1) + entry(2);
    const pieces = Array.from(text, (_, at) => text[at] ?? '');
    const box = rig([
      [...pieces, 'cut'],
      [head(), entry(2), entry(3), 'hang'],
    ]);
    box.feed.start();
    await box.settle();
    await box.pass(500);
    assert.deepEqual(box.seen, ['1', '2', '3']);
    box.feed.pause();
  });

  it('misses nothing of a log that was empty when the connection broke', async () => {
    const box = rig([
      [head(), '{"type":"alive"}\n', 'cut'],
      [head(), 'hang'],
    ]);
    box.feed.start();
    await box.settle();
    await box.pass(500);
    assert.equal(box.asked[1], 'after=0&follow=true');
    box.feed.pause();
  });

  it('begins with the newest again where the connection broke before any of them came', async () => {
    const box = rig([
      [head('a', 90_000), '{"type":"alive"}\n', 'cut'],
      [head('a', 90_000), entry(90_000), 'hang'],
    ]);
    box.feed.start();
    await box.settle();
    await box.pass(500);
    assert.deepEqual(box.asked, ['last=500&follow=true', 'last=500&follow=true']);
    box.feed.pause();
  });

  it('goes on with the newest where it is further behind than the page holds', async () => {
    const box = rig([
      [head('a', 5), entry(5), 'cut'],
      [head('a', 25_006), entry(6), 'hang'],
      [head('a', 25_007), entry(25_006), entry(25_007), 'hang'],
    ]);
    box.feed.start();
    await box.settle();
    await box.pass(500);
    await box.pass(1_000);
    assert.deepEqual(box.asked, ['last=500&follow=true', 'after=5&follow=true', 'last=500&follow=true']);
    assert.deepEqual(box.seen, ['5', 'behind', '25006', '25007']);
    assert.equal(box.is(), 'live');
    box.feed.pause();
  });

  it('knows silence from a dead connection: stale after 4.5 s without a line, given up after 12', async () => {
    const box = rig([
      [head(), entry(1), 'hang'],
      [head(), 'hang'],
    ]);
    box.feed.start();
    await box.settle();
    await box.pass(4_400);
    assert.equal(box.is(), 'live');
    await box.pass(100);
    assert.equal(box.is(), 'stale');
    await box.pass(7_500);
    assert.equal(box.is(), 'waiting');
    await box.pass(500);
    assert.equal(box.is(), 'live');
    assert.equal(box.asked[1], 'after=1&follow=true');
    box.feed.pause();
  });

  it('waits longer and longer while there is no answer, and begins again after one', async () => {
    const no: Step[] = [{ status: 503, code: 'NOT_READY' }];
    const box = rig([no, no, no, [head(), entry(1), 'cut'], [head(), 'hang']]);
    box.feed.start();
    await box.settle();
    for (const ms of [500, 1_000, 2_000]) {
      await box.pass(ms - 1);
      const before = box.asked.length;
      await box.pass(1);
      assert.equal(box.asked.length, before + 1);
    }
    await box.pass(500);
    assert.equal(box.asked.length, 5);
    box.feed.pause();
  });

  it('stops where waiting does not help: the token is refused', async () => {
    const box = rig([[{ status: 403, code: 'PERMISSION_DENIED' }]]);
    box.feed.start();
    await box.settle();
    assert.equal(box.is(), 'refused');
    await box.pass(60_000);
    assert.equal(box.asked.length, 1);
  });

  it('stops while it is read: a token that was revoked ends the stream', async () => {
    const box = rig([[head(), entry(1), end('UNAUTHENTICATED')]]);
    box.feed.start();
    await box.settle();
    assert.equal(box.is(), 'refused');
    assert.deepEqual(box.seen, ['1']);
  });

  it('pauses, and goes on after the last entry, or from the newest', async () => {
    const box = rig([
      [head(), entry(1), 'hang'],
      [head(), entry(2), 'hang'],
      [head(), entry(90), 'hang'],
    ]);
    box.feed.start();
    await box.settle();
    box.feed.pause();
    assert.equal(box.is(), 'paused');
    box.feed.startAfter(1);
    await box.settle();
    box.feed.startAtNewest();
    await box.settle();
    assert.deepEqual(box.asked, ['last=500&follow=true', 'after=1&follow=true', 'last=500&follow=true']);
    assert.deepEqual(box.seen, ['1', '2', 'jump', '90']);
    box.feed.pause();
  });

  it('begins again when the log is another one', async () => {
    const box = rig([
      [head('a'), entry(7), position(7), 'cut'],
      [head('b'), entry(8)],
      [head('b'), entry(1), entry(2), 'hang'],
    ]);
    box.feed.start();
    await box.settle();
    await box.pass(500);
    await box.pass(1_000);
    assert.deepEqual(box.asked, ['last=500&follow=true', 'after=7&follow=true', 'last=500&follow=true']);
    assert.deepEqual(box.seen, ['7', 'replaced', '1', '2']);
    box.feed.pause();
  });

  it('shows a gap where entries were removed before it came to them, and goes on behind it', async () => {
    const box = rig(
      [[head(), entry(5), 'cut'], [{ status: 410, code: 'LOG_LOST' }], [head(), entry(100), 'hang']],
      100,
    );
    box.feed.start();
    await box.settle();
    await box.pass(500);
    assert.deepEqual(box.asked, ['last=500&follow=true', 'after=5&follow=true', 'after=99&follow=true']);
    assert.deepEqual(box.seen, ['5', '6-99', '100']);
    box.feed.pause();
  });
});
