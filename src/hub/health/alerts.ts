/** The device's own alerts of the line, of the service's addresses and configuration, and of certificates: rule tables. Pure. */
import type { Rule } from '../../shared/base/alerts.ts';
import type { LineNumbers } from '../../shared/proto/line-status.ts';

/** The line's latest answer, or the reason why there was none. */
export interface LineView {
  /** undefined: the line did not answer the last call. */
  readonly status: LineNumbers | undefined;
  /** Why the line did not answer; '' if it did. */
  readonly reason: string;
}

/** By the key of the configuration that names the file, never by its path: this is shown to everyone. */
export interface CertificateEnd {
  /** "tls.cert_file" */
  readonly key: string;
  /** notAfter, in seconds since the Unix epoch. */
  readonly endsAtSeconds: number;
}

/** What a process of the service reports about its configuration and its addresses: fields of LineStatus. */
export interface ServiceFaults {
  /** The keys or lines that the last reload refused; '': the file was taken. */
  readonly configurationRefused: string;
  /** Addresses that it should serve and does not, each with the reason; '': all are served. */
  readonly listenerFault: string;
}

/** Short, so that the alert ends soon after the repair. */
export const RISE_WINDOW_S = 300;
/** Errors in the window: a pulled plug, or a change of speed within a byte, makes a few. */
const manyErrors = 10;
/** A restart of the line takes seconds; with a full log it takes up to a minute. */
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
    expr: 'lineside_line_up == 0',
    title: 'The line process of BOX does not answer its hub',
    means:
      'The hub has had no answer from the line for a minute: the process is down, hangs or restarts repeatedly. The serial port may not be read.',
    remedy:
      '`systemctl status lineside`, then `journalctl -u lineside -n 50`: the last line before its end gives the reason. `lineside config check` finds a faulty configuration.',
  },
  {
    name: 'LinePortLost',
    severity: 'critical',
    forS: lostS,
    value: ({ status }) => Number(isLost(status)),
    summary: ({ status }) => `the serial port is lost: ${status?.portError ?? ''}`,
    expr: 'lineside_line_port_lost == 1',
    title: 'The serial port of BOX has been lost for five minutes',
    means: 'The port that should be open has been missing for 5 minutes. It is reopened automatically when it returns.',
    remedy:
      'Check plug, cable, adapter and supply; `lineside devices` lists the ports. If the port is no longer wanted: `lineside close`.',
  },
  {
    name: 'LineLogFailing',
    severity: 'critical',
    value: ({ status }) => Number(status?.log.state === 'failing'),
    summary: ({ status }) =>
      `the serial log is not being stored (${status?.log.lostEntries ?? 0} entries are lost so far): ${status?.log.error ?? ''}`,
    expr: 'lineside_line_log_failing == 1',
    title: 'BOX does not store its serial log',
    means:
      'Bytes pass and are not stored. Entries that do not fit into log.queue_bytes are lost, and counted. Storing is retried automatically.',
    remedy: '`lineside status` shows the reason: the disk is full, or the card fails (`dmesg`).',
  },
  {
    name: 'LineRxDropped',
    severity: 'warning',
    // If no client fetches, as on a box that only logs, a full buffer is normal.
    value: ({ recentDropped, recentFetched }) => (recentFetched > 0 ? recentDropped : 0),
    summary: ({ recentDropped }) =>
      `${recentDropped} received packets were dropped within ${RISE_WINDOW_S / 60} minutes: ReceivePacket fetches them too slowly; they are in the log`,
    expr: `increase(lineside_line_rx_dropped_packets_total[${RISE_WINDOW_S / 60}m]) > 0 and increase(lineside_line_rx_fetched_packets_total[${RISE_WINDOW_S / 60}m]) > 0`,
    title: 'BOX dropped {{ $value | humanize }} received packets within five minutes',
    means:
      'A client fetches packets with ReceivePacket too slowly: packets fell out of its buffer within the last 5 minutes. They are in the log. (On a box that only logs, a full buffer is normal.)',
    remedy:
      'The client must fetch more often, or read with StreamLog or ReadLog. A larger serial.rx_buffer_bytes helps with bursts.',
  },
  {
    name: 'LineErrors',
    severity: 'warning',
    value: ({ recentErrors }) => (recentErrors > manyErrors ? recentErrors : 0),
    summary: ({ recentErrors }) =>
      `${recentErrors} framing, parity or overrun errors within ${RISE_WINDOW_S / 60} minutes, more than ${manyErrors}`,
    expr: `sum without (kind) (increase(lineside_line_kernel_errors_total{kind!="break"}[${RISE_WINDOW_S / 60}m])) > ${manyErrors}`,
    title: '{{ $value | humanize }} framing, parity or overrun errors on the line of BOX within five minutes',
    means: `More than ${manyErrors} framing, parity or overrun errors within 5 minutes.`,
    remedy:
      'Framing and parity: check speed, parity, levels, termination, ground. Overrun: the machine is too busy for the speed.',
  },
];

/** The port is missing and opening it is retried. */
function isLost(status: LineView['status']): boolean {
  return status?.portState === 'lost' || status?.portState === 'reopening';
}

export interface ServiceHealth {
  /** Units of sockets that should be open and are not. */
  readonly closedSockets: readonly string[];
  /** Of the hub, and of the line if it answers. */
  readonly faults: readonly ServiceFaults[];
}

/** Each fault once: without systemd both processes read the same file. */
function faultsOf({ faults }: ServiceHealth, kind: keyof ServiceFaults): string[] {
  return [...new Set(faults.map((one) => one[kind]).filter((fault) => fault !== ''))];
}

export const serviceRules: readonly Rule<ServiceHealth>[] = [
  {
    name: 'ConfigurationRefused',
    severity: 'warning',
    value: (health) => Number(faultsOf(health, 'configurationRefused').length > 0),
    summary: (health) =>
      `the last reload refused the configuration file, and the service uses the one of before: ${faultsOf(health, 'configurationRefused').join('; ')}`,
    expr: 'lineside_line_configuration_refused == 1 or lineside_hub_configuration_refused == 1',
    title: 'BOX refused its configuration file at the last reload',
    means:
      'The last reload of the line or of the hub found a fault in the configuration file. That process uses the previous configuration, and would not start with the file.',
    remedy: '`lineside config check` names the faults. Correct them, then `systemctl reload lineside`.',
  },
  {
    name: 'ListenerNotServed',
    severity: 'critical',
    // A port that the previous process still holds, or an address that the network assigns late, is free within seconds.
    forS: awayS,
    value: (health) => Number(faultsOf(health, 'listenerFault').length > 0),
    summary: (health) => faultsOf(health, 'listenerFault').join('; '),
    expr: 'lineside_line_listener_fault == 1 or lineside_hub_listener_fault == 1',
    title: 'BOX does not serve one of its addresses',
    means:
      'For a minute the line or the hub has not served an address that it listens on: the TLS certificate cannot be used, or another process has the port. Clients are refused there.',
    remedy:
      '`lineside status` names the address. Certificate: `journalctl -u lineside -u lineside-hub` gives the reason; correct the files of [tls], then `systemctl reload lineside`. Port: stop the other process; the address is tried again automatically.',
  },
  {
    name: 'LinesideSocketClosed',
    severity: 'critical',
    value: ({ closedSockets }) => closedSockets.length,
    summary: ({ closedSockets }) =>
      `not open: ${closedSockets.join(', ')}; clients are refused there, or met by a process that listens in its place ("systemctl restart lineside" opens them)`,
    expr: 'lineside_sockets_closed > 0',
    title: 'VALUE socket units of BOX are not open',
    means:
      'A socket unit that should be open is not: clients are refused there, or reach a process that listens in its place.',
    remedy:
      '`systemctl restart lineside` opens them. `lineside alerts` names the units; `systemctl status` of a unit shows whether another program uses the address.',
  },
];

const DAY_S = 86_400;
/** Time to issue a new certificate and to visit the box. */
const soonDays = 30;

/** Seconds until each certificate expires; negative: it has expired. */
export interface CertificatesLeft {
  readonly left: readonly { readonly key: CertificateEnd['key']; readonly seconds: number }[];
}

export const certificateRules: readonly Rule<CertificatesLeft>[] = [
  {
    name: 'CertificateExpiresSoon',
    severity: 'warning',
    value: (all) => soon(all).length,
    summary: (all) => `certificates end within ${soonDays} days: ${soon(all).map(worded).join(', ')}`,
    expr: `lineside_certificate_end_timestamp_seconds - time() < ${soonDays * DAY_S} and lineside_certificate_end_timestamp_seconds - time() > 0`,
    title: 'The certificate in {{ $labels.key }} of BOX expires in {{ $value | humanizeDuration }}',
    means: `A certificate that the configuration names expires within ${soonDays} days.`,
    remedy:
      "The box's own: `lineside identity renew`, then `systemctl restart lineside`. Another: replace the file, then `systemctl reload lineside`.",
  },
  {
    name: 'CertificateExpired',
    severity: 'critical',
    value: (all) => ended(all).length,
    summary: (all) => `certificates have ended: ${ended(all).map(worded).join(', ')}`,
    expr: 'lineside_certificate_end_timestamp_seconds - time() <= 0',
    title: 'The certificate in {{ $labels.key }} of BOX has expired',
    means: 'A certificate has expired: clients refuse the box, or the box refuses its broker or subscribers.',
    remedy: 'Replace it now, as for CertificateExpiresSoon. Is the clock right?',
  },
];

const soon = ({ left }: CertificatesLeft) => left.filter(({ seconds }) => seconds > 0 && seconds < soonDays * DAY_S);
const ended = ({ left }: CertificatesLeft) => left.filter(({ seconds }) => seconds <= 0);

function worded({ key, seconds }: CertificatesLeft['left'][number]): string {
  const days = Math.floor(Math.abs(seconds) / DAY_S);
  const length = days === 1 ? '1 day' : `${days} days`;
  return seconds > 0 ? `${key} in ${length}` : `${key} ${length} ago`;
}
