/**
 * A record as a form: what its fields show of the JSON text, the text after a field was changed, and the faults of the box at their
 * fields. The text is all there is: what the form cannot show stays in it. Pure.
 */
import { type PlacedFaults, type Problem, placedFaults } from '../problem.ts';
import { text } from '../text.ts';
import type { LineFault } from './import-file.ts';
import { elementsOf, isInteger, isNumber, lineOf, membersOf, withMember } from './json-text.ts';
import { objectFault } from './record.ts';
import type { SchemaField } from './schema.ts';

const say = text.data.form;

/** "none": the field, or the value that it has now, is edited as JSON. */
type Control = 'line' | 'date' | 'choice' | 'list' | 'object' | 'none';

/** `raw`: the field's value as JSON; undefined: it has none. */
export function controlOf(field: SchemaField, raw: string | undefined): Control {
  const control = controls[field.kind];
  if (control === 'choice') return control;
  if (control === 'list')
    return field.items !== undefined && (isNone(raw) || linesOf(raw, field.items)) ? control : 'none';
  if (isNone(raw)) return control;
  if (control === 'object') return raw.startsWith('{') ? control : 'none';
  if (control === 'date' && DATE.test(raw)) return control;
  // What was typed and is no number is in the text as a string.
  const isNumeric = field.kind === 'number' || field.kind === 'integer';
  return raw.startsWith('"') || (isNumeric && isNumber(raw)) ? 'line' : 'none';
}

const controls: Readonly<Record<SchemaField['kind'], Control>> = {
  string: 'line',
  number: 'line',
  integer: 'line',
  boolean: 'choice',
  choice: 'choice',
  date: 'date',
  object: 'object',
  json: 'list',
};

const DATE = /^"\d{4}-\d\d-\d\d"$/;

const isNone = (raw: string | undefined): raw is 'null' | undefined => raw === undefined || raw === 'null';

/** What the control shows. */
export function shownOf(field: SchemaField, raw: string | undefined): string {
  if (raw === undefined) return '';
  const control = controlOf(field, raw);
  if (control === 'choice') return JSON.stringify(JSON.parse(raw));
  if (raw === 'null') return '';
  if (control === 'list') return linesOf(raw, field.items)?.join('\n') ?? '';
  return raw.startsWith('"') ? (JSON.parse(raw) as string) : raw;
}

/** The value that was typed or chosen, as JSON; undefined: the field is left out. */
export function rawOf(field: SchemaField, typed: string): string | undefined {
  const { kind, isRequired, items } = field;
  switch (kind) {
    case 'choice':
    case 'boolean':
      return typed === '' ? undefined : typed;
    case 'json': {
      const lines = typed.split('\n').filter((line) => line !== '');
      if (lines.length === 0) return isRequired ? '[]' : undefined;
      return `[${lines.map((line) => scalar(line, items !== 'string')).join(', ')}]`;
    }
    case 'string':
      return typed === '' && !isRequired ? undefined : JSON.stringify(typed);
    default:
      return typed === '' ? undefined : scalar(typed, kind !== 'date');
  }
}

/** No number is lost because it is not one yet: the box, and the field, say what is wrong with it. */
function scalar(typed: string, isForNumber: boolean): string {
  const trimmed = typed.trim();
  return isForNumber && isNumber(trimmed) ? trimmed : JSON.stringify(typed);
}

/** A list as lines, if each of its values is one. */
function linesOf(raw: string, items: SchemaField['items']): readonly string[] | undefined {
  if (!raw.startsWith('[')) return undefined;
  const lines = elementsOf(raw).map((one) => {
    if (!one.startsWith('"')) return items !== 'string' && isNumber(one) ? one : '';
    const line = JSON.parse(one) as string;
    return /[\n\r]/.test(line) ? '' : line;
  });
  // An empty line is no value.
  return lines.includes('') ? undefined : lines;
}

/** The choices of a field, each as JSON with its words. One that the schema does not allow is shown while the record has it. */
export function choicesOf(field: SchemaField, shown: string): readonly (readonly [json: string, words: string])[] {
  const isBoolean = field.kind === 'boolean';
  const given: readonly (readonly [string, string])[] = isBoolean
    ? [
        ['true', say.yes],
        ['false', say.no],
      ]
    : field.choices.map((json) => [json, json.startsWith('"') ? (JSON.parse(json) as string) : json]);
  const isOther = shown !== '' && !given.some(([json]) => json === shown);
  return [['', say.notSet], ...given, ...(isOther ? [[shown, shown] as const] : [])];
}

/** The text of an object after one of its fields was changed. `raw` undefined: the object began with that. */
export function changedObject(raw: string | undefined, { name }: SchemaField, value: string | undefined): string {
  return withMember(raw === undefined || raw === 'null' ? '{}' : raw, name, value);
}

/** An object within an object is left out with its last member. */
export const orNone = (field: SchemaField, object: string): string | undefined =>
  !field.isRequired && membersOf(object).size === 0 ? undefined : object;

/** Members that the schema does not declare. */
export function undeclared(fields: readonly SchemaField[], members: ReadonlyMap<string, string>): readonly string[] {
  return [...members.keys()].filter((name) => !fields.some((field) => field.name === name));
}

/** What the page knows to be wrong before the box is asked; '' if nothing. */
export function faultOf({ kind }: SchemaField, raw: string | undefined): string {
  if (raw === undefined || raw === 'null') return '';
  if (kind === 'integer' && !isInteger(raw)) return text.importing.notInteger(raw.replaceAll('"', ''));
  return kind === 'number' && !isNumber(raw) ? text.importing.notNumber(raw.replaceAll('"', '')) : '';
}

// The faults of the box begin with a JSON pointer.

export const pointerTo = (at: string, name: string): string =>
  `${at}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;

/** `others`: pointers of the form's fields beside those of the data. */
export function formFaults(
  problem: Problem | undefined,
  fields: readonly SchemaField[],
  others: readonly string[],
): PlacedFaults {
  // A name may have a space: the longest that fits is meant.
  const places = [...others, ...pointersOf(fields, '/data')].sort((a, b) => b.length - a.length);
  return placedFaults(problem, (reason) => {
    const [, within = '', name] = /^(.*) must have required property '(.*)'$/.exec(reason) ?? [];
    if (name !== undefined) {
      const place = pointerTo(within, name);
      return places.includes(place) ? { place, words: say.isRequired } : undefined;
    }
    const place = places.find((one) => reason.startsWith(`${one} `) || reason.startsWith(`${one}/`));
    if (place === undefined) return undefined;
    const words = reason.slice(place.length).replace(/^\/(\d+)/, (_, at) => say.item(Number(at) + 1));
    return { place, words: words.trim() };
  });
}

/** Of a name in a pointer; the message behind it is no name. */
const MAX_NAME_WORDS = 10;

const pathOf = (pointer: string): readonly string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));

export interface LinedFaults {
  /** Of the text, by its lines. */
  readonly lines: readonly LineFault[];
  /** Each reason, with its line if it is of the text. */
  readonly problem: Problem | undefined;
}

/** For a text instead of a form. `at`: the pointer to the text in the request. */
export function linedFaults(problem: Problem | undefined, json: string, at: string): LinedFaults {
  if (problem === undefined || problem.reasons.length === 0 || objectFault(json) !== '') return { lines: [], problem };
  const faults = problem.reasons.map((fault) => ({ line: lineAt(json, fault, at), fault }));
  const reasons = faults.map(({ line, fault }) => (line === 0 ? fault : say.atLine(line, fault)));
  // The detail repeats a single reason, or counts them.
  return { lines: faults.filter(({ line }) => line > 0), problem: { ...problem, detail: '', reasons } };
}

/** 0: the reason is of another part of the request. */
function lineAt(json: string, reason: string, at: string): number {
  if (!reason.startsWith(at)) return 0;
  const words = reason.slice(at.length).split(' ').slice(0, MAX_NAME_WORDS);
  // A name may have spaces: the longest that is in the text is meant.
  const lines = words.map((_, last) => lineOf(json, pathOf(words.slice(0, last + 1).join(' '))));
  return (lines.findLast(({ isFound }) => isFound) ?? lines[0])?.line ?? 1;
}

function pointersOf(fields: readonly SchemaField[], at: string): readonly string[] {
  return fields.flatMap(({ name, fields: inner }) => {
    const pointer = pointerTo(at, name);
    return [pointer, ...pointersOf(inner, pointer)];
  });
}
