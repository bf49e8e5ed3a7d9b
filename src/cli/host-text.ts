/** What the hub says of its machine, for people. Pure. */
import { Fields } from './answers.ts';
import { safeText } from './hex.ts';
import type { JsonObject } from './json.ts';
import { byteSize, spanText } from './numbers.ts';

/** Rows of the status; throws BAD_ANSWER where it is not what was expected. */
export function hostRows(raw: JsonObject): readonly (readonly [string, string])[] {
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
