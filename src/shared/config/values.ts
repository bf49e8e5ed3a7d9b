/** One value against its key's schema: of the right type and within its limits, or a sentence that says what is wrong. Pure. */
import type { KeySchema, Value } from './key.ts';

export interface Fault {
  /** The key's path, or the variable's name if the variable is at fault. */
  readonly path: string;
  readonly message: string;
}

export interface Setting {
  readonly value: Value;
  readonly source: 'file' | 'environment' | 'default';
}

export type Settings = ReadonlyMap<string, Setting>;

export type CheckedValue = { readonly value: Value } | { readonly fault: string };

/** The keywords of a TypeBox schema that are read here; TypeBox's own checker would cost the line's process 5 MB. */
interface Schema {
  readonly type?: string;
  readonly const?: string;
  readonly enum?: readonly string[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly pattern?: string;
  readonly errorMessage?: string;
  readonly [other: string]: unknown;
}

/** A value as TOML gave it. */
export function checkValue(schema: Schema, raw: unknown): CheckedValue {
  if (schema.anyOf !== undefined) return checkAny(schema.anyOf, raw);
  if (schema.const !== undefined) return raw === schema.const ? { value: raw } : unlike(schema, raw);
  if (schema.enum !== undefined) return checkChoice(schema, schema.enum, raw);
  switch (schema.type) {
    case 'string':
      return checkText(schema, raw);
    case 'integer':
      return typeof raw === 'number' && Number.isInteger(raw) && isWithin(schema, raw)
        ? { value: raw }
        : unlike(schema, raw);
    case 'boolean':
      return typeof raw === 'boolean' ? { value: raw } : unlike(schema, raw);
    case 'array':
      return checkList(schema, raw);
    default:
      throw new TypeError(`no rule for a schema of type ${schema.type}`);
  }
}

function unlike(schema: Schema, raw: unknown): CheckedValue {
  return { fault: `must be ${wanted(schema)}, not ${show(raw)}` };
}

function wanted(schema: Schema): string {
  const { type, anyOf, items, minimum, maximum } = schema;
  if (anyOf !== undefined) return anyOf.map(wanted).join(', or ');
  if (schema.const !== undefined) return show(schema.const);
  if (schema.enum !== undefined) return `one of ${schema.enum.map(show).join(', ')}`;
  if (type === 'integer') return `a whole number from ${minimum} to ${maximum}`;
  if (type === 'boolean') return 'true or false';
  if (type !== 'array') return 'a string in quotes';
  return items?.type === 'integer' ? 'a list of numbers' : 'a list of strings';
}

function isWithin({ minimum = -Infinity, maximum = Infinity }: Schema, value: number): boolean {
  return value >= minimum && value <= maximum;
}

function checkAny(schemas: readonly Schema[], raw: unknown): CheckedValue {
  for (const schema of schemas) {
    const checked = checkValue(schema, raw);
    if ('value' in checked) return checked;
  }
  return unlike({ anyOf: schemas }, raw);
}

function checkText(schema: Schema, raw: unknown): CheckedValue {
  if (typeof raw !== 'string') return unlike(schema, raw);
  if (raw.includes('\0')) return { fault: 'must not contain a NUL' };
  const { pattern, errorMessage = `must look like ${pattern}` } = schema;
  if (pattern !== undefined && !new RegExp(pattern, 'u').test(raw))
    return { fault: `${errorMessage}, not ${show(raw)}` };
  return { value: raw };
}

function checkChoice(schema: Schema, choices: readonly string[], raw: unknown): CheckedValue {
  // stop_bits = 2 means what it says, quotes or not.
  const value = typeof raw === 'number' ? String(raw) : raw;
  return typeof value === 'string' && choices.includes(value) ? { value } : unlike(schema, raw);
}

function checkList(schema: Schema, raw: unknown): CheckedValue {
  if (!Array.isArray(raw)) return unlike(schema, raw);
  if (schema.items?.type === 'integer') return checkNumbers(schema, schema.items, raw);
  const items: string[] = [];
  for (const item of raw) {
    if (typeof item !== 'string' || item === '') return { fault: `must hold strings only, not ${show(item)}` };
    items.push(item);
  }
  return { value: items };
}

function checkNumbers(
  { minItems = 0, maxItems = Infinity }: Schema,
  item: Schema,
  raw: readonly unknown[],
): CheckedValue {
  if (raw.length < minItems || raw.length > maxItems) {
    return { fault: `must hold ${minItems} to ${maxItems} numbers, not ${raw.length}` };
  }
  const numbers: number[] = [];
  for (const one of raw) {
    if (typeof one !== 'number' || !Number.isInteger(one) || !isWithin(item, one)) {
      return { fault: `each must be ${wanted(item)}, not ${show(one)}` };
    }
    numbers.push(one);
  }
  return { value: numbers };
}

const sizes = { bytes: 1, B: 1, kB: 1e3, KB: 1e3, MB: 1e6, GB: 1e9, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 };
const times = { ms: 1, s: 1e3, min: 6e4, h: 36e5, d: 864e5, days: 864e5 };
/** By the unit with which the names of its keys end. */
const unitsOf: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  bytes: sizes,
  ms: times,
  s: times,
  days: times,
};

/** As a JSON Schema has it: "1GB", "1.5 h"; undefined: the key has no unit. */
export function unitPattern(path: string): string | undefined {
  const units = unitsOf[unitOf(path)];
  return units === undefined ? undefined : `^\\d{1,15}(\\.\\d{1,3})? ?(${Object.keys(units).join('|')})$`;
}

/** The number for a value with a unit ("1GB", "10s"), in the unit of the key; any other value as it is. */
export function inUnitOf(path: string, raw: unknown): unknown {
  const pattern = unitPattern(path);
  if (pattern === undefined || typeof raw !== 'string' || !new RegExp(pattern).test(raw)) return raw;
  const [, amount = '', unit = ''] = /^([\d.]+) ?(\w+)$/.exec(raw) ?? [];
  const units = unitsOf[unitOf(path)] ?? {};
  const value = (Number(amount) * (units[unit] ?? 1)) / (units[unitOf(path)] ?? 1);
  return Number.isInteger(value) ? value : raw;
}

function unitOf(path: string): string {
  return path.slice(path.lastIndexOf('_') + 1);
}

/** A value as the environment gave it: text, to be read as the key's type. */
export function fromEnvironment(path: string, schema: KeySchema, text: string): CheckedValue {
  if (schema['x-file-only'] === true) return { fault: 'can only be set in the file' };
  return checkValue(schema, inUnitOf(path, read(schema, text)));
}

function read(schema: Schema, text: string): unknown {
  const { type, anyOf, items } = schema;
  if (type === 'boolean') return text === 'true' ? true : text === 'false' ? false : text;
  const isNumber = type === 'integer' || anyOf?.some((one) => one.type === 'integer');
  if (isNumber === true) return /^-?\d+$/.test(text) ? Number(text) : text;
  if (type !== 'array') return text;
  return text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '')
    .map((item) => (items === undefined ? item : read(items, item)));
}

function show(raw: unknown): string {
  return typeof raw === 'bigint' ? `${raw}` : (JSON.stringify(raw) ?? String(raw));
}

/** The name most like an unknown one, where one is near enough to have been meant. */
export function nearest(unknown: string, known: readonly string[]): string | undefined {
  const limit = Math.max(2, Math.floor(unknown.length / 4));
  let best: string | undefined;
  let bestDistance = limit + 1;
  for (const name of known) {
    const distance = editDistance(unknown.toLowerCase(), name.toLowerCase());
    if (distance < bestDistance) [best, bestDistance] = [name, distance];
  }
  return best;
}

function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(change, (previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    previous = row;
  }
  return previous[b.length] ?? 0;
}
