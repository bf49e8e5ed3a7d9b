import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { ProblemError, problemOf } from '../problem.ts';
import { everything } from '../rows.ts';
import { type Exported, type ExportProgress, type ExportRange, exportLog } from './log-export.ts';

const line = (value: object): string => `${JSON.stringify(value)}\n`;
const head = (logId = 'a'): string => line({ type: 'log', logId, headId: 9 });
const entry = (id: number, text = `${id};`): string =>
  line({ type: 'entry', id, dir: 'rx', timestampMs: id * 1_000, clock: 'known', data: btoa(text), note: '' });
const gap = (firstId: number, lastId: number): string =>
  line({ type: 'gap', firstId, lastId, entries: lastId - firstId + 1, bytes: 1, fromMs: 0, toMs: 1, reason: 'full' });
const position = (nextAfterId: number): string => line({ type: 'position', nextAfterId });
const end = (code: string): string => line({ type: 'end', code, message: 'why' });

const whole: ExportRange = { format: 'raw', wanted: everything, sinceMs: 0, untilMs: 0, afterId: 0 };
/** What comes; 'cut': the connection breaks; 'hang': nothing more comes; a number: a refusal with this status. */
type Page = readonly (string | number)[];

/** The box answers each request by a script; the clock passes whenever the export waits. */
async function exported(
  pages: readonly Page[],
  own: Partial<ExportRange> = {},
  { stored = [{ firstId: 1, lastId: 5 }], maxBytes = 1_000 } = {},
) {
  const asked: string[] = [];
  const progress: ExportProgress[] = [];
  const written: Uint8Array[] = [];
  const clock = new FakeClock();
  const stop = new AbortController();
  let isOver = false;
  async function* steps(page: Page, signal: AbortSignal): AsyncIterable<string> {
    for (const step of page) {
      if (step === 'cut') throw new TypeError('network error');
      if (step === 'stop') stop.abort(new Error('stopped by the user'));
      else if (step === 'hang')
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))));
      else yield String(step);
    }
  }
  let looks = 0;
  const result = exportLog(
    {
      range: { ...whole, ...own },
      async open(query, signal) {
        const page = pages[asked.length] ?? [head()];
        asked.push(query);
        const [first] = page;
        if (typeof first === 'number')
          throw new ProblemError(problemOf(first, JSON.stringify({ code: first === 410 ? 'LOG_LOST' : '' })));
        return steps(page, signal);
      },
      stored: async () => stored[Math.min(looks++, stored.length - 1)] ?? { firstId: 0, lastId: 0 },
      clock,
      maxBytes,
      write: async (bytes) => void written.push(bytes),
      onProgress: (now) => progress.push(now),
    },
    stop.signal,
  ).finally(() => {
    isOver = true;
  });
  result.catch(() => {});
  for (let seconds = 0; !isOver && seconds < 600; seconds += 1) await clock.pass(1_000);
  assert.ok(isOver, 'the export does not end');
  const file = (): string => Buffer.concat(written).toString();
  return { asked, progress, file, result };
}

const shown = async ({ result, file }: Awaited<ReturnType<typeof exported>>): Promise<[string, Partial<Exported>]> => {
  const { bytes: _, ...of } = await result;
  return [file(), Object.fromEntries(Object.entries(of).filter(([, value]) => value !== 0 && value !== undefined))];
};

describe('an export of the log', () => {
  it('is page by page, each entry once, up to the last entry of its start', async () => {
    const run = await exported([
      [head(), entry(1), entry(2), position(2)],
      [head(), entry(3), gap(4, 4), position(4)],
      [head(), entry(5), entry(6), position(6)],
    ]);
    assert.deepEqual(await shown(run), ['1;2;3;5;', { entries: 4, neverStored: 1 }]);
    assert.deepEqual(
      run.asked,
      [0, 2, 4].map((after) => `after=${after}&limit=5000&follow=false`),
    );
    assert.deepEqual(run.progress.at(-1), { entries: 4, bytes: 8, share: 1 });
  });

  it('is of a range, a direction and what matches; a page that a filter emptied is not its end', async () => {
    const own = { sinceMs: 1_000, untilMs: 5_000, wanted: { dir: 'rx', text: '3', as: 'text' } } as const;
    const run = await exported([[head(), position(2)], [head(), entry(3), entry(4), position(4)], [head()]], own);
    assert.deepEqual(await shown(run), ['3;', { entries: 1 }]);
    assert.equal(run.asked[1], 'after=2&limit=5000&dir=rx&sinceMs=1000&untilMs=5000&follow=false');
  });

  it('continues where it was after a break, a silence and a busy box', async () => {
    const run = await exported([
      [head(), entry(1), 'cut'],
      [head(), entry(2), 'hang'],
      [429],
      [head(), entry(3), end('UNAVAILABLE')],
      [head(), entry(4), entry(5)],
    ]);
    assert.deepEqual(await shown(run), ['1;2;3;4;5;', { entries: 5 }]);
  });

  it('ends with the problem after six attempts without progress, and at once when it is refused or the log is another', async () => {
    const away = await exported(Array.from({ length: 9 }, () => ['cut']));
    await assert.rejects(away.result, TypeError);
    assert.equal(away.asked.length, 7);
    const refused = await exported([[head(), entry(1), 'cut'], [403]]);
    await assert.rejects(refused.result, ProblemError);
    assert.equal(refused.asked.length, 2);
    const replaced = await exported([
      [head('a'), entry(1), 'cut'],
      [head('b'), entry(2)],
    ]);
    await assert.rejects(replaced.result, /replaced by a new one during the export/);
    assert.equal(replaced.file(), '1;');
  });

  it('names what retention removed: before the range began, and while it was read', async () => {
    const stored = [
      { firstId: 3, lastId: 9 },
      { firstId: 7, lastId: 9 },
    ];
    const pages: readonly Page[] = [[head(), entry(3)], [head(), entry(3), position(3)], [410], [head(), entry(7)]];
    const run = await exported(pages, {}, { stored });
    assert.deepEqual(await shown(run), ['3;7;', { entries: 2, removedBeforeMs: 3_000, removedMeanwhile: 3 }]);
    // The range begins later than what there is.
    const later = await exported(
      [
        [head(), entry(3)],
        [head(), entry(5)],
      ],
      { sinceMs: 4_000 },
      { stored },
    );
    assert.deepEqual(await shown(later), ['5;', { entries: 1 }]);
  });

  it('stops before a part that would make the file too large, and names its last entry', async () => {
    const run = await exported([[head(), entry(1), entry(2, 'x'.repeat(20))]], {}, { maxBytes: 20 });
    assert.deepEqual(await shown(run), ['1;', { entries: 1, cutAfter: { id: 1, ms: 1_000 } }]);
    const next = await exported([[head(), entry(2)]], { afterId: 1 });
    assert.deepEqual(await shown(next), ['2;', { entries: 1 }]);
    assert.equal(next.asked[0], 'after=1&limit=5000&follow=false');
  });

  it('ends when it is cancelled', async () => {
    const run = await exported([[head(), entry(1), 'stop', 'cut']]);
    await assert.rejects(run.result, /stopped by the user/);
    assert.equal(run.asked.length, 1);
  });
});
