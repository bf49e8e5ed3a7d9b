/** Status of the shipper of the serial log, and the device's own alerts about it: a rule table. Pure. */
import { type Alert, Alerts, type Rule } from '../../shared/base/alerts.ts';
import { RollingIncrease } from '../../shared/base/rolling-increase.ts';
import type { UpstreamStats } from './upstream-stats.ts';

export type UpstreamState =
  | 'off'
  /** Everything stored was sent. */
  | 'up to date'
  | 'sending'
  | 'waiting for the line'
  | 'waiting for the broker'
  | 'waiting for the collector'
  /** The day's data budget is used up. */
  | 'waiting for the budget'
  /** Change events are sent first. */
  | 'waiting for change events'
  /** The remote refuses what it is sent. */
  | 'refused';

export interface UpstreamStatus extends Readonly<UpstreamStats['counters']> {
  readonly to: 'off' | 'kafka' | 'collector';
  readonly state: UpstreamState;
  /** Why it waits; '' when it does not. */
  readonly reason: string;
  readonly connected: boolean;
  /** Ids of the log that are stored and not sent: at most so many entries. */
  readonly lagEntries: number;
  /** Seconds since the oldest entry that was not sent was stored, as far as this process has seen; 0: nothing waits. */
  readonly oldestUnsentAgeS: number;
  /** Of the last 24 h of running time. */
  readonly budgetUsedBytes: number;
  /** 0: none. */
  readonly budgetLimitBytes: number;
  /** The remote has everything up to this id of the log. */
  readonly position: number;
  /** '': the line has not answered yet. */
  readonly logId: string;
}

/** An ordinary outage of a mobile link is over by then. */
const lagS = 3_600;
/** Lost entries are reported for this long, as in the Prometheus rule. */
const REPORT_LOST_S = 86_400;

interface UpstreamHealth extends UpstreamStatus {
  /** Entries in the gaps that were sent within REPORT_LOST_S. */
  readonly recentlyLost: number;
}

export const upstreamRules: readonly Rule<UpstreamHealth>[] = [
  {
    name: 'UpstreamLagHigh',
    severity: 'warning',
    value: ({ to, oldestUnsentAgeS: age }) => (to !== 'off' && age > lagS ? age : 0),
    summary: ({ oldestUnsentAgeS, lagEntries, reason, state }) =>
      `the serial log has waited for ${Math.floor(oldestUnsentAgeS / 60)} minutes to be sent, more than ${lagS / 60}; ` +
      `up to ${lagEntries} entries wait (${reason || state})`,
    expr: `lineside_upstream_on == 1 and lineside_upstream_oldest_unsent_seconds > ${lagS}`,
    title: 'The serial log of BOX has waited for more than an hour to be sent',
    means:
      'The serial log has waited for more than an hour to be sent to the central side. It is safe on the device as long as log.max_bytes and log.max_age_days keep it.',
    remedy: '`lineside alerts` shows what it waits for: the broker, the collector, the daily budget, the line.',
  },
  {
    name: 'UpstreamStopped',
    severity: 'critical',
    value: ({ state }) => Number(state === 'refused'),
    summary: ({ reason }) => `the remote refuses the serial log, and nothing more is sent: ${reason}`,
    expr: 'lineside_upstream_state{state="refused"} == 1',
    title: 'The central side refuses the serial log of BOX',
    means: 'The central side was reached and refuses the serial log permanently. Nothing more is sent.',
    remedy:
      "The alert and the journal of lineside-hub give the reason: no right to the topic, a batch too large for the broker, a revoked token or another box's. Correct it there; sending is retried automatically.",
  },
  {
    name: 'UpstreamBudgetUsed',
    severity: 'warning',
    value: ({ state }) => Number(state === 'waiting for the budget'),
    summary: ({ budgetUsedBytes, budgetLimitBytes }) =>
      `${budgetUsedBytes} of the ${budgetLimitBytes} bytes that may be sent in 24 hours are used: the serial log waits`,
    expr: 'lineside_upstream_state{state="waiting_budget"} == 1',
    title: 'BOX has used up its data budget',
    means:
      'upstream.max_bytes_per_day is used up. The serial log waits until bytes of the last 24 hours are free again; change events are sent.',
    remedy:
      'Nothing, if this was intended; else raise the budget. If it lasts too long, retention removes entries before they are sent.',
  },
  {
    name: 'UpstreamEntriesLost',
    severity: 'warning',
    value: ({ recentlyLost }) => recentlyLost,
    summary: ({ recentlyLost }) =>
      `the central side was notified of up to ${recentlyLost} entries of the serial log that it will never have`,
    expr: `increase(lineside_upstream_lost_entries_total[${REPORT_LOST_S / 86_400}d]) > 0`,
    title: 'The central side will never have {{ $value | humanize }} entries of the serial log of BOX',
    means:
      'Within the last day, a gap was reported to the central side: its entries could not be stored on the device, or retention removed them before they were sent.',
    remedy:
      'A larger log (log.max_bytes, log.max_age_days) outlasts longer outages. If entries were not stored, check the card.',
  },
];

/** Keeps what the rules need from one evaluation to the next. */
export function upstreamAlerts(startMs: number) {
  const alerts = new Alerts(upstreamRules);
  const lost = new RollingIncrease(REPORT_LOST_S * 1_000);
  lost.note(0, startMs);
  return (status: UpstreamStatus, nowMs: number): readonly Alert[] => {
    lost.note(status.entriesLost, nowMs);
    return alerts.look({ ...status, recentlyLost: lost.within(nowMs) }, nowMs);
  };
}
