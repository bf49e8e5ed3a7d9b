/** A record: its address, when it is valid, and as it is sent. Pure. */
import type { Record as RefRecord } from '../../shared/gen/http.ts';
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

/** `data` must have no fault. */
export function recordBody(fields: Readonly<Record<string, string>>, data: string): string {
  const others = JSON.stringify(fields).slice(1, -1);
  return `{${others}${others === '' ? '' : ','}"data":${data}}`;
}
