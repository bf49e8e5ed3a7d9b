/** status: the line, its log, the service and the machine, once or again and again. */
import { clockStates, flowControls, logStates } from '../../shared/proto/line-status.ts';
import type { lineside, serial } from '../../shared/proto/services.ts';
import type { Entry } from '../command.ts';
import { Fields } from '../connection/answers.ts';
import { apiPath } from '../connection/hub-client.ts';
import { exitStatus } from '../failure.ts';
import { painted } from '../output/colour.ts';
import { gapPhrase } from '../output/entries.ts';
import { safeText } from '../output/hex.ts';
import { type JsonObject, portStateName, statusJson } from '../output/json.ts';
import { byteSize, counted, exact, grouped, spanText } from '../output/numbers.ts';
import { labelled, type Row } from '../output/table.ts';
import type { Call } from '../shell.ts';
import { isWatched, type WatchOptions, watch, watched } from '../watch.ts';
import { settingsText } from './settings.ts';

export const statusCommands: readonly Entry[] = [
  {
    command: 'status',
    help: 'show the port, its counters, the log, the service and the machine; status 1 when the port is lost or the log is not kept',
    options: [watch],
    examples: ['lineside status', 'lineside status --json | jq .log', 'lineside status --watch 5'],
    what: 'read the status',
    colours: true,
    endsOnCtrlC: isWatched,
    run: (call: Call<WatchOptions>) => watched(call, (lead) => show(call, lead)),
  },
];

/**
 * The hub is queried besides the line, and may be down, busy or of another version: the status is shown without it then. Part of
 * --timeout that it may take: 1.5 s by default.
 */
const hubPart = 0.15;

async function hostFacts(call: Call<object>): Promise<JsonObject | undefined> {
  try {
    const hub = await call.hubBeside(call.timeoutMs * hubPart);
    const facts = await hub?.get(apiPath('admin', 'host'));
    // What cannot be shown is not taken.
    if (facts !== undefined) hostRows(facts);
    return facts;
  } catch {
    call.stop.throwIfAborted();
    return undefined;
  }
}

async function show(call: Call<object>, lead: string): Promise<number> {
  const asked = call.line(({ line }, options) => line.getStatus({}, options));
  const [now, host] = await Promise.all([asked, hostFacts(call)]);
  const healthy = isHealthy(now);
  const rows = host === undefined ? [] : hostRows(host);
  const shown = statusText(now, call.out.width, rows);
  const text = lead + (call.colour ? coloured(shown) : shown);
  await call.print({ ...statusJson(now, healthy), host: host ?? null }, text);
  return healthy ? exitStatus.ok : exitStatus.refused;
}

// The line for people.

/** The words in capitals are those that ask for someone. */
const alarms = /\b(?:LOST|REOPENING|NOT BEING KEPT|REFUSED|UNDER-VOLTAGE|THROTTLED|NOT SET|URGENT|NOT MOUNTED)\b/g;

/** After the layout: colours have no width. */
function coloured(text: string): string {
  return text
    .replace(alarms, (word) => painted('red', word))
    .replace(/^(Port +)(open)\b/m, (_, label: string, word: string) => label + painted('green', word));
}

const lostStates = new Set(['lost', 'reopening']);

/** False when the port is lost or the log is not being kept: what `status` answers with exit status 1. */
function isHealthy(status: lineside.v1.LineStatus): boolean {
  return !lostStates.has(portStateName(status.portState)) && logStates[status.log?.state ?? 1] !== 'failing';
}

/** `more`: rows of what others say. */
export function statusText(status: lineside.v1.LineStatus, width: number, more: readonly Row[] = []): string {
  const rows: Row[] = [['Port', portText(status)]];
  if (status.portError !== '') rows.push(['', safeText(status.portError)]);
  if (status.requested != null) {
    const gap = status.rxGapAsked ? `, RX gap ${status.rxGapUs / 1_000} ms` : '';
    rows.push(['Settings', `${requestedText(status.requested, status.effective)}${gap}`]);
  }
  if (status.holder != null)
    rows.push(['Held by', `${safeText(status.holder.name)}, for ${spanText(status.holder.ageMs)}`]);
  if (status.counters != null) rows.push(...counterRows(status.counters, status));
  if (status.kernel != null) rows.push(['Driver', kernelText(status.kernel)]);
  if (status.log != null) rows.push(...logRows(status.log));
  if (status.clock != null) rows.push(...clockRows(status.clock));
  rows.push(...faultRows('', status.configurationRefused, status.listenerFault));
  if (status.restartNeeded !== '') rows.push(['Configuration', `RESTART NEEDED for ${safeText(status.restartNeeded)}`]);
  const { version, uptimeMs, residentBytes, subscribers } = status;
  const memory = `${byteSize(residentBytes)} of memory, ${counted(subscribers, 'subscriber')}`;
  rows.push(['Service', `lineside ${safeText(version)}, up ${spanText(uptimeMs)}, ${memory}`]);
  rows.push(...more);
  return labelled(rows, width);
}

/** `who`: '' is the line. */
function faultRows(who: '' | ' by the hub', refused: string, unserved: string): Row[] {
  const configuration = `REFUSED${who} at the last reload, the one of before is in use: ${safeText(refused)}`;
  return [
    ...(refused === '' ? [] : [['Configuration', configuration] as const]),
    ...(unserved === '' ? [] : [['Listeners', `not all are served${who}: ${safeText(unserved)}`] as const]),
  ];
}

function portText(status: lineside.v1.LineStatus): string {
  const state = portStateName(status.portState);
  const asked = safeText(status.requested?.portName ?? '');
  const now = safeText(status.currentPortName);
  const name = now === '' || now === asked ? asked : `${asked} (now ${now})`;
  const shown = lostStates.has(state) ? state.toUpperCase() : state;
  return `${[shown, name].filter((part) => part !== '').join(' ')}, for ${spanText(status.portStateAgeMs)}`;
}

function requestedText(asked: serial.SerialConfig, got: lineside.v1.LineStatus['effective']): string {
  const packets = asked.packetSize === 0 ? '' : `, packets of ${counted(asked.packetSize, 'byte')}`;
  return `${settingsText(asked)}${packets}${got == null ? '' : effectiveText(asked, got)}`;
}

function effectiveText(asked: serial.SerialConfig, got: lineside.v1.EffectiveSettings): string {
  const driver = got.driver === '' ? '' : `, driver ${safeText(got.driver)}`;
  const flow = flowControls[got.flowControl] ?? 'none';
  const controlled = flow === 'none' ? '' : `, flow control ${flow}`;
  if (got.unverified) return `${controlled} (unverified: a pseudo-terminal keeps no settings)${driver}`;
  const same = settingsText(asked) === settingsText(got);
  return `${controlled}${same ? '' : ` (the kernel says ${settingsText(got)})`}${driver}`;
}

function counterRows(c: lineside.v1.LineCounters, ages: lineside.v1.LineStatus): Row[] {
  const buffered = `${counted(c.rxBufferedPackets, 'packet')} (${byteSize(c.rxBufferedBytes)}) wait for receive`;
  const dropped = ifAny(c.rxDroppedPackets, `, ${counted(c.rxDroppedPackets, 'packet')} dropped from the full buffer`);
  const pauses = ifAny(c.rxPauses, `, ${counted(c.rxPauses, 'pause')} for the log`);
  const queued = ifAny(
    c.txQueuedPackets,
    `, ${counted(c.txQueuedPackets, 'packet')} (${byteSize(c.txQueuedBytes)}) wait to be written`,
  );
  const failed = ifAny(c.txFailedPackets, `, ${grouped(c.txFailedPackets)} refused or failed`);
  const heard = ifAny(c.rxBytes, `, the last ${spanText(ages.receivedAgeMs)} ago`);
  const sent = ifAny(c.txBytes, `, the last ${spanText(ages.sentAgeMs)} ago`);
  const received = `${counted(c.rxBytes, 'byte')} in ${counted(c.rxChunks, 'chunk')}${heard}`;
  const rows: Row[] = [
    ['Received', `${received}, ${buffered}${dropped}${pauses}`],
    ['Sent', `${counted(c.txBytes, 'byte')} in ${counted(c.txPackets, 'packet')}${sent}${queued}${failed}`],
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

function logRows(log: lineside.v1.LogStatus): Row[] {
  const failing = logStates[log.state] === 'failing';
  const sizes = `${byteSize(log.usedBytes)} of ${byteSize(log.maxBytes)}`;
  const pending = ifAny(log.pendingEntries, `, ${counted(log.pendingEntries, 'entry', 'entries')} pending`);
  const rows: Row[] = [['Log', `${failing ? 'NOT BEING KEPT, ' : ''}${rangeText(log)}, ${sizes}${pending}`]];
  if (log.error !== '') rows.push(['', safeText(log.error)]);
  if (exact(log.lostEntries) !== 0) {
    rows.push([
      '',
      `${counted(log.lostEntries, 'entry', 'entries')} (${counted(log.lostBytes, 'byte')}) could not be stored`,
    ]);
  }
  for (const gap of log.gaps) rows.push(['', `  ${gapPhrase(gap)}`]);
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
function clockRows({ state, correctedByMs }: lineside.v1.ClockStatus): Row[] {
  if (clockStates[state] === 'notSet') {
    return [['Clock', 'NOT SET since the machine was switched on; entries are marked, and corrected once it is']];
  }
  const ms = correctedByMs.toNumber();
  if (ms === 0) return [];
  const by = `${ms < 0 ? '-' : '+'}${spanText(Math.abs(ms))}`;
  return [['Clock', `set; earlier entries of this boot are shown corrected by ${by}`]];
}

// The host facts of the hub, for people.

/** Rows of the status; throws BAD_ANSWER where it is not what was expected. */
function hostRows(raw: JsonObject): readonly Row[] {
  const host = new Fields(raw, "the host's state");
  const lines = [processorText(host), diskText(host.object('disk')), bootText(host), slotText(host)];
  const shown = lines.filter((line) => line !== '');
  const hub = host.objectOr('hub', undefined);
  return [
    ...(hub === undefined ? [] : faultRows(' by the hub', hub.text('configurationRefused'), hub.text('listenerFault'))),
    ...shown.map((line, at) => [at === 0 ? 'Host' : '', line] as const),
  ];
}

function processorText(host: Fields): string {
  const memory = host.object('memory');
  const temperature = figure(host, 'temperatureCelsius', (value) => `${value} °C`);
  const free = figure(memory, 'availableBytes', byteSize);
  const all = figure(memory, 'totalBytes', byteSize);
  const used = figure(host.object('load'), 'usedPercent', (value) => `${value} %`);
  const parts = [`temperature ${temperature}`, `processors used ${used}`, `memory ${free} of ${all} available`];
  const voltage = yesNo(host.text('underVoltage'), 'UNDER-VOLTAGE', 'voltage ok', 'voltage unknown');
  const throttled = yesNo(host.text('throttled'), 'THROTTLED', 'not throttled', 'throttling unknown');
  return [...parts, voltage, throttled].join(', ');
}

function yesNo(known: string, yes: string, no: string, unknown: string): string {
  return known === 'yes' ? yes : known === 'no' ? no : unknown;
}

function diskText(disk: Fields): string {
  const parts = [`disk ${figure(disk, 'freeBytes', byteSize)} of ${figure(disk, 'totalBytes', byteSize)} free`];
  if (disk.raw['writtenBytes'] !== null) parts.push(`${figure(disk, 'writtenBytes', byteSize)} written since boot`);
  if (disk.raw['lifeUsedPercent'] !== null) {
    parts.push(`up to ${figure(disk, 'lifeUsedPercent', String)} % of the card's life time used`);
  }
  const reserve = disk.text('reserve');
  if (reserve === 'warning' || reserve === 'urgent') parts.push(`spare blocks: ${reserve.toUpperCase()}`);
  return parts.join(', ');
}

const clocks: Readonly<Record<string, string>> = { synced: 'set', unsynced: 'NOT SET', unknown: 'unknown' };

function bootText(host: Fields): string {
  const boots = host.object('boots');
  const up = `up ${spanText(host.number('uptimeSeconds') * 1_000)}`;
  const clock = `clock ${clocks[host.text('clock')] ?? safeText(host.text('clock'))}`;
  const losses = figure(boots, 'powerLosses', String);
  const after = boots.truth('afterPowerLoss') ? ', the last before this boot' : '';
  return `${up}, ${clock}, power lost ${losses} times in ${figure(boots, 'count', String)} boots${after}`;
}

function slotText(host: Fields): string {
  const slot = host.objectOr('slot', undefined);
  if (slot === undefined) return '';
  const trying = slot.truth('trying') ? ', on trial' : '';
  const lost = slot.truth('dataLost') ? ', DATA PARTITION NOT MOUNTED: all is lost with the power' : '';
  return `system ${safeText(slot.text('name'))}${trying}${lost}`;
}

function figure(fields: Fields, name: string, show: (value: number) => string): string {
  return fields.raw[name] === null ? 'unknown' : show(fields.number(name));
}
