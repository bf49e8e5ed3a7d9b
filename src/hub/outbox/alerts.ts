/** What is wrong with the outbox and its store, as the device's own alerts: a rule table. systemd/monitoring/prometheus-rules.yml says the same. Pure. */
import type { Rule } from '../../shared/base/alerts.ts';

export interface HealthReport {
  /** Rows that a configured broker has still to acknowledge. */
  readonly waiting: number;
  readonly deadLetters: number;
  /** '' when sound, else what was found. */
  readonly damage: string;
  /** '' while changes have room, else what is lacking. */
  readonly full: string;
  /** Topics of the broker that lack something, each in words. */
  readonly topicsLacking: readonly string[];
  /** '' while there is a connection, or no broker is configured; else why there is none. */
  readonly brokerUnreachable: string;
}

/** RefdataOutboxLagHigh fires above this, by the specification. */
const lagRows = 100;
/** A box on a mobile link is without its broker for minutes every day. */
const brokerUnreachableS = 3_600;

export const outboxRules: readonly Rule<HealthReport>[] = [
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
  {
    name: 'KafkaNotConnected',
    severity: 'warning',
    forS: brokerUnreachableS,
    value: ({ brokerUnreachable }) => Number(brokerUnreachable !== ''),
    summary: ({ brokerUnreachable }) =>
      `there is no connection to the broker: ${brokerUnreachable}; events wait, nothing is lost`,
  },
];
