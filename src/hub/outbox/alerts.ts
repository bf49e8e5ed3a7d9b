/** What is wrong with the outbox and its store, as the device's own alerts: a rule table. Pure. */
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
    expr: `lineside_outbox_waiting > ${lagRows} and lineside_kafka_configured == 1`,
    title: 'VALUE events wait in the outbox of BOX',
    means: `More than ${lagRows} events wait for the configured broker. They are safe on the device and are sent in order.`,
    remedy:
      '`lineside outbox` shows the cause: the broker is unreachable, or records are blocked, each with its reason.',
  },
  {
    name: 'RefdataOutboxDLQNonEmpty',
    severity: 'critical',
    value: ({ deadLetters }) => deadLetters,
    summary: ({ deadLetters }) => `${deadLetters} events could not be published and are dead letters`,
    expr: 'lineside_outbox_dead_letters > 0',
    title: 'VALUE events of BOX could not be published',
    means: 'The broker refused events permanently.',
    remedy:
      '`lineside outbox dead-letters list` shows the reasons (too large, no right). Fix the cause, then requeue or discard each.',
  },
  {
    name: 'RefdataStoreDamaged',
    severity: 'critical',
    value: ({ damage }) => (damage === '' ? 0 : 1),
    summary: ({ damage }) => damage,
    expr: 'lineside_refdata_damaged == 1',
    title: 'refdata.db of BOX is damaged',
    means: 'refdata.db is damaged: changes are refused and nothing is sent. The serial line continues to work.',
    remedy: 'Restore a backup with `lineside restore`. `lineside alerts` and /readyz show what was found.',
  },
  {
    name: 'RefdataStoreFull',
    severity: 'critical',
    value: ({ full }) => (full === '' ? 0 : 1),
    summary: ({ full }) => `changes are refused: ${full}`,
    expr: 'lineside_refdata_full == 1',
    title: 'BOX refuses changes for lack of space',
    means:
      'Changes are refused with status 507: outbox.max_bytes is used up, or the disk has less than outbox.min_free_bytes free. Committed changes are safe.',
    remedy:
      'Space is freed when the broker and the subscribers take the waiting events. Remove other files from the disk, or raise outbox.max_bytes.',
  },
  {
    name: 'RefdataBrokerTopicsLacking',
    severity: 'warning',
    value: ({ topicsLacking }) => topicsLacking.length,
    summary: ({ topicsLacking }) => topicsLacking.join('; '),
    expr: 'lineside_kafka_topics_lacking > 0',
    title: 'VALUE topics of the broker of BOX are not as requested',
    means: 'A topic of the broker is missing, has too few partitions, or has another retention. Events may wait.',
    remedy:
      "`lineside outbox` shows what each topic lacks. The broker's administrator must correct it; lineside does not.",
  },
  {
    name: 'KafkaNotConnected',
    severity: 'warning',
    forS: brokerUnreachableS,
    value: ({ brokerUnreachable }) => Number(brokerUnreachable !== ''),
    summary: ({ brokerUnreachable }) =>
      `there is no connection to the broker: ${brokerUnreachable}; events wait, nothing is lost`,
    expr: 'lineside_kafka_configured == 1 and lineside_kafka_connected == 0',
    title: 'BOX has had no connection to its broker for an hour',
    means:
      'There has been no connection to the configured broker for an hour. Events and the serial log wait in order; nothing is lost and no attempts are used up.',
    remedy: '`lineside outbox` shows the cause: no route, name not found, certificate, password.',
  },
];
