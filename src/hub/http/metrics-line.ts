/** The line's numbers for Prometheus, as it tells them over its own interface; while it does not answer there are none. */
import type { Registry } from 'prom-client';
import type { LineNumbers } from '../../shared/proto/line-status.ts';
import type { LineView } from '../health/face.ts';
import { counterOf, countersOf, gaugeOf, type Reading } from './metrics-readings.ts';

type Listed = readonly [name: string, help: string, figure: (status: LineNumbers) => number];

const counters: readonly Listed[] = [
  [
    'rx_bytes_total',
    'Bytes received on the serial line since the line process started.',
    ({ counters: c }) => c.rxBytes,
  ],
  ['tx_bytes_total', 'Bytes sent on the serial line since the line process started.', ({ counters: c }) => c.txBytes],
  ['rx_chunks_total', 'Pieces received, from one silence on the line to the next.', ({ counters: c }) => c.rxChunks],
  ['tx_packets_total', 'Packets that the kernel took for sending.', ({ counters: c }) => c.txPackets],
  [
    'tx_failed_packets_total',
    'Packets that were refused or could not be sent.',
    ({ counters: c }) => c.txFailedPackets,
  ],
  [
    'rx_dropped_packets_total',
    'Received packets dropped because ReceivePacket did not fetch them; they are in the log.',
    ({ counters: c }) => c.rxDroppedPackets,
  ],
  ['rx_fetched_packets_total', 'Received packets that ReceivePacket fetched.', ({ counters: c }) => c.rxFetchedPackets],
  ['rx_dropped_bytes_total', 'Bytes of the received packets that were dropped.', ({ counters: c }) => c.rxDroppedBytes],
  ['losses_total', 'Times that the port was lost.', ({ counters: c }) => c.losses],
  ['reopens_total', 'Times that a lost port came back.', ({ counters: c }) => c.reopens],
  [
    'rx_pauses_total',
    'Times that reading paused because the log was not stored fast enough.',
    ({ counters: c }) => c.rxPauses,
  ],
  ['log_commits_total', 'Commits of the serial log to the disk.', ({ log }) => log.commits],
  ['log_lost_entries_total', 'Entries that could not be stored since the log began.', ({ log }) => log.lostEntries],
  ['log_lost_bytes_total', 'Bytes of the entries that could not be stored.', ({ log }) => log.lostBytes],
  ['log_pruned_entries_total', 'Entries that retention removed.', ({ log }) => log.prunedEntries],
];

const gauges: readonly Listed[] = [
  ['port_open', '1: the serial port is open.', ({ portState }) => Number(portState === 'open')],
  [
    'port_lost',
    '1: the serial port is to be open and is not there; it is tried again and again.',
    ({ portState }) => Number(portState === 'lost' || portState === 'reopening'),
  ],
  ['rx_buffered_packets', 'Received packets that wait for ReceivePacket.', ({ counters: c }) => c.rxBufferedPackets],
  ['rx_buffered_bytes', 'Bytes that wait for ReceivePacket.', ({ counters: c }) => c.rxBufferedBytes],
  ['tx_queued_packets', 'Packets that wait to be sent.', ({ counters: c }) => c.txQueuedPackets],
  ['tx_queued_bytes', 'Bytes that wait to be sent.', ({ counters: c }) => c.txQueuedBytes],
  ['subscribers', 'Log streams that are open.', (l) => l.subscribers],
  ['resident_bytes', 'Resident memory of the line process.', (l) => l.residentBytes],
  ['uptime_seconds', 'Since the line process started.', (l) => l.uptimeMs / 1_000],
  ['log_failing', '1: entries of the serial log are not being stored.', ({ log }) => Number(log.state === 'failing')],
  [
    'configuration_refused',
    '1: the last reload found a fault in the configuration file, and the one of before is in use.',
    ({ configurationRefused }) => Number(configurationRefused !== ''),
  ],
  ['log_pending_entries', 'Entries that wait to be stored.', ({ log }) => log.pendingEntries],
  ['log_pending_bytes', 'Bytes of the entries that wait to be stored.', ({ log }) => log.pendingBytes],
  [
    'log_read_budget_used_bytes',
    'Bytes of entries that readers hold and their clients have not taken, of the 32 MiB that all readers share.',
    ({ log }) => log.readBudgetUsedBytes,
  ],
  ['log_waiting_readers', 'Readers that wait for a part of the shared 32 MiB.', ({ log }) => log.waitingReaders],
  ['log_first_id', 'Id of the oldest entry that is stored; 0: there is none.', ({ log }) => log.firstId],
  ['log_last_id', 'Id of the newest entry that is stored; 0: there is none.', ({ log }) => log.lastId],
  ['log_used_bytes', 'Bytes of the log database that hold entries.', ({ log }) => log.usedBytes],
  ['log_file_bytes', 'Bytes of the files of the log database.', ({ log }) => log.fileBytes],
  ['log_max_bytes', 'Bytes that the log may use (log.max_bytes).', ({ log }) => log.maxBytes],
];

/** Registers them; the function sets them. undefined: where the line is is not known. */
export function lineMetrics(registry: Registry): Reading<LineView | undefined> {
  const of = (figure: Listed[2]) => (view: LineView | undefined) => view?.status && figure(view.status);
  const readings: Reading<LineView | undefined>[] = [
    gaugeOf(registry, 'lineside_line_up', '1: the line process answers the hub.', (view) =>
      view === undefined ? undefined : Number(view.status !== undefined),
    ),
    ...counters.map(([name, help, figure]) => counterOf(registry, `lineside_line_${name}`, help, of(figure))),
    ...gauges.map(([name, help, figure]) => gaugeOf(registry, `lineside_line_${name}`, help, of(figure))),
    gaugeOf(
      registry,
      'lineside_line_clock_set',
      '1: the wall clock was set since the machine was switched on; 0: it was not.',
      (view) => {
        const clock = view?.status?.clock.state;
        return clock === undefined || clock === 'unknown' ? undefined : Number(clock === 'set');
      },
    ),
    countersOf(
      registry,
      {
        name: 'lineside_line_kernel_errors_total',
        help: 'Errors that the driver of the serial port counted, since it was loaded.',
        label: 'kind',
      },
      (view) => {
        const kernel = view?.status?.kernel;
        if (!kernel) return undefined;
        const { frame, overrun, parity, brk, bufOverrun } = kernel;
        return { frame, overrun, parity, break: brk, buffer_overrun: bufOverrun };
      },
    ),
  ];
  return (view) => {
    for (const read of readings) read(view);
  };
}
