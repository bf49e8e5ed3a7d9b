/** Records and their versions for people. Pure. */
import { FAR_FUTURE } from '../shared/base/instant.ts';
import { Fields } from './answers.ts';
import { safeText } from './hex.ts';
import { type Json, type JsonObject, shownJson } from './json.ts';
import { timeText } from './refdata-options.ts';
import { labelledWrapped } from './table.ts';

export function recordFields(raw: JsonObject): Fields {
  return new Fields(raw, 'the record');
}

export function recordText(record: Fields, width: number): string {
  const rows: (readonly [string, string])[] = [
    ['Record', `${safeText(record.text('businessKey'))} of ${safeText(record.text('dictionary'))}`],
    ['Version', `${record.number('version')}, ${changeText(record)}`],
    ['Valid', validText(record)],
    ['Data', ''],
  ];
  return `${labelledWrapped(rows, width)}${shownJson(record.object('data').raw, 2)}\n`;
}

/** updated by anna at 2026-03-01 09:30:00: new motor */
export function changeText(record: Fields): string {
  const reason = record.textOr('changeReason', '');
  const done = `${safeText(record.text('action'))} by ${safeText(record.text('changedBy'))}`;
  return `${done} at ${timeText(record.text('txTime'))}${reason === '' ? '' : `: ${safeText(reason)}`}`;
}

export function validText(record: Fields): string {
  const to = record.text('validTo');
  return `from ${timeText(record.text('validFrom'))}${to === FAR_FUTURE ? '' : ` to ${timeText(to)}`}`;
}

/** Names of the fields whose values differ, on either side. */
export function changedFields(before: JsonObject, after: JsonObject): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].filter((name) => !sameJson(before[name], after[name]));
}

/** The order of an object's names says nothing. */
function sameJson(a: Json | undefined, b: Json | undefined): boolean {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [left, right] = [Object.entries(a), new Map(Object.entries(b))];
  return (
    left.length === right.size && left.every(([name, value]) => right.has(name) && sameJson(value, right.get(name)))
  );
}
