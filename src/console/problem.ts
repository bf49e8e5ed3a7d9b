/** Failures, in the words of the service if it answered. Pure. */
import type { Problem as Answered } from '../shared/gen/http.ts';

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
  const text = (name: string): string => (typeof fields[name] === 'string' ? fields[name] : '');
  const reasons = Array.isArray(fields['reasons']) ? fields['reasons'].map(String) : [];
  return {
    status,
    code: text('code'),
    title: text('title') || `The box answered with status ${status}`,
    detail: text('detail'),
    hint: text('hint'),
    reasons,
  };
}

/** The problem of a failed request; of any other error: no answer. */
export function problemFrom(thrown: unknown): Problem {
  if (thrown instanceof ProblemError) return thrown.problem;
  const detail = thrown instanceof Error ? thrown.message : String(thrown);
  const hint = 'Is the network up, and the box switched on? The page tries again automatically.';
  return localProblem('The box does not answer', detail, hint);
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
