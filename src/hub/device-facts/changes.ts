/** What has to be written so that a dictionary says what is wanted. Pure. */
import { sameJson } from '../../shared/base/same-json.ts';
import type { JsonObject } from '../outbox/event.ts';
import type { Wanted } from './mapping.ts';

/** An open record as it is now. */
export interface Known {
  readonly data: JsonObject;
  readonly version: number;
}

export type FactChange =
  | { readonly kind: 'create'; readonly key: string; readonly data: JsonObject }
  | { readonly kind: 'update'; readonly key: string; readonly data: JsonObject; readonly version: number }
  | { readonly kind: 'close'; readonly key: string; readonly version: number };

/** Only what differs; first what goes, so that a name that moved is free. */
export function changesTo(wanted: Wanted, known: ReadonlyMap<string, Known>): FactChange[] {
  const changes: FactChange[] = [];
  for (const [key, { version }] of known) if (!wanted.has(key)) changes.push({ kind: 'close', key, version });
  for (const [key, data] of wanted) {
    const now = known.get(key);
    if (now === undefined) changes.push({ kind: 'create', key, data });
    else if (!sameJson(now.data, data)) changes.push({ kind: 'update', key, data, version: now.version });
  }
  return changes;
}
