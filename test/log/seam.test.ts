/** The seam between stored and live: every id exactly once, in order, whatever the interleaving. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { LogRun } from '../../src/line/log/log-api.ts';
import type { SerialLog } from '../../src/line/log/serial-log.ts';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';
import { iteratorOf, newEntry, openLog } from './support.ts';

type Step =
  | { readonly do: 'record'; readonly count: number; readonly size: number }
  | { readonly do: 'store' }
  | { readonly do: 'turn' }
  | { readonly do: 'join'; readonly back: number }
  | { readonly do: 'read'; readonly reader: number; readonly runs: number }
  | { readonly do: 'resume'; readonly reader: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    do: fc.constant('record' as const),
    count: fc.integer({ min: 1, max: 60 }),
    size: fc.integer({ min: 0, max: 900 }),
  }),
  fc.constant({ do: 'store' as const }),
  fc.constant({ do: 'turn' as const }),
  fc.record({ do: fc.constant('join' as const), back: fc.integer({ min: 0, max: 200 }) }),
  fc.record({ do: fc.constant('read' as const), reader: fc.nat(9), runs: fc.integer({ min: 1, max: 4 }) }),
  fc.record({ do: fc.constant('resume' as const), reader: fc.nat(9) }),
);

class Follower {
  readonly #log: SerialLog;
  #reader: AsyncIterator<LogRun>;
  /** A call of next() that was not awaited to its end: the consumer is slow, not gone. */
  #open: Promise<IteratorResult<LogRun>> | undefined;
  cursor: number;

  constructor(log: SerialLog, after: number) {
    this.#log = log;
    this.cursor = after;
    this.#reader = iteratorOf(log, { after, follow: true });
  }

  async read(): Promise<void> {
    this.#open ??= this.#reader.next();
    const result = await this.#open;
    this.#open = undefined;
    assert.equal(result.done, false);
    for (const { id } of result.value.entries) assert.equal(id, ++this.cursor);
    assert.equal(result.value.nextAfterId, this.cursor);
  }

  /** At most `runs`, and never waiting for an entry beyond `head`. */
  async readSome(runs: number, head: number): Promise<void> {
    for (let i = 0; i < runs && this.cursor < head; i++) await this.read();
  }

  ask(): void {
    this.#open ??= this.#reader.next();
  }

  async resume(): Promise<void> {
    await this.leave();
    this.#open = undefined;
    this.#reader = iteratorOf(this.#log, { after: this.cursor, follow: true });
  }

  async leave(): Promise<void> {
    await this.#reader.return?.();
  }
}

test('random appends, commits, slow readers and resumes', async (t) => {
  // A tail of about 20 entries: readers cross the seam all the time, and lag behind what is not yet committed.
  const log = await openLog(t, temporaryDirectory(t), { tailBytes: 8_000, commitMs: 2 });
  await log.store(newEntry('first'));
  let head = 1;
  const run = async (steps: readonly Step[]): Promise<void> => {
    const followers: Follower[] = [new Follower(log, head)];
    for (const s of steps) {
      const follower = followers['reader' in s ? s.reader % followers.length : 0];
      if (s.do === 'record') {
        for (let i = 0; i < s.count; i++) log.record(1, ++head, Buffer.alloc(s.size));
      } else if (s.do === 'store') {
        assert.equal((await log.store(newEntry('stored'))).id, ++head);
      } else if (s.do === 'turn') {
        await new Promise((resolve) => setImmediate(resolve));
      } else if (s.do === 'join') {
        followers.push(new Follower(log, Math.max(1, head - s.back)));
      } else if (s.do === 'resume') {
        await follower?.resume();
      } else {
        await follower?.readSome(s.runs, head);
        follower?.ask();
      }
    }
    for (const follower of followers) {
      while (follower.cursor < head) await follower.read();
      await follower.leave();
    }
  };
  await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 60 }), run), { numRuns: 80 });
  assert.equal(log.readers, 0);
});
