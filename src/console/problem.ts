/** Failures, in the words of the service if it answered. Pure. */
import type { Problem as Answered } from '../shared/gen/http.ts';
import { text } from './text.ts';

/** `status` 0: there was no answer. */
export type Problem = Pick<Answered, 'status' | 'code' | 'title' | 'detail'> & {
  readonly hint: string;
  readonly reasons: readonly string[];
};

export class ProblemError extends Error {
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(`${problem.title}: ${problem.detail}`);
    this.problem = problem;
  }
}

/** The problem of an answer without success; `body`: its text. */
export function problemOf(status: number, body: string): Problem {
  const fields = objectOf(body);
  const field = (name: string): string => (typeof fields[name] === 'string' ? fields[name] : '');
  const reasons = Array.isArray(fields['reasons']) ? fields['reasons'].map(String) : [];
  return {
    status,
    code: field('code'),
    title: field('title') || text.problems.status(status),
    detail: field('detail'),
    hint: field('hint'),
    reasons,
  };
}

export interface PlacedFaults {
  /** What is wrong with each field, by its place. */
  readonly at: ReadonlyMap<string, string>;
  /** The problem without the reasons that stand at their fields. */
  readonly rest: Problem | undefined;
}

/** Each reason at its field; `placeOf` undefined: at none. */
export function placedFaults(
  problem: Problem | undefined,
  placeOf: (reason: string) => { readonly place: string; readonly words: string } | undefined,
): PlacedFaults {
  const at = new Map<string, string>();
  const others: string[] = [];
  const reasons = problem?.reasons ?? [];
  for (const reason of reasons) {
    const found = placeOf(reason);
    if (found === undefined) others.push(reason);
    else at.set(found.place, [at.get(found.place) ?? [], found.words].flat().join('; '));
  }
  // The detail repeats a single reason, or counts them.
  const rest = problem && { ...problem, ...(others.length < reasons.length && { detail: '', reasons: others }) };
  return { at, rest };
}

/** The problem of a failed request; of any other error: no answer. */
export function problemFrom(thrown: unknown): Problem {
  if (thrown instanceof ProblemError) return thrown.problem;
  const detail = thrown instanceof Error ? thrown.message : String(thrown);
  return localProblem(text.problems.noAnswer, detail, text.problems.noAnswerHint);
}

/** A failure that the page itself found. */
export function localProblem(title: string, detail: string, hint = ''): Problem {
  return { status: 0, code: '', title, detail, hint, reasons: [] };
}

function objectOf(body: string): Readonly<Record<string, unknown>> {
  try {
    const found: unknown = JSON.parse(body);
    return typeof found === 'object' && found !== null ? (found as Readonly<Record<string, unknown>>) : {};
  } catch {
    return {};
  }
}
