/** The same request for many things, one after the other, each result counted. Pure. */
import { type Problem, problemFrom } from './problem.ts';

export interface BulkResult<T> {
  readonly well: number;
  /** Each with the reason of the box. */
  readonly refused: readonly { readonly item: T; readonly reason: string }[];
  /** There was no answer: it may have been done. */
  readonly unanswered: T | undefined;
  /** How many were not tried: it was stopped, or nothing more would have gone well. */
  readonly left: number;
  /** Why it did not go on; undefined: all were tried, or it was stopped. */
  readonly problem: Problem | undefined;
}

/** `each` rejects if it is refused. `onProgress`: after each. */
export async function inTurn<T>(
  items: readonly T[],
  each: (item: T) => Promise<unknown>,
  { signal, onProgress }: { readonly signal: AbortSignal; readonly onProgress: (tried: number) => void },
): Promise<BulkResult<T>> {
  const refused: { item: T; reason: string }[] = [];
  let well = 0;
  const result = (tried: number, problem?: Problem, unanswered?: T): BulkResult<T> => ({
    well,
    refused,
    unanswered,
    left: items.length - tried,
    problem,
  });
  for (const [at, item] of items.entries()) {
    if (signal.aborted) return result(at);
    try {
      await each(item);
      well += 1;
    } catch (thrown) {
      const problem = problemFrom(thrown);
      if (problem.status === 0) return result(at + 1, problem, item);
      if (!isOfItem(problem)) return result(at, problem);
      refused.push({ item, reason: problem.detail || problem.title });
    }
    onProgress(at + 1);
  }
  return result(items.length);
}

/** A refusal that says nothing about the other items. */
function isOfItem({ status }: Problem): boolean {
  return status === 404 || status === 409 || status === 412;
}
