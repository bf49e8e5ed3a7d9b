/**
 * The fields of a dictionary's records, as its JSON Schema declares them: columns of a table, fields of a form, types of an import.
 * A schema comes from users: what this file does not understand is a field of kind "json". Pure.
 */
import { instantText } from '../format.ts';
import { text } from '../text.ts';

type FieldKind = 'string' | 'number' | 'integer' | 'boolean' | 'choice' | 'date' | 'object' | 'json';

type ItemKind = 'string' | 'number' | 'integer';

export interface SchemaField {
  readonly name: string;
  readonly label: string;
  readonly hint: string;
  readonly kind: FieldKind;
  readonly isRequired: boolean;
  /** Of "choice": each as JSON. */
  readonly choices: readonly string[];
  /** Of "object". */
  readonly fields: readonly SchemaField[];
  /** Of "json": the field is a list of these, and of nothing else. */
  readonly items: ItemKind | undefined;
}

type Json = Readonly<Record<string, unknown>>;

/** Objects within objects; deeper ones are shown and edited as JSON. */
const MAX_DEPTH = 3;
/** Of one object: a form of more is no help. The rest is edited as JSON. */
const MAX_FIELDS = 100;
/** A reference may lead to a reference, or in a circle. */
const MAX_REFERENCES = 8;
/** A longer list is typed. */
const MAX_CHOICES = 200;
/** More do not fit a desk's screen: the record shows the others. */
const MAX_COLUMNS = 8;

/** `[]`: the schema declares none, or there is no schema. */
export function fieldsOf(schema: unknown): readonly SchemaField[] {
  return fieldsWithin(schema, schema, 1);
}

function fieldsWithin(schema: unknown, root: unknown, depth: number): readonly SchemaField[] {
  const { properties, required } = resolved(schema, root);
  const needed = new Set(Array.isArray(required) ? required : []);
  return Object.entries(objectOf(properties))
    .slice(0, MAX_FIELDS)
    .map(([name, of]) => fieldOf(name, resolved(of, root), needed.has(name), root, depth));
}

function fieldOf(name: string, of: Json, isRequired: boolean, root: unknown, depth: number): SchemaField {
  const kind = kindOf(of, depth);
  return {
    name,
    label: textOr(of['title'], name),
    hint: [sentence(textOr(of['description'], '')), limitsOf(of)].filter((part) => part !== '').join(' '),
    kind,
    isRequired,
    choices: kind === 'choice' ? (of['enum'] as unknown[]).map((one) => JSON.stringify(one)) : [],
    fields: kind === 'object' ? fieldsWithin(of, root, depth + 1) : [],
    items: kind === 'json' && typeOf(of['type']) === 'array' ? itemKindOf(resolved(of['items'], root)) : undefined,
  };
}

function itemKindOf(of: Json): ItemKind | undefined {
  const type = of['type'];
  return type === 'string' || type === 'number' || type === 'integer' ? type : undefined;
}

/** Descriptions often lack their full stop, and another sentence follows. */
function sentence(text: string): string {
  return text === '' || /[.!?:]$/.test(text) ? text : `${text}.`;
}

/** What the box allows, as a sentence; '' if the schema has no limit. */
function limitsOf(of: Json): string {
  const limits = Object.entries(text.data.form.limits).flatMap(([keyword, words]) => {
    const value = of[keyword];
    return typeof value === 'number' || typeof value === 'string' ? [words(String(value))] : [];
  });
  return limits.length === 0 ? '' : text.data.form.allowed(limits.join(', '));
}

function kindOf(of: Json, depth: number): FieldKind {
  const choices = of['enum'];
  if (Array.isArray(choices)) return choices.length > 0 && choices.length <= MAX_CHOICES ? 'choice' : 'json';
  const type = typeOf(of['type']);
  switch (type) {
    case 'string':
      return of['format'] === 'date' ? 'date' : 'string';
    case 'number':
    case 'integer':
    case 'boolean':
      return type;
    case 'object':
      return depth < MAX_DEPTH && Object.keys(objectOf(of['properties'])).length > 0 ? 'object' : 'json';
    default:
      return 'json';
  }
}

/** One type, or one type or null. */
function typeOf(type: unknown): unknown {
  if (!Array.isArray(type)) return type;
  const others = type.filter((one) => one !== 'null');
  return others.length === 1 ? others[0] : undefined;
}

function resolved(schema: unknown, root: unknown): Json {
  let found = schema;
  for (let steps = 0; steps <= MAX_REFERENCES; steps += 1) {
    const of = objectOf(found);
    const reference = of['$ref'];
    if (typeof reference !== 'string' || !reference.startsWith('#/')) return of;
    found = reference
      .slice(2)
      .split('/')
      .reduce<unknown>((at, part) => own(at, unescaped(part)), root);
  }
  return {};
}

const unescaped = (part: string): string => part.replaceAll('~1', '/').replaceAll('~0', '~');

/** Never of a prototype: a property may be called "constructor". */
function own(of: unknown, name: string): unknown {
  return Object.hasOwn(objectOf(of), name) ? objectOf(of)[name] : undefined;
}

function objectOf(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

const textOr = (value: unknown, otherwise: string): string =>
  typeof value === 'string' && value !== '' ? value : otherwise;

// As columns of a table.

export interface RecordColumn {
  readonly head: string;
  readonly isNumber: boolean;
  readonly cell: (data: unknown) => string;
}

/** `taken`: heads of other columns of the table. */
export function recordColumns(schema: unknown, taken: readonly string[]): readonly RecordColumn[] {
  const heads = new Set(taken);
  return fieldsOf(schema)
    .slice(0, MAX_COLUMNS)
    .map(({ name, label, kind }) => {
      // Titles may be equal; names are not.
      const head = [label, name, `${label} (${name})`].find((one) => !heads.has(one)) ?? `${name} `;
      heads.add(head);
      return { head, isNumber: kind === 'number' || kind === 'integer', cell: (data) => cellText(own(data, name)) };
    });
}

const WHOLE_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d/;
/** A long value is cut in its cell: the record shows it whole. */
const MAX_CELL_CHARS = 80;

function cellText(value: unknown): string {
  if (value === undefined || value === null) return '';
  if (typeof value === 'string' && WHOLE_TIME.test(value)) return instantText(value);
  return cut(typeof value === 'string' ? value : JSON.stringify(value));
}

/** Of a record without a schema: each value with its name. */
export function wholeText(data: Readonly<Record<string, unknown>>): string {
  return cut(
    Object.entries(data)
      .map(([name, value]) => `${name}: ${cellText(value)}`)
      .join(', '),
  );
}

function cut(shown: string): string {
  return shown.length > MAX_CELL_CHARS ? `${shown.slice(0, MAX_CELL_CHARS)}…` : shown;
}
