/** What is wrong with the way of the serial log to the central side, as the device's own alerts: a rule table. systemd/monitoring/prometheus-rules.yml says the same. Pure. */
import { type Alert, Alerts, type Rule } from '../../shared/base/alerts.ts';
import { RollingIncrease } from '../../shared/base/rolling-increase.ts';
import type { UpstreamStatus } from './face.ts';

/** An ordinary outage of a mobile link is over by then. */
const lagS = 3_600;
/** How long lost entries are worth telling: as the Prometheus rule has it. */
const TELL_LOST_S = 86_400;

export interface UpstreamHealth extends UpstreamStatus {
  /** Entries in the gaps that were sent within TELL_LOST_S. */
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
  },
  {
    name: 'UpstreamStopped',
    severity: 'critical',
    value: ({ state }) => Number(state === 'refused'),
    summary: ({ reason }) => `the other side refuses the serial log, and nothing more is sent: ${reason}`,
  },
  {
    name: 'UpstreamBudgetUsed',
    severity: 'warning',
    value: ({ state }) => Number(state === 'waiting for the budget'),
    summary: ({ budgetUsedBytes, budgetLimitBytes }) =>
      `${budgetUsedBytes} of the ${budgetLimitBytes} bytes that may be sent in 24 hours are used: the serial log waits`,
  },
  {
    name: 'UpstreamEntriesLost',
    severity: 'warning',
    value: ({ recentlyLost }) => recentlyLost,
    summary: ({ recentlyLost }) =>
      `the central side was told of up to ${recentlyLost} entries of the serial log that it will never have`,
  },
];

/** Remembers what has to be remembered from look to look. */
export class UpstreamAlerts {
  readonly #alerts = new Alerts(upstreamRules);
  readonly #lost = new RollingIncrease(TELL_LOST_S * 1_000);

  constructor(nowMs: number) {
    this.#lost.note(0, nowMs);
  }

  look(status: UpstreamStatus, nowMs: number): readonly Alert[] {
    this.#lost.note(status.entriesLost, nowMs);
    return this.#alerts.look({ ...status, recentlyLost: this.#lost.within(nowMs) }, nowMs);
  }
}
