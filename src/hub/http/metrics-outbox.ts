/** The outbox's numbers for Prometheus, and those of the broker it publishes to. */
import type { Registry } from 'prom-client';
import type { OutboxStatus } from '../outbox/face.ts';
import { counterOf, gaugeOf, type Reading } from './metrics-readings.ts';

type Listed = readonly [name: string, help: string, figure: (status: OutboxStatus) => number];

const gauges: readonly Listed[] = [
  ['outbox_waiting', 'Rows the broker has still to acknowledge.', ({ waiting }) => waiting],
  ['outbox_oldest_seconds', 'Age of the oldest waiting row.', ({ oldest }) => oldest?.ageSeconds ?? 0],
  ['outbox_in_flight', 'Rows on their way to the broker.', ({ inFlight }) => inFlight],
  ['outbox_in_flight_bytes', 'Bytes on their way to the broker.', ({ inFlightBytes }) => inFlightBytes],
  ['outbox_dead_letters', 'Rows that cannot be published.', ({ deadLetters }) => deadLetters],
  ['outbox_blocked_keys', 'Keys whose first waiting row was refused.', ({ blockedKeyCount }) => blockedKeyCount],
  ['kafka_connected', '1: there is a connection to a broker.', ({ broker }) => Number(broker.connected)],
  ['kafka_configured', '1: a broker is configured (kafka.bootstrap).', ({ broker }) => Number(broker.configured)],
  [
    'kafka_topics_lacking',
    'Topics of the broker that are not as they were asked for.',
    ({ broker }) => broker.topics.filter(({ lacks }) => lacks.length > 0).length,
  ],
];

const counters: readonly Listed[] = [
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

/** Registers them; the function sets them to what a status says. */
export function outboxMetrics(registry: Registry): Reading<OutboxStatus> {
  const readings = [
    ...gauges.map(([name, help, figure]) => gaugeOf(registry, `lineside_${name}`, help, figure)),
    ...counters.map(([name, help, figure]) => counterOf(registry, `lineside_${name}`, help, figure)),
  ];
  return (status) => {
    for (const read of readings) read(status);
  };
}
