/** The numbers of the serial log's way to the central side, for Prometheus. */
import type { Registry } from 'prom-client';
import type { UpstreamState, UpstreamStatus } from '../upstream/face.ts';
import { counterOf, gaugeOf, gaugesOf, type Reading } from './metrics-readings.ts';

type Listed = readonly [name: string, help: string, figure: (status: UpstreamStatus) => number];

const counters: readonly Listed[] = [
  ['sent_entries_total', 'Entries of the serial log sent since the start of the hub.', (u) => u.sentEntries],
  ['sent_bytes_total', 'Bytes of the serial line in the entries sent.', (u) => u.sentBytes],
  [
    'wire_bytes_total',
    'Bytes on the link: compressed, with what the protocol adds and what went again.',
    (u) => u.wireBytes,
  ],
  ['batches_total', 'Batches stored by the other side.', (u) => u.batches],
  [
    'repeated_batches_total',
    'Batches that were not stored at the first try, and went again.',
    (u) => u.repeatedBatches,
  ],
  ['gaps_sent_total', 'Gaps of the log that the other side was told of.', (u) => u.gapsSent],
  ['lost_entries_total', 'Entries in those gaps: the other side will never have them.', (u) => u.entriesLost],
];

const gauges: readonly Listed[] = [
  ['connected', '1: the other side can be reached.', ({ connected }) => Number(connected)],
  ['lag_entries', 'Entries that are stored and not sent, at most.', (u) => u.lagEntries],
  ['oldest_unsent_seconds', 'How long the oldest entry that was not sent has waited.', (u) => u.oldestUnsentAgeS],
  ['budget_used_bytes', 'Bytes sent in the last 24 hours, as the budget counts them.', (u) => u.budgetUsedBytes],
  ['budget_limit_bytes', 'Bytes that may be sent in 24 hours; 0: any.', (u) => u.budgetLimitBytes],
  ['position', 'Id of the log up to which the other side has everything.', (u) => u.position],
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

/** Registers them; the function sets them. undefined: this hub ships nothing. */
export function upstreamMetrics(registry: Registry): Reading<UpstreamStatus | undefined> {
  const of = (figure: Listed[2]) => (status: UpstreamStatus | undefined) => status && figure(status);
  const readings: Reading<UpstreamStatus | undefined>[] = [
    gaugeOf(registry, 'lineside_upstream_on', '1: the serial log is sent to a central side (upstream.to).', (status) =>
      Number(status !== undefined && status.to !== 'off'),
    ),
    ...counters.map(([name, help, figure]) => counterOf(registry, `lineside_upstream_${name}`, help, of(figure))),
    ...gauges.map(([name, help, figure]) => gaugeOf(registry, `lineside_upstream_${name}`, help, of(figure))),
    gaugesOf(
      registry,
      { name: 'lineside_upstream_state', help: '1: what it does now, or waits for.', label: 'state' },
      (status) =>
        status &&
        Object.fromEntries(Object.entries(states).map(([state, label]) => [label, Number(state === status.state)])),
    ),
  ];
  return (status) => {
    for (const read of readings) read(status);
  };
}
