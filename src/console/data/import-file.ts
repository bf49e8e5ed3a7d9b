/**
 * A file of records as the bundle that the box imports: NDJSON as it is, or CSV by the types of the dictionary's schema. Each fault
 * has the line of the file. Numbers stay letter by letter as in the file. Pure.
 */

import { type Cell, csvRows, separatorOf } from '../../shared/base/csv.ts';
import { text } from '../text.ts';
import { isInteger, isNumber } from './json-text.ts';
import { fieldsOf, type SchemaField } from './schema.ts';

export type ImportFormat = 'csv' | 'ndjson';

export interface ImportTarget {
  readonly dictionary: string;
  readonly schema: unknown;
  readonly format: ImportFormat;
}

export interface LineFault {
  readonly line: number;
  readonly fault: string;
}

export interface ImportItem {
  /** Of the file, from 1. */
  readonly line: number;
  readonly businessKey: string;
  readonly action: 'upsert' | 'close';
  readonly validFrom: string;
  /** JSON; '' with "close". */
  readonly data: string;
}

export interface ImportFile {
  /** Of the bundle, one for each record. */
  readonly lines: readonly string[];
  /** Where each of them begins in the file. */
  readonly lineNumbers: readonly number[];
  readonly first: readonly ImportItem[];
  readonly upserts: number;
  readonly closes: number;
  readonly faults: readonly LineFault[];
}

/** `http.max_import_bytes` of a box that has no other configured. */
export const MAX_IMPORT_BYTES = 64 * 1024 * 1024;
/** The box imports no more at a time. */
const MAX_RECORDS = 100_000;
/** Shown before the import: enough to see that columns and types are right. */
const MAX_FIRST = 10;
/** A file of the wrong kind has one on each line. */
const MAX_FAULTS = 1_000;
/** Between two of them the page can draw. */
const STEP_RECORDS = 2_000;

const say = text.importing;

/** Reads in steps; between them others may use the thread. */
export function* readImport(file: string, target: ImportTarget): Generator<undefined, ImportFile> {
  const collected = new Collected();
  const source = file.replace(/^\uFEFF/, '');
  const found = target.format === 'csv' ? csvItems(source, target) : ndjsonItems(source, target.dictionary);
  for (const one of found) {
    if (collected.add(one)) break;
    if (collected.lines.length % STEP_RECORDS === 0) yield;
  }
  return collected;
}

/** A refusal of the box names lines of the bundle: the same of the file. */
export function faultsInFile(reasons: readonly string[], { lineNumbers }: ImportFile): readonly LineFault[] {
  return reasons.map((reason) => {
    const [, line, fault] = /^line (\d+): (.*)$/s.exec(reason) ?? [];
    const at = lineNumbers[Number(line) - 1];
    // Inside a reason, too: "is in line 3 already".
    const there = (words: string): string =>
      words.replace(/ in line (\d+) already$/, (whole, other) =>
        whole.replace(other, String(lineNumbers[Number(other) - 1] ?? other)),
      );
    return at === undefined ? { line: 0, fault: reason } : { line: at, fault: there(fault ?? '') };
  });
}

type Found = LineFault | (ImportItem & { readonly sent: string });

class Collected implements ImportFile {
  readonly lines: string[] = [];
  readonly lineNumbers: number[] = [];
  readonly first: ImportItem[] = [];
  readonly faults: LineFault[] = [];
  upserts = 0;
  closes = 0;
  readonly #seen = new Map<string, number>();

  /** True: it is enough. */
  add(one: Found): boolean {
    if ('fault' in one) return this.#fault(one.line, one.fault);
    const { sent, ...item } = one;
    const { line, businessKey, action } = item;
    if (businessKey === '') return this.#fault(line, say.noKey);
    const other = this.#seen.get(businessKey);
    if (other !== undefined) return this.#fault(line, say.twice(businessKey, other));
    if (this.lines.length === MAX_RECORDS) {
      this.#fault(line, say.tooMany(MAX_RECORDS));
      return true;
    }
    this.#seen.set(businessKey, line);
    this.lines.push(sent);
    this.lineNumbers.push(line);
    if (this.first.length < MAX_FIRST) this.first.push(item);
    if (action === 'close') this.closes += 1;
    else this.upserts += 1;
    return false;
  }

  #fault(line: number, fault: string): boolean {
    this.faults.push({ line, fault });
    return this.faults.length === MAX_FAULTS;
  }
}

// NDJSON: a line is sent as it is, with the dictionary if it names none.

function* ndjsonItems(source: string, dictionary: string): Generator<Found> {
  let line = 0;
  for (let from = 0; from < source.length; ) {
    const feed = source.indexOf('\n', from);
    const end = feed < 0 ? source.length : feed;
    line += 1;
    const written = source.slice(from, end).trim();
    from = end + 1;
    if (written !== '') yield ndjsonItem(written, line, dictionary);
  }
}

function ndjsonItem(written: string, line: number, dictionary: string): Found {
  const item = parsed(written);
  if (item === undefined) return { line, fault: say.notJson };
  const named = item['dictionary'];
  if (named !== undefined && named !== dictionary) return { line, fault: say.otherDictionary(JSON.stringify(named)) };
  const { businessKey, action = 'upsert', validFrom = '', data } = item;
  if (typeof businessKey !== 'string') return { line, fault: say.noKey };
  if (action !== 'upsert' && action !== 'close') return { line, fault: say.noAction(JSON.stringify(action)) };
  return {
    line,
    businessKey,
    action,
    validFrom: typeof validFrom === 'string' ? validFrom : JSON.stringify(validFrom),
    data: action === 'close' ? '' : JSON.stringify(data ?? null),
    sent: named === undefined ? `{"dictionary":${JSON.stringify(dictionary)},${written.slice(1)}` : written,
  };
}

function parsed(json: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(json);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

// CSV: the first row names the columns.

const OWN = ['businessKey', 'validFrom', 'action'] as const;
type Own = (typeof OWN)[number];

interface Column {
  readonly name: string;
  /** Of the record's data: into objects. */
  readonly path: readonly string[];
  /** undefined: the schema does not name it. */
  readonly field: SchemaField | undefined;
}

function* csvItems(source: string, { dictionary, schema }: ImportTarget): Generator<Found> {
  let columns: readonly Column[] | undefined;
  for (const row of csvRows(source, separatorOf(source))) {
    const { line } = row;
    if ('fault' in row) yield { line, fault: say.csv[row.fault] };
    else if (columns === undefined) {
      columns = row.cells.map(({ text: name }) => columnOf(name.trim(), fieldsOf(schema)));
      const fault = headerFault(columns);
      if (fault !== '') return yield { line, fault };
    } else if (row.cells.length !== columns.length) yield { line, fault: say.cells(row.cells.length, columns.length) };
    else yield* csvItem(row.cells, columns, line, dictionary);
  }
  if (columns === undefined) yield { line: 1, fault: say.noHeader };
}

/** "place.x" is x of the object place, unless the schema names a field so. */
function columnOf(name: string, fields: readonly SchemaField[]): Column {
  const exact = fields.find((one) => one.name === name);
  if (exact !== undefined || !name.includes('.')) return { name, path: [name], field: exact };
  const [first = '', ...rest] = name.split('.');
  const outer = fields.find((one) => one.name === first);
  if (outer?.kind !== 'object') return { name, path: [name], field: undefined };
  const inner = columnOf(rest.join('.'), outer.fields);
  return { name, path: [first, ...inner.path], field: inner.field };
}

function headerFault(columns: readonly Column[]): string {
  const names = columns.map(({ name }) => name);
  const depthOf = (name: string): number => columns.find((one) => one.name === name)?.path.length ?? 0;
  const isWithin = (name: string, other: string): boolean =>
    name.startsWith(`${other}.`) && depthOf(name) > depthOf(other);
  if (names.includes('')) return say.noName;
  if (!names.includes('businessKey')) return say.noKeyColumn;
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) return say.columnTwice(twice);
  const within = names.find((name) => names.some((other) => isWithin(name, other)));
  return within === undefined ? '' : say.columnWithin(within);
}

function* csvItem(
  cells: readonly Cell[],
  columns: readonly Column[],
  line: number,
  dictionary: string,
): Generator<Found> {
  const own: Record<Own, string> = { businessKey: '', validFrom: '', action: '' };
  for (const [at, { name }] of columns.entries()) if (isOwn(name)) own[name] = cells[at]?.text ?? '';
  const { businessKey, validFrom, action } = own;
  if (action === 'close') {
    // A closed record has no data: what its row says of them is left out.
    const sent = JSON.stringify({ dictionary, businessKey, action });
    yield { line, businessKey, action, validFrom: '', data: '', sent };
    return;
  }
  const { json, faults } = csvData(cells, columns);
  if (action !== '' && action !== 'upsert') faults.push(say.noAction(JSON.stringify(action)));
  if (faults.length > 0) {
    for (const fault of faults) yield { line, fault };
    return;
  }
  const head = JSON.stringify({ dictionary, businessKey, ...(validFrom !== '' && { validFrom }) }).slice(0, -1);
  yield { line, businessKey, action: 'upsert', validFrom, data: json, sent: `${head},"data":${json}}` };
}

/** An empty cell is no value, one with only quotation marks an empty text. */
function csvData(cells: readonly Cell[], columns: readonly Column[]): { readonly json: string; faults: string[] } {
  const data: JsonTree = new Map();
  const faults: string[] = [];
  for (const [at, { name, path, field }] of columns.entries()) {
    const { text: cell, isQuoted } = cells[at] ?? { text: '', isQuoted: false };
    if (isOwn(name) || (cell === '' && !isQuoted)) continue;
    const value = jsonOf(cell, field);
    if ('fault' in value) faults.push(`${name}: ${value.fault}`);
    else put(data, path, value.json);
  }
  return { json: jsonText(data), faults };
}

const isOwn = (name: string): name is Own => OWN.some((one) => one === name);

/** The value of a cell, as JSON by the type of its field. */
function jsonOf(cell: string, field: SchemaField | undefined): { readonly json: string } | { readonly fault: string } {
  switch (field?.kind) {
    case 'number':
      return isNumber(cell) ? { json: cell } : { fault: say.notNumber(cell) };
    case 'integer':
      return isInteger(cell) ? { json: cell } : { fault: say.notInteger(cell) };
    case 'boolean':
      return /^(?:true|false)$/i.test(cell) ? { json: cell.toLowerCase() } : { fault: say.notBoolean(cell) };
    case 'choice': {
      const json = field.choices.find((choice) => choice === cell || choice === JSON.stringify(cell));
      return json === undefined ? { fault: say.notChoice(cell, field.choices.slice(0, 10).join(', ')) } : { json };
    }
    case 'object':
    case 'json':
      return isJson(cell) ? { json: cell } : { fault: say.notJsonCell(cell) };
    default:
      return { json: JSON.stringify(cell) };
  }
}

function isJson(cell: string): boolean {
  try {
    JSON.parse(cell);
    return true;
  } catch {
    return false;
  }
}

/** Leaves are JSON. No object: a column may be called "__proto__". */
type JsonTree = Map<string, JsonTree | string>;

function put(tree: JsonTree, [name = '', ...rest]: readonly string[], json: string): void {
  if (rest.length === 0) {
    tree.set(name, json);
    return;
  }
  const inner = tree.get(name);
  const within: JsonTree = inner instanceof Map ? inner : new Map();
  tree.set(name, within);
  put(within, rest, json);
}

function jsonText(tree: JsonTree | string): string {
  if (typeof tree === 'string') return tree;
  return `{${[...tree].map(([name, inner]) => `${JSON.stringify(name)}:${jsonText(inner)}`).join(',')}}`;
}
