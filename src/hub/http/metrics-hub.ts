/** The hub's own numbers for Prometheus: its process, its HTTP interface, refdata.db, the certificates it uses. */
import type { Registry } from 'prom-client';
import type { CertificateEnd } from '../health/face.ts';
import { counterOf, gaugeOf, gaugesOf, type Reading } from './metrics-readings.ts';

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
}

type Listed = readonly [name: string, help: string, figure: (hub: HubFigures) => number | undefined];

const gauges: readonly Listed[] = [
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
];

/** Registers them; the function sets them. */
export function hubMetrics(registry: Registry): Reading<HubFigures> {
  const readings: Reading<HubFigures>[] = [
    gaugesOf(
      registry,
      { name: 'lineside_info', help: '1, with the version of lineside.', label: 'version' },
      ({ version }) => ({ [version]: 1 }),
    ),
    ...gauges.map(([name, help, figure]) => gaugeOf(registry, `lineside_${name}`, help, figure)),
    counterOf(
      registry,
      'lineside_http_refused_callers_total',
      'Requests refused for want of a good token or role, and connections closed beyond a limit.',
      ({ http }) => http.refusedCallers,
    ),
    gaugesOf(
      registry,
      { name: 'lineside_http_log_streams', help: 'Streams of the serial log being read.', label: 'kind' },
      ({ http }) => ({ follow: http.followStreams, page: http.pageStreams }),
    ),
    gaugesOf(
      registry,
      {
        name: 'lineside_certificate_end_timestamp_seconds',
        help: 'When the certificates of a key of the configuration end, in seconds since the Unix epoch.',
        label: 'key',
      },
      ({ certificates }) => Object.fromEntries(certificates.map(({ key, endsAtSeconds }) => [key, endsAtSeconds])),
    ),
  ];
  return (hub) => {
    for (const read of readings) read(hub);
  };
}
