/** What subscriptions of the campaign are to, and what their subscriber answers. */
import type { Step } from '../e2e/webhook-receiver.ts';
import type { Random } from './random.ts';
import type { Filter } from './webhooks-ledger.ts';

export const all: Filter = {
  scopes: ['PUBLIC', 'INTERNAL', 'RESTRICTED'],
  dictionaries: null,
  actions: null,
  categories: null,
};
export const filters: readonly Filter[] = [
  all,
  { ...all, scopes: ['PUBLIC'] },
  { ...all, dictionaries: ['soak.internal', 'soak.restricted'], actions: ['created', 'closed'] },
  { ...all, categories: ['dict.definition.*'] },
  { ...all, scopes: ['PUBLIC', 'RESTRICTED'], actions: ['updated'], categories: ['dict.record.*'] },
];

/** More than a life has attempts. */
const STEPS = 2_000;

/** `isBad`: it fails more often than it accepts. */
export function anyAnswers(random: Random, isBad: boolean): Step[] {
  return Array.from({ length: STEPS }, () => anyAnswer(random, isBad));
}

function anyAnswer(random: Random, isBad: boolean): Step {
  const chance = random.between(0, isBad ? 40 : 99);
  if (chance < 6) return { fault: 'hang' };
  if (chance < 16) return { status: 500, body: 'not now' };
  if (chance < 22) return { fault: 'close' };
  if (chance < 28) return { fault: 'reset' };
  // Nothing was answered, so no status either.
  if (chance < 31) return { fault: 'garbage', status: 0 };
  if (chance < 33) return { status: 410, body: 'never' };
  return { status: [200, 201, 202, 204][chance % 4] ?? 202, delayS: chance % 10 === 0 ? 0.05 : 0 };
}
