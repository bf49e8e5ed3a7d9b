/** What a record's data may be, whatever its dictionary says. Pure. */
import { MAX_JSON_DEPTH } from '../../shared/base/exact-json.ts';

/** As UTF-8 JSON: a broker takes 1 MB a message by default, and an event holds the data twice. */
const maxDataBytes = 256 * 1024;

export type CheckedData = { readonly text: string; readonly fault?: never } | { readonly fault: string };

/** The data's JSON as it is stored, or what is wrong with it. Exact numbers are the reader's affair (parseExactJson). */
export function checkData(data: unknown): CheckedData {
  if (typeof data !== 'object' || data === null || Array.isArray(data)) return { fault: 'must be an object' };
  const shape = shapeFault(data);
  if (shape !== '') return { fault: shape };
  const text = JSON.stringify(data);
  // A UTF-16 unit is at most three bytes.
  if (text.length * 3 > maxDataBytes && new TextEncoder().encode(text).length > maxDataBytes) {
    return { fault: `must have at most ${maxDataBytes / 1024} KiB as JSON` };
  }
  return { text };
}

/** Level by level, never by recursion: the nesting is what is in question. */
function shapeFault(root: object): string {
  let level: object[] = [root];
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > MAX_JSON_DEPTH) return `must not be nested more than ${MAX_JSON_DEPTH} deep`;
    const next: object[] = [];
    for (const value of level) {
      if (Object.hasOwn(value, '__proto__')) return 'must have no field named __proto__';
      for (const item of Object.values(value)) {
        if (typeof item === 'object' && item !== null) next.push(item);
        else if (!isPlain(item)) return 'must be JSON: texts, finite numbers, true, false, null, lists and objects';
      }
    }
    level = next;
  }
  return '';
}

function isPlain(value: unknown): boolean {
  if (typeof value === 'number') return Number.isFinite(value);
  return value === null || typeof value === 'string' || typeof value === 'boolean';
}
