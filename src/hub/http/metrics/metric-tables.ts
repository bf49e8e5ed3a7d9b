/**
 * The metrics as tables: name, help and figure of each, read at a scrape. Without a figure there is no series, rather than a
 * misleading 0.
 */
import { Counter, Gauge, type Registry } from 'prom-client';
import { messages } from '../../../shared/gen/messages.js';
import type { HostFacts, TriState } from '../../../shared/host/host-facts.ts';
import type { LineNumbers } from '../../../shared/proto/line-status.ts';
import type { CertificateEnd, ServiceFaults } from '../../health/alerts.ts';
import type { HistoryHealth } from '../../history/history.ts';
import type { OutboxStatus } from '../../outbox/admin.ts';
import type { UpstreamState, UpstreamStatus } from '../../upstream/status.ts';
import type { WebhookStatus } from '../../webhooks/face.ts';

/** true is 1, false is 0. */
type Figure = number | boolean | null | undefined;
type Figures = Readonly<Record<string, number>>;

/** A figure, or several with one label whose values are from a fixed set. A name with "_total" is a counter. */
export type Metric<Source> =
  | readonly [name: string, help: string, figure: (source: Source) => Figure]
  | readonly [name: string, help: string, figures: (source: Source) => Figures | null | undefined, label: string];

/** Registers them; the function sets them. An undefined source has no figures. */
export function register<S>(
  registry: Registry,
  prefix: string,
  metrics: readonly Metric<S>[],
): (source: S | undefined) => void {
  const all = metrics.map(([name, help, figure, label]) => {
    const options = {
      name: `${prefix}${name}`,
      help,
      registers: [registry],
      labelNames: label === undefined ? [] : [label],
    };
    const metric = name.endsWith('_total') ? new Counter(options) : new Gauge(options);
    return (source: S | undefined): void => {
      // Without labels reset() leaves a 0.
      if (label === undefined) metric.remove();
      else metric.reset();
      const found = source === undefined ? undefined : figure(source);
      if (typeof found === 'number' || typeof found === 'boolean') metric.inc(Number(found));
      else for (const [value, one] of Object.entries(found ?? {})) metric.inc({ [label ?? '']: value }, one);
    };
  });
  return (source) => {
    for (const set of all) set(source);
  };
}

// The hub.

/** Sizes of refdata.db in bytes, and its faults. */
export interface StorageFigures {
  readonly usedBytes: number;
  readonly limitBytes: number;
  readonly freeBytes: number;
  /** Changes that wait to be written. */
  readonly waitingChanges: number;
  readonly isDamaged: boolean;
  /** Changes are refused because there is no room. */
  readonly isFull: boolean;
}

export interface HttpFigures {
  readonly connections: number;
  readonly refusedCallers: number;
  /** Of request bodies being read or worked on. */
  readonly bodyBytes: number;
  readonly followStreams: number;
  readonly pageStreams: number;
  readonly terminals: number;
}

export interface HubFigures {
  readonly version: string;
  readonly residentBytes: number;
  readonly uptimeSeconds: number;
  readonly longestHoldSeconds: number;
  readonly http: HttpFigures;
  readonly storage: StorageFigures;
  readonly history: HistoryHealth;
  readonly certificates: readonly CertificateEnd[];
  /** Units of sockets that should be open and are not. */
  readonly closedSockets: readonly string[];
  readonly faults: ServiceFaults | undefined;
}

export const hubMetrics: readonly Metric<HubFigures>[] = [
  ['info', '1, with the version of lineside.', ({ version }) => ({ [version]: 1 }), 'version'],
  ['http_connections', 'Connections open on all addresses.', (h) => h.http.connections],
  ['http_body_bytes', 'Bytes of request bodies being read or worked on.', (h) => h.http.bodyBytes],
  ['hub_uptime_seconds', 'Since the hub started.', (h) => h.uptimeSeconds],
  ['hub_resident_bytes', 'Resident memory of the hub.', (h) => h.residentBytes],
  [
    'hub_loop_longest_hold_seconds',
    'Longest hold of the event loop in the last minute or two.',
    (h) => h.longestHoldSeconds,
  ],
  ['sockets_closed', 'Socket units that should be open and are not.', (h) => h.closedSockets.length],
  [
    'hub_configuration_refused',
    '1: the last reload of the hub found a fault in the configuration file, and the previous one is in use.',
    (h) => h.faults && h.faults.configurationRefused !== '',
  ],
  [
    'hub_listener_fault',
    '1: an address that the hub should serve is not served.',
    (h) => h.faults && h.faults.listenerFault !== '',
  ],
  [
    'history_failing',
    '1: hours of the history of the line are not being stored.',
    ({ history }) => history.fault !== '',
  ],
  [
    'history_unstored_seconds',
    'Time of ended hours that is in memory only: nothing changed in them, or they could not be stored.',
    ({ history }) => 60 * history.unstoredMinutes,
  ],
  [
    'history_dropped_rows_total',
    'Rows, each of an hour, that could not be stored in 30 days and were dropped from memory.',
    ({ history }) => history.lostHours,
  ],
  ['history_commits_total', 'Commits to history.db, at most one an hour.', ({ history }) => history.commits],
  ['refdata_bytes', 'Bytes that refdata.db uses.', (h) => h.storage.usedBytes],
  ['refdata_limit_bytes', 'Bytes that refdata.db may use.', (h) => h.storage.limitBytes],
  ['refdata_free_bytes', 'Free bytes on the disk of refdata.db.', (h) => h.storage.freeBytes],
  [
    'refdata_waiting_changes',
    'Changes that wait for their turn to write, behind an import mostly.',
    (h) => h.storage.waitingChanges,
  ],
  ['refdata_damaged', '1: refdata.db was found damaged.', (h) => h.storage.isDamaged],
  ['refdata_full', '1: changes are refused because there is no room.', (h) => h.storage.isFull],
  [
    'http_refused_callers_total',
    'Requests refused because the token or the role is not sufficient, and connections closed beyond a limit.',
    (h) => h.http.refusedCallers,
  ],
  [
    'http_log_streams',
    'Streams of the serial log being read.',
    ({ http }) => ({ follow: http.followStreams, page: http.pageStreams }),
    'kind',
  ],
  ['http_terminals', 'Terminals of the line that are open.', (h) => h.http.terminals],
  [
    'certificate_end_timestamp_seconds',
    'When the certificates of a key of the configuration end, in seconds since the Unix epoch.',
    ({ certificates }) => Object.fromEntries(certificates.map(({ key, endsAtSeconds }) => [key, endsAtSeconds])),
    'key',
  ],
];

const flag = (state: TriState): Figure => (state === 'unknown' ? undefined : state === 'yes');

export const hostMetrics: readonly Metric<HostFacts>[] = [
  ['uptime_seconds', 'Since the machine was switched on.', (m) => m.uptimeSeconds],
  ['temperature_celsius', 'Of the processor.', (m) => m.temperatureCelsius],
  ['throttled', '1: the processor is throttled.', ({ throttled }) => flag(throttled)],
  ['under_voltage', '1: the supply voltage is too low.', ({ underVoltage }) => flag(underVoltage)],
  ['memory_bytes', 'Memory.', (m) => m.memory.totalBytes],
  ['memory_available_bytes', 'Memory that is available.', (m) => m.memory.availableBytes],
  ['load1', 'Runnable threads, averaged over a minute.', (m) => m.load.averages[0]],
  ['processors', 'Processors.', (m) => m.load.processors],
  ['cpu_used_percent', 'Of all processors, over half a minute.', (m) => m.load.usedPercent],
  ['disk_bytes', 'Size of the file system of the data.', (m) => m.disk.totalBytes],
  ['disk_free_bytes', 'Free on it.', (m) => m.disk.freeBytes],
  ['card_written_bytes', 'Written to the card since the boot.', (m) => m.disk.writtenBytes],
  ['disk_written_ever_bytes', 'Written to the file system since it was made.', (m) => m.disk.writtenBytesEver],
  ['card_life_used_percent', 'Of the life time of the card at most.', (m) => m.disk.lifeUsedPercent],
  [
    'card_reserve_low',
    '1: most spare blocks of the card are used.',
    ({ disk: { reserve } }) => (reserve === 'unknown' ? undefined : reserve !== 'normal'),
  ],
  [
    'clock_synced',
    '1: time sync has set the clock.',
    ({ clock }) => (clock === 'unknown' ? undefined : clock === 'synced'),
  ],
  ['boots', 'Boots in which the hub ran on these data.', (m) => m.boots.count],
  ['power_losses', 'Boots that followed a loss of power.', (m) => m.boots.powerLosses],
  ['after_power_loss', '1: this boot is one of them.', (m) => m.boots.afterPowerLoss],
  ['data_lost', '1: the data partition is not mounted.', (m) => m.slot?.dataLost],
  ['update_failed', '1: an update did not become healthy, and the box went back.', (m) => m.slot?.updateFailed],
  ['slot_trying', '1: the system is on trial.', (m) => m.slot?.trying],
];

export const outboxMetrics: readonly Metric<OutboxStatus>[] = [
  ['outbox_waiting', 'Rows the broker has still to acknowledge.', (o) => o.waiting],
  ['outbox_oldest_seconds', 'Age of the oldest waiting row.', (o) => o.oldest?.ageSeconds ?? 0],
  ['outbox_in_flight', 'Rows in flight to the broker.', (o) => o.inFlight],
  ['outbox_in_flight_bytes', 'Bytes in flight to the broker.', (o) => o.inFlightBytes],
  ['outbox_dead_letters', 'Rows that cannot be published.', (o) => o.deadLetters],
  ['outbox_blocked_keys', 'Keys whose first waiting row was refused.', (o) => o.blockedKeyCount],
  ['kafka_connected', '1: there is a connection to a broker.', (o) => o.broker.connected],
  ['kafka_configured', '1: a broker is configured (kafka.bootstrap).', (o) => o.broker.configured],
  [
    'kafka_topics_lacking',
    'Topics of the broker that are not as they were asked for.',
    (o) => o.broker.topics.filter((o) => o.lacks.length > 0).length,
  ],
  ['outbox_published_total', 'Rows acknowledged since the start.', (o) => o.publishedTotal],
  ['outbox_refused_total', 'Refusals by a broker that was reached.', (o) => o.refusedTotal],
  [
    'kafka_producers_replaced_total',
    'Times that the client of the broker was recreated after a fatal error.',
    (o) => o.broker.producersReplaced,
  ],
  ['outbox_unreached_total', 'Sendings that reached no broker.', (o) => o.unreachedTotal],
  [
    'outbox_pruned_total',
    'Oldest events removed unpublished: no broker is configured and outbox.max_bytes was reached.',
    (o) => o.prunedTotal,
  ],
];

const states: Readonly<Record<UpstreamState, string>> = {
  off: 'off',
  'up to date': 'up_to_date',
  sending: 'sending',
  'waiting for the line': 'waiting_line',
  'waiting for the broker': 'waiting_broker',
  'waiting for the collector': 'waiting_collector',
  'waiting for the budget': 'waiting_budget',
  'waiting for change events': 'waiting_changes',
  refused: 'refused',
};

export const upstreamMetrics: readonly Metric<UpstreamStatus>[] = [
  ['sent_entries_total', 'Entries of the serial log sent since the start of the hub.', (u) => u.sentEntries],
  ['sent_bytes_total', 'Bytes of the serial line in the entries sent.', (u) => u.sentBytes],
  [
    'wire_bytes_total',
    'Bytes on the link: compressed, with what the protocol adds and what went again.',
    (u) => u.wireBytes,
  ],
  ['batches_total', 'Batches stored by the remote.', (u) => u.batches],
  [
    'repeated_batches_total',
    'Batches that were not stored at the first try, and went again.',
    (u) => u.repeatedBatches,
  ],
  ['gaps_sent_total', 'Gaps of the log that were reported to the remote.', (u) => u.gapsSent],
  ['lost_entries_total', 'Entries in those gaps: the remote will never have them.', (u) => u.entriesLost],
  ['connected', '1: the remote is reachable.', ({ connected }) => connected],
  ['lag_entries', 'Entries that are stored and not sent, at most.', (u) => u.lagEntries],
  ['oldest_unsent_seconds', 'How long the oldest entry that was not sent has waited.', (u) => u.oldestUnsentAgeS],
  ['budget_used_bytes', 'Bytes sent in the last 24 hours, as the budget counts them.', (u) => u.budgetUsedBytes],
  ['budget_limit_bytes', 'Bytes that may be sent in 24 hours; 0: any.', (u) => u.budgetLimitBytes],
  ['position', 'Id of the log up to which the remote has everything.', (u) => u.position],
  [
    'state',
    '1: what it does now, or waits for.',
    (status) =>
      Object.fromEntries(Object.entries(states).map(([state, label]) => [label, Number(state === status.state)])),
    'state',
  ],
];

export const webhookMetrics: readonly Metric<WebhookStatus>[] = [
  ['subscriptions_active', 'Active subscriptions.', (w) => w.activeSubscriptions],
  ['subscriptions_blocked', 'Of the active ones, those to which nothing is sent.', (w) => w.blockedSubscriptions],
  ['waiting', 'Deliveries that are still to be accepted.', (w) => w.waiting],
  ['oldest_due_seconds', 'How long the delivery that is due longest has been due.', (w) => w.oldestDueSeconds],
  ['unplanned_events', 'Outbox events of which no deliveries are made yet.', (w) => w.unplannedEvents],
  ['in_flight', 'Attempts under way.', (w) => w.inFlight],
  ['offline', '1: the device has no route or reaches no remote host, and deliveries wait.', (w) => w.offline],
  ['history_bytes', 'Bytes of kept answers and of the events of ended deliveries.', (w) => w.historyBytes],
  ['delivered_total', 'Deliveries accepted since the start.', (w) => w.deliveredTotal],
  ['planned_total', 'Deliveries made of events since the start.', (w) => w.plannedTotal],
  [
    'deliveries_for_review',
    'Deliveries that ended without being delivered.',
    ({ rejected, failed }) => ({ rejected, failed }),
    'state',
  ],
  [
    'attempts_total',
    'Attempts since the start, by what they failed of, or accepted.',
    ({ attemptsTotal }) => attemptsTotal,
    'cause',
  ],
];

// The line, by its status. Counters and sizes are fields of the proto, with its comments as help.

/** Fields of LineCounters that go up and down. */
const buffers: ReadonlySet<string> = new Set([
  'rxBufferedPackets',
  'rxBufferedBytes',
  'txQueuedPackets',
  'txQueuedBytes',
]);
/** Fields of LogStatus that only go up, and those that are no metric. */
const logCounters: ReadonlySet<string> = new Set([
  'lostEntries',
  'lostBytes',
  'prunedEntries',
  'commits',
  'stalledReaders',
]);
const notOfLog: ReadonlySet<string> = new Set(['state', 'error', 'logId', 'headId', 'gaps', 'setAside']);
const ofStatus: ReadonlySet<string> = new Set(['subscribers', 'residentBytes']);

function metricsOf(
  message: string,
  prefix: string,
  typeOf: (field: string) => 'counter' | 'gauge' | undefined,
  figures: (status: LineNumbers) => object,
): Metric<LineNumbers>[] {
  const fields = (messages[message] ?? []).filter(({ name }) => typeOf(name) !== undefined);
  return fields.map(({ name, comment }) => {
    const snake = name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    const figure = (status: LineNumbers): number => Number(Reflect.get(figures(status), name));
    return [`${prefix}${snake}${typeOf(name) === 'counter' ? '_total' : ''}`, comment, figure];
  });
}

export const lineMetrics: readonly Metric<LineNumbers>[] = [
  ...metricsOf(
    'LineCounters',
    '',
    (field) => (buffers.has(field) ? 'gauge' : 'counter'),
    ({ counters }) => counters,
  ),
  ...metricsOf(
    'LogStatus',
    'log_',
    (field) => (notOfLog.has(field) ? undefined : logCounters.has(field) ? 'counter' : 'gauge'),
    ({ log }) => log,
  ),
  ...metricsOf(
    'LineStatus',
    '',
    (field) => (ofStatus.has(field) ? 'gauge' : undefined),
    (status) => status,
  ),
  ['port_open', '1: the serial port is open.', ({ portState }) => portState === 'open'],
  [
    'port_lost',
    '1: the serial port is to be open and is not there; opening is retried.',
    ({ portState }) => portState === 'lost' || portState === 'reopening',
  ],
  ['uptime_seconds', 'Since the line process started.', ({ uptimeMs }) => uptimeMs / 1_000],
  ['log_failing', '1: entries of the serial log are not being stored.', ({ log }) => log.state === 'failing'],
  [
    'configuration_refused',
    '1: the last reload found a fault in the configuration file, and the previous one is in use.',
    ({ configurationRefused }) => configurationRefused !== '',
  ],
  [
    'listener_fault',
    '1: an address that the line should serve is not served.',
    ({ listenerFault }) => listenerFault !== '',
  ],
  [
    'clock_set',
    '1: the wall clock was set since the machine was switched on; 0: it was not.',
    ({ clock: { state } }) => (state === 'unknown' ? undefined : state === 'set'),
  ],
  [
    'kernel_errors_total',
    'Errors that the driver of the serial port counted, since it was loaded.',
    ({ kernel }) =>
      kernel && {
        frame: kernel.frame,
        overrun: kernel.overrun,
        parity: kernel.parity,
        break: kernel.brk,
        buffer_overrun: kernel.bufOverrun,
      },
    'kind',
  ],
];
