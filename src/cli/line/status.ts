/** status: the line, its log and the service, once or again and again. */
import type { Command } from 'commander';
import { Fields } from '../connection/answers.ts';
import { apiPath } from '../connection/hub-client.ts';
import { exitStatus } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { type JsonObject, jsonLine, statusJson } from '../output/json.ts';
import { byteSize, spanText, systemZone } from '../output/numbers.ts';
import type { Call, Shell } from '../shell.ts';
import { type WatchOptions, watched, watchInterval } from '../watch.ts';
import { isHealthy, statusText } from './status-text.ts';

export function addStatus(program: Command, shell: Shell): void {
  const command = program
    .command('status')
    .description(
      'show the port, its counters, the log, the service and the machine; status 1 when the port is lost or the log is not kept',
    )
    .option('--watch [seconds]', 'again every second (or so many), until Ctrl-C', watchInterval)
    .addHelpText(
      'after',
      '\nExamples:\n  lineside status\n  lineside status --json | jq .log\n  lineside status --watch 5\n',
    );
  shell.remote<WatchOptions>(command, {
    what: 'cannot read the status',
    endsOnCtrlC: ({ watch }) => watch !== undefined,
    run: (call) => watched(call, (lead) => show(call, lead)),
  });
}

/**
 * The hub is asked beside the line, and may be down, busy or another version: the status does without it then. Part of
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
  const service = await call.service();
  const asked = service.call(call.timeoutMs, call.stop, ({ line }, signal) => line.getStatus({}, { signal }));
  const [now, host] = await Promise.all([asked, hostFacts(call)]);
  const healthy = isHealthy(now);
  const json = (): string => jsonLine({ ...statusJson(now, healthy), host: host ?? null });
  const rows = host === undefined ? [] : hostRows(host);
  await call.out.write(lead + (call.json ? json() : statusText(now, call.out.width, systemZone, rows)));
  return healthy ? exitStatus.ok : exitStatus.refused;
}

// What the hub says of its machine, for people.

/** Rows of the status; throws BAD_ANSWER where it is not what was expected. */
function hostRows(raw: JsonObject): readonly (readonly [string, string])[] {
  const host = new Fields(raw, "the host's state");
  const lines = [processorText(host), diskText(host.object('disk')), bootText(host), slotText(host)];
  const shown = lines.filter((line) => line !== '');
  return shown.map((line, at) => [at === 0 ? 'Host' : '', line]);
}

function processorText(host: Fields): string {
  const memory = host.object('memory');
  const temperature = figure(host, 'temperatureCelsius', (value) => `${value} °C`);
  const free = figure(memory, 'availableBytes', byteSize);
  const all = figure(memory, 'totalBytes', byteSize);
  const used = figure(host.object('load'), 'usedPercent', (value) => `${value} %`);
  const parts = [`temperature ${temperature}`, `processors used ${used}`, `memory ${free} of ${all} available`];
  return [...parts, voltageText(host.text('underVoltage')), throttledText(host.text('throttled'))].join(', ');
}

function voltageText(told: string): string {
  return told === 'yes' ? 'UNDER-VOLTAGE' : told === 'no' ? 'voltage ok' : 'voltage unknown';
}

function throttledText(told: string): string {
  return told === 'yes' ? 'THROTTLED' : told === 'no' ? 'not throttled' : 'throttling unknown';
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
