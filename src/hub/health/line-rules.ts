/** What is wrong with the line, as the device's own alerts: a rule table. systemd/monitoring/prometheus-rules.yml says the same. Pure. */
import type { Rule } from '../../shared/base/alerts.ts';
import type { LineView } from './face.ts';

/** Over the same window as the Prometheus rules: it tells of a line that is bad now, and ends soon after the repair. */
export const RISE_WINDOW_S = 300;
/** Errors in the window: a plug that is pulled or a speed that is changed in the midst of a byte makes a few. */
const manyErrors = 10;
/** A restart of the line takes seconds, a full log is read in at start within a minute. */
const awayS = 60;
/** A device that is switched off and on again, an adapter that is moved to another socket. */
const lostS = 300;

export interface LineHealth extends LineView {
  /** Framing, parity and overrun errors within the window. */
  readonly recentErrors: number;
  /** Packets dropped, and packets fetched, within the window. */
  readonly recentDropped: number;
  readonly recentFetched: number;
}

export const lineRules: readonly Rule<LineHealth>[] = [
  {
    name: 'LinesideLineDown',
    severity: 'critical',
    forS: awayS,
    value: ({ status }) => Number(status === undefined),
    summary: ({ reason }) => `the line process does not answer the hub: ${reason}`,
  },
  {
    name: 'LinePortLost',
    severity: 'critical',
    forS: lostS,
    value: ({ status }) => Number(isLost(status)),
    summary: ({ status }) => `the serial port is lost: ${status?.portError ?? ''}`,
  },
  {
    name: 'LineLogFailing',
    severity: 'critical',
    value: ({ status }) => Number(status?.log.state === 'failing'),
    summary: ({ status }) =>
      `the serial log is not being stored (${status?.log.lostEntries ?? 0} entries are lost so far): ${status?.log.error ?? ''}`,
  },
  {
    name: 'ConfigurationRefused',
    severity: 'warning',
    value: ({ status }) => Number((status?.configurationRefused ?? '') !== ''),
    summary: ({ status }) =>
      `the last reload refused the configuration file, and the service uses the one of before: ${status?.configurationRefused ?? ''}`,
  },
  {
    name: 'LineRxDropped',
    severity: 'warning',
    // Where no client fetches, as on a box that only logs, a full buffer is as it has to be.
    value: ({ recentDropped, recentFetched }) => (recentFetched > 0 ? recentDropped : 0),
    summary: ({ recentDropped }) =>
      `${recentDropped} received packets were dropped within ${RISE_WINDOW_S / 60} minutes: ReceivePacket fetches them too slowly; they are in the log`,
  },
  {
    name: 'LineErrors',
    severity: 'warning',
    value: ({ recentErrors }) => (recentErrors > manyErrors ? recentErrors : 0),
    summary: ({ recentErrors }) =>
      `${recentErrors} framing, parity or overrun errors within ${RISE_WINDOW_S / 60} minutes, more than ${manyErrors}`,
  },
];

/** Asked for, and not there: it is being tried again and again. */
function isLost(status: LineView['status']): boolean {
  return status?.portState === 'lost' || status?.portState === 'reopening';
}
