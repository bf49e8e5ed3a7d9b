/** The line's figures for Prometheus, as it reports them in its status. Counters and sizes are fields of the proto, with its comments as help. */
import { messages } from '../../../shared/gen/messages.js';
import type { LineNumbers } from '../../../shared/proto/line-status.ts';
import type { Metric } from './metric-table.ts';

/** Fields of LineCounters that go up and down. */
const buffers: ReadonlySet<string> = new Set([
  'rxBufferedPackets',
  'rxBufferedBytes',
  'txQueuedPackets',
  'txQueuedBytes',
]);
/** Fields of LogStatus that only go up, and those that are no metric. */
const logCounters: ReadonlySet<string> = new Set(['lostEntries', 'lostBytes', 'prunedEntries', 'commits']);
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
  ['port_open', '1: the serial port is open.', ({ portState }) => Number(portState === 'open')],
  [
    'port_lost',
    '1: the serial port is to be open and is not there; opening is retried.',
    ({ portState }) => Number(portState === 'lost' || portState === 'reopening'),
  ],
  ['uptime_seconds', 'Since the line process started.', ({ uptimeMs }) => uptimeMs / 1_000],
  ['log_failing', '1: entries of the serial log are not being stored.', ({ log }) => Number(log.state === 'failing')],
  [
    'configuration_refused',
    '1: the last reload found a fault in the configuration file, and the previous one is in use.',
    ({ configurationRefused }) => Number(configurationRefused !== ''),
  ],
  [
    'listener_fault',
    '1: an address that the line should serve is not served.',
    ({ listenerFault }) => Number(listenerFault !== ''),
  ],
  [
    'clock_set',
    '1: the wall clock was set since the machine was switched on; 0: it was not.',
    ({ clock: { state } }) => (state === 'unknown' ? null : Number(state === 'set')),
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
