/** The hub's figures for Prometheus: its own, the machine's, and those of outbox, webhooks and upstream. */
import type { HostFacts, Told } from '../../../shared/host/host-facts.ts';
import type { CertificateEnd, ServiceFaults } from '../../health/face.ts';
import type { OutboxStatus } from '../../outbox/admin.ts';
import type { UpstreamState, UpstreamStatus } from '../../upstream/face.ts';
import type { WebhookStatus } from '../../webhooks/face.ts';
import type { Metric } from './metric-table.ts';

/** Sizes of refdata.db, in bytes, and what is wrong with it. */
export interface StorageFigures {
  readonly usedBytes: number;
  readonly limitBytes: number;
  /** Free on its disk. */
  readonly freeBytes: number;
  /** Changes that wait for their turn to write. */
  readonly waitingChanges: number;
  readonly isDamaged: boolean;
  /** Changes are refused for want of room. */
  readonly isFull: boolean;
}

/** Of the HTTP interface itself. */
export interface HttpFigures {
  readonly connections: number;
  readonly refusedCallers: number;
  /** Of request bodies being read or worked on. */
  readonly bodyBytes: number;
  /** Streams of the log, by what they are asked for. */
  readonly followStreams: number;
  readonly pageStreams: number;
}

export interface HubFigures {
  readonly version: string;
  readonly residentBytes: number;
  readonly uptimeSeconds: number;
  readonly longestHoldSeconds: number;
  readonly http: HttpFigures;
  /** undefined: not known. */
  readonly storage: StorageFigures | undefined;
  readonly certificates: readonly CertificateEnd[];
  /** Units of sockets that should be open and are not. */
  readonly closedSockets: readonly string[];
  readonly faults: ServiceFaults | undefined;
}

export const hubMetrics: readonly Metric<HubFigures>[] = [
  ['info', '1, with the version of lineside.', ({ version }) => ({ [version]: 1 }), 'version'],
  ['http_connections', 'Connections open on all addresses.', ({ http }) => http.connections],
  ['http_body_bytes', 'Bytes of request bodies being read or worked on.', ({ http }) => http.bodyBytes],
  ['hub_uptime_seconds', 'Since the hub started.', ({ uptimeSeconds }) => uptimeSeconds],
  ['hub_resident_bytes', 'Resident memory of the hub.', ({ residentBytes }) => residentBytes],
  [
    'hub_loop_longest_hold_seconds',
    'Longest hold of the event loop in the last minute or two.',
    ({ longestHoldSeconds }) => longestHoldSeconds,
  ],
  ['sockets_closed', 'Socket units that should be open and are not.', ({ closedSockets }) => closedSockets.length],
  [
    'hub_configuration_refused',
    '1: the last reload of the hub found a fault in the configuration file, and the previous one is in use.',
    ({ faults }) => faults && Number(faults.configurationRefused !== ''),
  ],
  [
    'hub_listener_fault',
    '1: an address that the hub should serve is not served.',
    ({ faults }) => faults && Number(faults.listenerFault !== ''),
  ],
  ['refdata_bytes', 'Bytes that refdata.db uses.', ({ storage }) => storage?.usedBytes],
  ['refdata_limit_bytes', 'Bytes that refdata.db may use.', ({ storage }) => storage?.limitBytes],
  ['refdata_free_bytes', 'Free bytes on the disk of refdata.db.', ({ storage }) => storage?.freeBytes],
  [
    'refdata_waiting_changes',
    'Changes that wait for their turn to write, behind an import mostly.',
    ({ storage }) => storage?.waitingChanges,
  ],
  ['refdata_damaged', '1: refdata.db was found damaged.', ({ storage }) => storage && Number(storage.isDamaged)],
  ['refdata_full', '1: changes are refused for want of room.', ({ storage }) => storage && Number(storage.isFull)],
  [
    'http_refused_callers_total',
    'Requests refused for want of a good token or role, and connections closed beyond a limit.',
    ({ http }) => http.refusedCallers,
  ],
  [
    'http_log_streams',
    'Streams of the serial log being read.',
    ({ http }) => ({ follow: http.followStreams, page: http.pageStreams }),
    'kind',
  ],
  [
    'certificate_end_timestamp_seconds',
    'When the certificates of a key of the configuration end, in seconds since the Unix epoch.',
    ({ certificates }) => Object.fromEntries(certificates.map(({ key, endsAtSeconds }) => [key, endsAtSeconds])),
    'key',
  ],
];

const flag = (told: Told): number | null => (told === 'unknown' ? null : Number(told === 'yes'));

export const hostMetrics: readonly Metric<HostFacts>[] = [
  ['uptime_seconds', 'Since the machine was switched on.', ({ uptimeSeconds }) => uptimeSeconds],
  ['temperature_celsius', 'Of the processor.', ({ temperatureCelsius }) => temperatureCelsius],
  ['throttled', '1: the processor is slowed down.', ({ throttled }) => flag(throttled)],
  ['under_voltage', '1: the supply voltage is too low.', ({ underVoltage }) => flag(underVoltage)],
  ['memory_bytes', 'Memory.', ({ memory }) => memory.totalBytes],
  ['memory_available_bytes', 'Memory that is available.', ({ memory }) => memory.availableBytes],
  ['load1', 'Runnable threads, averaged over a minute.', ({ load }) => load.averages[0] ?? null],
  ['processors', 'Processors.', ({ load }) => load.processors],
  ['cpu_used_percent', 'Of all processors, over half a minute.', ({ load }) => load.usedPercent],
  ['disk_bytes', 'Size of the file system of the data.', ({ disk }) => disk.totalBytes],
  ['disk_free_bytes', 'Free on it.', ({ disk }) => disk.freeBytes],
  ['card_written_bytes', 'Written to the card since the boot.', ({ disk }) => disk.writtenBytes],
  ['disk_written_ever_bytes', 'Written to the file system since it was made.', ({ disk }) => disk.writtenBytesEver],
  ['card_life_used_percent', 'Of the life time of the card at most.', ({ disk }) => disk.lifeUsedPercent],
  [
    'card_reserve_low',
    '1: most spare blocks of the card are used.',
    ({ disk: { reserve } }) => (reserve === 'unknown' ? null : Number(reserve !== 'normal')),
  ],
  [
    'clock_synced',
    '1: time sync has set the clock.',
    ({ clock }) => (clock === 'unknown' ? null : Number(clock === 'synced')),
  ],
  ['boots', 'Boots in which the hub ran on these data.', ({ boots }) => boots.count],
  ['power_losses', 'Boots that followed a loss of power.', ({ boots }) => boots.powerLosses],
  ['after_power_loss', '1: this boot is one of them.', ({ boots }) => Number(boots.afterPowerLoss)],
  ['data_lost', '1: the data partition is not mounted.', ({ slot }) => (slot === null ? null : Number(slot.dataLost))],
  [
    'update_failed',
    '1: an update did not become healthy, and the box went back.',
    ({ slot }) => (slot === null ? null : Number(slot.updateFailed)),
  ],
  ['slot_trying', '1: the system is on trial.', ({ slot }) => (slot === null ? null : Number(slot.trying))],
];

export const outboxMetrics: readonly Metric<OutboxStatus>[] = [
  ['outbox_waiting', 'Rows the broker has still to acknowledge.', ({ waiting }) => waiting],
  ['outbox_oldest_seconds', 'Age of the oldest waiting row.', ({ oldest }) => oldest?.ageSeconds ?? 0],
  ['outbox_in_flight', 'Rows in flight to the broker.', ({ inFlight }) => inFlight],
  ['outbox_in_flight_bytes', 'Bytes in flight to the broker.', ({ inFlightBytes }) => inFlightBytes],
  ['outbox_dead_letters', 'Rows that cannot be published.', ({ deadLetters }) => deadLetters],
  ['outbox_blocked_keys', 'Keys whose first waiting row was refused.', ({ blockedKeyCount }) => blockedKeyCount],
  ['kafka_connected', '1: there is a connection to a broker.', ({ broker }) => Number(broker.connected)],
  ['kafka_configured', '1: a broker is configured (kafka.bootstrap).', ({ broker }) => Number(broker.configured)],
  [
    'kafka_topics_lacking',
    'Topics of the broker that are not as they were asked for.',
    ({ broker }) => broker.topics.filter(({ lacks }) => lacks.length > 0).length,
  ],
  ['outbox_published_total', 'Rows acknowledged since the start.', ({ publishedTotal }) => publishedTotal],
  ['outbox_refused_total', 'Refusals by a broker that was reached.', ({ refusedTotal }) => refusedTotal],
  [
    'kafka_producers_replaced_total',
    'Times that the client of the broker was recreated after a fatal error.',
    ({ broker }) => broker.producersReplaced,
  ],
  ['outbox_unreached_total', 'Sendings that reached no broker.', ({ unreachedTotal }) => unreachedTotal],
  [
    'outbox_pruned_total',
    'Oldest events removed unpublished: no broker is configured and outbox.max_bytes was reached.',
    ({ prunedTotal }) => prunedTotal,
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
  ['connected', '1: the remote is reachable.', ({ connected }) => Number(connected)],
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
  ['subscriptions_active', 'Active subscriptions.', ({ activeSubscriptions }) => activeSubscriptions],
  [
    'subscriptions_blocked',
    'Of the active ones, those to which nothing is sent.',
    ({ blockedSubscriptions }) => blockedSubscriptions,
  ],
  ['waiting', 'Deliveries that are still to be accepted.', ({ waiting }) => waiting],
  [
    'oldest_due_seconds',
    'How long the delivery that is due longest has been due.',
    ({ oldestDueSeconds }) => oldestDueSeconds,
  ],
  ['unplanned_events', 'Outbox events of which no deliveries are made yet.', ({ unplannedEvents }) => unplannedEvents],
  ['in_flight', 'Attempts under way.', ({ inFlight }) => inFlight],
  [
    'offline',
    '1: the device has no route or reaches no remote host, and deliveries wait.',
    ({ offline }) => Number(offline),
  ],
  ['history_bytes', 'Bytes of the answers that are kept for review.', ({ historyBytes }) => historyBytes],
  ['delivered_total', 'Deliveries accepted since the start.', ({ deliveredTotal }) => deliveredTotal],
  ['planned_total', 'Deliveries made of events since the start.', ({ plannedTotal }) => plannedTotal],
  [
    'deliveries_for_review',
    'Deliveries that ended without being delivered.',
    ({ rejected, failed }) => ({ rejected, failed }),
    'state',
  ],
  [
    'attempts_total',
    'Attempts since the start, by what they failed of, or accepted.',
    ({ attemptsTotal: { '': accepted, ...failed } }) => ({ accepted, ...failed }),
    'cause',
  ],
];
