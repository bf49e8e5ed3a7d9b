/** The status of the line for people. Pure. */
import type { lineside } from '../../shared/proto/services.ts';
import { safeText } from '../output/hex.ts';
import { clockStateName, logStateName, portStateName } from '../output/json.ts';
import { byteSize, counted, exact, grouped, localTime, spanText, systemZone, type Zone } from '../output/numbers.ts';
import { labelled } from '../output/table.ts';
import { settingsText } from './settings.ts';

const lostStates = new Set(['lost', 'reopening']);

/** False when the port is lost or the log is not being kept: what `status` answers with exit status 1. */
export function isHealthy(status: lineside.v1.LineStatus): boolean {
  return !lostStates.has(portStateName(status.portState)) && logStateName(status.log?.state ?? 1) !== 'failing';
}

/** `more`: rows of what others say. */
export function statusText(
  status: lineside.v1.LineStatus,
  width: number,
  zone: Zone = systemZone,
  more: readonly (readonly [string, string])[] = [],
): string {
  const rows: (readonly [string, string])[] = [['Port', portText(status)]];
  if (status.portError !== '') rows.push(['', safeText(status.portError)]);
  if (status.requested != null) rows.push(['Settings', requestedText(status.requested, status.effective)]);
  if (status.counters != null) rows.push(...counterRows(status.counters));
  if (status.kernel != null) rows.push(['Driver', kernelText(status.kernel)]);
  if (status.log != null) rows.push(...logRows(status.log, zone));
  if (status.clock != null) rows.push(...clockRows(status.clock));
  if (status.configurationRefused !== '') {
    const faults = safeText(status.configurationRefused);
    rows.push(['Configuration', `REFUSED at the last reload, the one of before is in use: ${faults}`]);
  }
  const { version, uptimeMs, residentBytes, subscribers } = status;
  const memory = `${byteSize(residentBytes)} of memory, ${counted(subscribers, 'subscriber')}`;
  rows.push(['Service', `lineside ${safeText(version)}, up ${spanText(uptimeMs)}, ${memory}`]);
  rows.push(...more);
  return labelled(rows, width);
}

function portText(status: lineside.v1.LineStatus): string {
  const state = portStateName(status.portState);
  const asked = safeText(status.requested?.portName ?? '');
  const now = safeText(status.currentPortName);
  const name = now === '' || now === asked ? asked : `${asked} (now ${now})`;
  const shown = lostStates.has(state) ? state.toUpperCase() : state;
  return `${[shown, name].filter((part) => part !== '').join(' ')}, for ${spanText(status.portStateAgeMs)}`;
}

type Config = lineside.v1.LineStatus['requested'];
type Effective = lineside.v1.LineStatus['effective'];

function requestedText(asked: NonNullable<Config>, got: Effective): string {
  const packets = asked.packetSize === 0 ? '' : `, packets of ${counted(asked.packetSize, 'byte')}`;
  return `${settingsText(asked)}${packets}${got == null ? '' : effectiveText(asked, got)}`;
}

function effectiveText(asked: NonNullable<Config>, got: NonNullable<Effective>): string {
  const driver = got.driver === '' ? '' : `, driver ${safeText(got.driver)}`;
  if (got.unverified) return ` (unverified: a pseudo-terminal keeps no settings)${driver}`;
  const same = settingsText(asked) === settingsText(got);
  return `${same ? '' : ` (the kernel says ${settingsText(got)})`}${driver}`;
}

function counterRows(c: lineside.v1.LineCounters): (readonly [string, string])[] {
  const buffered = `${counted(c.rxBufferedPackets, 'packet')} (${byteSize(c.rxBufferedBytes)}) wait for receive`;
  const dropped = ifAny(c.rxDroppedPackets, `, ${counted(c.rxDroppedPackets, 'packet')} dropped from the full buffer`);
  const pauses = ifAny(c.rxPauses, `, ${counted(c.rxPauses, 'pause')} for the log`);
  const queued = ifAny(
    c.txQueuedPackets,
    `, ${counted(c.txQueuedPackets, 'packet')} (${byteSize(c.txQueuedBytes)}) wait to be written`,
  );
  const failed = ifAny(c.txFailedPackets, `, ${grouped(c.txFailedPackets)} refused or failed`);
  const rows: (readonly [string, string])[] = [
    ['Received', `${counted(c.rxBytes, 'byte')} in ${counted(c.rxChunks, 'chunk')}, ${buffered}${dropped}${pauses}`],
    ['Sent', `${counted(c.txBytes, 'byte')} in ${counted(c.txPackets, 'packet')}${queued}${failed}`],
  ];
  if (exact(c.losses) !== 0)
    rows.push(['Losses', `the port was lost ${counted(c.losses, 'time')} and came back ${counted(c.reopens, 'time')}`]);
  return rows;
}

function ifAny(value: Parameters<typeof exact>[0], text: string): string {
  return exact(value) === 0 ? '' : text;
}

function kernelText(kernel: lineside.v1.KernelCounters): string {
  const { frame, overrun, parity, brk, bufOverrun, rx, tx } = kernel;
  const counts = { frame, overrun, parity, break: brk, 'buffer overrun': bufOverrun, rx, tx };
  return Object.entries(counts)
    .map(([name, count]) => `${name} ${grouped(count)}`)
    .join(', ');
}

function logRows(log: lineside.v1.LogStatus, zone: Zone): (readonly [string, string])[] {
  const failing = logStateName(log.state) === 'failing';
  const sizes = `${byteSize(log.usedBytes)} of ${byteSize(log.maxBytes)}`;
  const pending = ifAny(log.pendingEntries, `, ${counted(log.pendingEntries, 'entry', 'entries')} pending`);
  const rows: (readonly [string, string])[] = [
    ['Log', `${failing ? 'NOT BEING KEPT, ' : ''}${rangeText(log)}, ${sizes}${pending}`],
  ];
  if (log.error !== '') rows.push(['', safeText(log.error)]);
  if (exact(log.lostEntries) !== 0) {
    rows.push([
      '',
      `${counted(log.lostEntries, 'entry', 'entries')} (${counted(log.lostBytes, 'byte')}) could not be stored`,
    ]);
  }
  for (const gap of log.gaps) rows.push(['', `  ${gapPhrase(gap, zone)}`]);
  if (log.setAside !== '') rows.push(['', `a damaged log was set aside: ${safeText(log.setAside)}`]);
  return rows;
}

/** Ids as --after takes them. Some may have been given to entries that were not stored. */
function rangeText({ firstId, lastId }: lineside.v1.LogStatus): string {
  if (exact(lastId) === 0) return 'empty';
  const most = counted(lastId.subtract(firstId).add(1), 'entry', 'entries');
  return `ids ${exact(firstId)} to ${exact(lastId)} (at most ${most})`;
}

/** Nothing is said of a clock that is right, nor where it is not known. */
function clockRows({ state, correctedByMs }: lineside.v1.ClockStatus): (readonly [string, string])[] {
  if (clockStateName(state) === 'notSet') {
    return [['Clock', 'NOT SET since the machine was switched on; entries are marked, and corrected once it is']];
  }
  const ms = correctedByMs.toNumber();
  if (ms === 0) return [];
  const by = `${ms < 0 ? '-' : '+'}${spanText(Math.abs(ms))}`;
  return [['Clock', `set; earlier entries of this boot are shown corrected by ${by}`]];
}

/** 123 entries (4,567 bytes) not stored: disk full, 12:00:01 to 12:05:00 */
export function gapPhrase(gap: lineside.v1.LogGap, zone: Zone): string {
  const from = localTime(gap.fromMs, zone);
  const to = localTime(gap.toMs, zone);
  const start = `${from.date} ${from.time}`.trim();
  const end = from.date === to.date ? to.time : `${to.date} ${to.time}`;
  const reason = gap.reason === '' ? '' : `${safeText(gap.reason)}, `;
  return `${counted(gap.entries, 'entry', 'entries')} (${counted(gap.bytes, 'byte')}) not stored: ${reason}${start} to ${end}`;
}
