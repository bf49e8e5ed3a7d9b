/** What planning costs as subscriptions grow: a hundred with different filters against one that takes everything. */

import { temporaryDirectory } from '../../e2e/daemon.ts';
import { measured } from '../outbox/child.ts';
import { judge, median, type Row, times } from '../table.ts';
import type { PlanningSeconds } from './programs/planning.ts';

/** Far below the hundred times that asking each subscription would take. */
const AIM = 2;

export const planning: Row = {
  name: 'planning',
  async run({ quick, say }) {
    const [events, rounds] = quick ? [2_000, 2] : [5_000, 5];
    const seconds = await measured<PlanningSeconds>('planning', [temporaryDirectory(), events, rounds]);
    say(JSON.stringify(seconds));
    const one = median(seconds.one);
    const perEvent = (all: readonly number[]): string => `${((median(all) / events) * 1e6).toFixed(1)} us an event`;
    const against = `one that takes everything: ${perEvent(seconds.one)}`;
    const different = median(seconds.different) / one;
    const everything = median(seconds.everything) / one;
    return [
      {
        row: 'planning for 100 subscriptions, each with another filter, as many deliveries',
        lineside: perEvent(seconds.different),
        against,
        ratio: times(different),
        aim: `at most ${AIM} x`,
        verdict: judge(different <= AIM),
      },
      {
        row: 'planning for 100 subscriptions that take everything, a hundred times the deliveries',
        lineside: perEvent(seconds.everything),
        against,
        ratio: times(everything),
        aim: 'below 100 x',
        verdict: judge(everything < 100),
      },
    ];
  },
};
