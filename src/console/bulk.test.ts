import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { inTurn } from './bulk.ts';
import { ProblemError, problemOf } from './problem.ts';

const failing = (status: number, detail: string): ProblemError =>
  new ProblemError(problemOf(status, JSON.stringify({ title: 'No', detail })));

/** Does 1 to 5; `answers`: what some of them end with. */
async function run(answers: Readonly<Record<number, Error>>, stopAfter = 99) {
  const stop = new AbortController();
  const tried: number[] = [];
  const progress: number[] = [];
  let underWay = 0;
  const each = async (item: number): Promise<void> => {
    underWay += 1;
    assert.equal(underWay, 1, 'one at a time');
    tried.push(item);
    await Promise.resolve();
    underWay -= 1;
    const answer = answers[item];
    if (answer !== undefined) throw answer;
  };
  const onProgress = (done: number): void => {
    progress.push(done);
    if (done === stopAfter) stop.abort();
  };
  const result = await inTurn([1, 2, 3, 4, 5], each, { signal: stop.signal, onProgress });
  return { tried, progress, ...result };
}

describe('many requests, one after the other', () => {
  it('count each, and go on after a refusal that is of one item', async () => {
    const { progress, ...result } = await run({ 2: failing(409, 'it waits'), 4: failing(404, '') });
    assert.deepEqual(progress, [1, 2, 3, 4, 5]);
    assert.deepEqual(result, {
      tried: [1, 2, 3, 4, 5],
      well: 3,
      refused: [
        { item: 2, reason: 'it waits' },
        { item: 4, reason: 'No' },
      ],
      unanswered: undefined,
      left: 0,
      problem: undefined,
    });
  });

  it('stop between two requests', async () => {
    const { tried, well, left } = await run({}, 2);
    assert.deepEqual([tried, well, left], [[1, 2], 2, 3]);
  });

  it('end where the box refuses all: the one that was refused was not done', async () => {
    for (const status of [401, 403, 422, 429, 503, 507]) {
      const { tried, well, left, problem, refused, unanswered } = await run({ 3: failing(status, 'full') });
      assert.deepEqual([tried, well, left, refused, unanswered], [[1, 2, 3], 2, 3, [], undefined]);
      assert.equal(problem?.status, status);
    }
  });

  it('end where there is no answer: that one may have been done, and is counted on its own', async () => {
    const { well, left, problem, unanswered } = await run({ 3: new TypeError('Failed to fetch') });
    assert.deepEqual([well, left, unanswered, problem?.detail], [2, 2, 3, 'Failed to fetch']);
  });
});
