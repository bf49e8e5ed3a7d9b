/** The stored history of the line and the box. */
import type { Static } from '@sinclair/typebox';
import type { HistoryRequest } from '../../history/history.ts';
import { usualStepS } from '../../history/series.ts';
import { invalid } from '../problem.ts';
import { HistoryQuery, MAX_HISTORY_STEPS } from '../schemas/history.ts';
import type { RouteParts, Routes } from './route.ts';

const HOUR_S = 3_600;

export function historyRoutes(routes: Routes, { history, clock }: RouteParts): void {
  routes('line')('GET /api/v1/line/history', 'viewer', {
    id: 'getLineHistory',
    summary: 'Traffic, errors, temperature and card writes over up to 30 days of uptime',
    description:
      'Of each step the sums, and the lowest, mean and highest temperature. null: it is not known, because the box was off, the line did not answer, or the box does not measure it.',
    query: HistoryQuery,
    answer: { what: 'The series, with a value for each step.', of: 'LineHistory' },
    async handle({ query }) {
      const nowMs = clock.wallMs();
      const span = spanOf(query, nowMs);
      return { ...(await history.read(span)), untilMs: span.untilMs, nowMs };
    },
  });
}

function spanOf(asked: Static<typeof HistoryQuery>, nowMs: number): HistoryRequest {
  const { lastS = HOUR_S, untilMs = nowMs } = asked;
  const { sinceMs = untilMs - lastS * 1_000 } = asked;
  const { stepS = usualStepS(untilMs - sinceMs) } = asked;
  const steps = Math.ceil((untilMs - sinceMs) / (stepS * 1_000));
  const faults = [
    asked.sinceMs !== undefined && asked.lastS !== undefined ? 'sinceMs and lastS: send one of them, not both' : '',
    sinceMs >= untilMs ? `sinceMs: ${sinceMs} is not before untilMs, which is ${untilMs}` : '',
    stepS % 60 !== 0 ? `stepS: ${stepS} is not a multiple of 60` : '',
    // A span that begins within a step has one more.
    steps >= MAX_HISTORY_STEPS
      ? `stepS: the span has ${steps} steps of ${stepS} s, at most ${MAX_HISTORY_STEPS - 1} are answered`
      : '',
  ].filter((fault) => fault !== '');
  if (faults.length > 0) throw invalid(...faults);
  return { sinceMs, untilMs, stepMs: stepS * 1_000 };
}
