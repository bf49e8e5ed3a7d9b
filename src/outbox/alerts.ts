/** What is wrong with the outbox and its store, as the device's own alerts: a rule table. Pure. */
import type { Alert } from './face.ts';

export interface Vitals {
  readonly waiting: number;
  readonly deadLetters: number;
  /** '' when sound, else what was found. */
  readonly damage: string;
  /** '' while changes have room, else what is lacking. */
  readonly full: string;
  /** Topics of the broker that lack something, each in words. */
  readonly topicsLacking: readonly string[];
}

interface Rule {
  readonly name: string;
  readonly severity: Alert['severity'];
  /** Fires above 0. */
  readonly value: (vitals: Vitals) => number;
  readonly summary: (vitals: Vitals) => string;
}

/** RefdataOutboxLagHigh fires above this, by the specification. */
const lagRows = 100;

const rules: readonly Rule[] = [
  {
    name: 'RefdataOutboxLagHigh',
    severity: 'warning',
    value: ({ waiting }) => (waiting > lagRows ? waiting : 0),
    summary: ({ waiting }) => `${waiting} events wait in the outbox, more than ${lagRows}`,
  },
  {
    name: 'RefdataOutboxDLQNonEmpty',
    severity: 'critical',
    value: ({ deadLetters }) => deadLetters,
    summary: ({ deadLetters }) => `${deadLetters} events could not be published and are dead letters`,
  },
  {
    name: 'RefdataStoreDamaged',
    severity: 'critical',
    value: ({ damage }) => (damage === '' ? 0 : 1),
    summary: ({ damage }) => damage,
  },
  {
    name: 'RefdataStoreFull',
    severity: 'critical',
    value: ({ full }) => (full === '' ? 0 : 1),
    summary: ({ full }) => `changes are refused: ${full}`,
  },
  {
    name: 'RefdataBrokerTopicsLacking',
    severity: 'warning',
    value: ({ topicsLacking }) => topicsLacking.length,
    summary: ({ topicsLacking }) => topicsLacking.join('; '),
  },
];

export class Alerts {
  /** By name, the monotonic milliseconds at which it fired. */
  readonly #since = new Map<string, number>();

  /** What fires now. An alert keeps its age while it goes on firing from look to look. */
  look(vitals: Vitals, nowMs: number): readonly Alert[] {
    const firing: Alert[] = [];
    for (const { name, severity, value, summary } of rules) {
      const figure = value(vitals);
      if (figure <= 0) {
        this.#since.delete(name);
        continue;
      }
      const since = this.#since.get(name) ?? nowMs;
      this.#since.set(name, since);
      const forSeconds = Math.floor((nowMs - since) / 1000);
      firing.push({ name, severity, forSeconds, summary: summary(vitals), value: figure });
    }
    return firing;
  }
}
