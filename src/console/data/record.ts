/** A record: its address, when it is valid, and as it is sent. Pure. */
import type { Dictionary, Record as RefRecord } from '../../shared/gen/http.ts';
import { instantText } from '../format.ts';
import { text } from '../text.ts';

export function dictionaryPath(dictionary: string): string {
  return `/api/v1/dictionaries/${encodeURIComponent(dictionary)}`;
}

export function pathOf(dictionary: string, businessKey?: string): string {
  const path = `${dictionaryPath(dictionary)}/records`;
  return businessKey === undefined ? path : `${path}/${encodeURIComponent(businessKey)}`;
}

type Version = Pick<RefRecord, 'action' | 'validFrom' | 'validTo'>;

/** `next`: the version that replaced this one. A version ends where its successor begins to be valid, or was closed. */
export function validityText({ action, validFrom, validTo }: Version, next?: Version): string {
  const say = text.data;
  const from = instantText(validFrom);
  if (action === 'closed') return say.closedAt(from, instantText(validTo));
  if (next === undefined) return say.validFrom(from);
  const end = next.action === 'closed' ? next.validTo : next.validFrom;
  // Instants sort as text.
  return end <= validFrom ? say.neverValid(from) : say.validUntil(from, instantText(end));
}

// A record as it is sent: its data letter by letter as typed, so that no number is rounded on the way.

/** Why the text is no JSON object; '' if it is one. */
export function objectFault(json: string): string {
  try {
    const found: unknown = JSON.parse(json);
    return typeof found === 'object' && found !== null && !Array.isArray(found) ? '' : text.data.notJson;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** `json`: the member `name` of the body; it must have no fault. */
export function recordBody(fields: Readonly<Record<string, string>>, json: string, name = 'data'): string {
  const others = JSON.stringify(fields).slice(1, -1);
  return `{${others}${others === '' ? '' : ','}"${name}":${json}}`;
}

// Who may know of a dictionary.

/** The widest first. */
export const scopes = ['PUBLIC', 'INTERNAL', 'RESTRICTED'] as const satisfies readonly Dictionary['scope'][];

/** More consumers may read every record: that must be confirmed. */
export const isWider = (scope: Dictionary['scope'], before: Dictionary['scope']): boolean =>
  scopes.indexOf(scope) < scopes.indexOf(before);
