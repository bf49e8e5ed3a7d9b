/** An entry of a bundle: {dictionary, businessKey, data, validFrom?, action?}. Pure. */
import { decodeUtf8, parseExactJson } from '../../shared/base/exact-json.ts';
import { type Instant, parseInstant } from '../../shared/base/instant.ts';
import type { JsonObject } from '../outbox/event.ts';
import { businessKeyFault } from './names.ts';
import { checkData } from './record-data.ts';
import { notAnInstant } from './validity.ts';

export type BundleItem = { readonly dictionary: string; readonly businessKey: string } & (
  | {
      readonly action: 'upsert';
      readonly data: JsonObject;
      /** The data as it is stored. */
      readonly text: string;
      readonly validFrom: Instant | undefined;
    }
  | { readonly action: 'close' }
);

export type ReadItem =
  | { readonly item: BundleItem }
  | { readonly faults: readonly string[] }
  /** Nothing but blanks. */
  | { readonly blank: true };

const fields: ReadonlySet<string> = new Set(['dictionary', 'businessKey', 'data', 'validFrom', 'action']);

export function readItem(bytes: Uint8Array, blankAllowed: boolean): ReadItem {
  const text = decodeUtf8(bytes);
  if (text === undefined) return { faults: ['is not UTF-8'] };
  if (blankAllowed && text.trim() === '') return { blank: true };
  const { value, fault } = parseExactJson(text);
  if (fault !== undefined) return { faults: [`${fault.pointer} ${fault.message}`.trimStart()] };
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return { faults: ['must be an object'] };
  return itemOf(value as Readonly<Record<string, unknown>>);
}

function itemOf(value: Readonly<Record<string, unknown>>): ReadItem {
  const faults: string[] = [];
  for (const name of Object.keys(value)) if (!fields.has(name)) faults.push(`${shown(name)} is no field of an item`);
  const { dictionary, businessKey, action = 'upsert' } = value;
  if (typeof dictionary !== 'string') faults.push('/dictionary must be a text');
  if (typeof businessKey !== 'string') faults.push('/businessKey must be a text');
  else if (businessKeyFault(businessKey) !== '') faults.push(`/businessKey ${businessKeyFault(businessKey)}`);
  if (action === 'upsert') return upsertOf(value, faults);
  if (action !== 'close') faults.push('/action must be "upsert" or "close"');
  else
    for (const name of ['data', 'validFrom'])
      if (Object.hasOwn(value, name)) faults.push(`/${name} is not for "close"`);
  if (faults.length > 0 || typeof dictionary !== 'string' || typeof businessKey !== 'string') return { faults };
  return { item: { dictionary, businessKey, action: 'close' } };
}

function upsertOf(value: Readonly<Record<string, unknown>>, faults: string[]): ReadItem {
  const { dictionary, businessKey, data, validFrom } = value;
  const checked = checkData(data);
  if (checked.fault !== undefined) faults.push(`/data ${checked.fault}`);
  const from = typeof validFrom === 'string' ? parseInstant(validFrom) : undefined;
  if (validFrom !== undefined && from === undefined) faults.push(`/validFrom ${notAnInstant}`);
  if (faults.length > 0 || checked.fault !== undefined) return { faults };
  if (typeof dictionary !== 'string' || typeof businessKey !== 'string') return { faults };
  return {
    item: { dictionary, businessKey, action: 'upsert', data: data as JsonObject, text: checked.text, validFrom: from },
  };
}

/** A name out of somebody's file, on one line and of bounded length. */
function shown(name: string): string {
  return JSON.stringify(name.length > 64 ? `${name.slice(0, 64)}...` : name);
}
