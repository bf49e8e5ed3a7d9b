/**
 * A command of the hub described as data: the request it makes of its arguments and options, and how the answer is shown:
 * a list with columns, rows with labels, or one line. `--json` prints the answer as it came.
 */

import { Option } from 'commander';
import { instantOfMs, parseInstant } from '../../shared/base/instant.ts';
import { shownJson } from '../../shared/base/shown-json.ts';
import { type ArgumentSpec, bareName, type Entry, type Filling, option } from '../command.ts';
import { Fields } from '../connection/answers.ts';
import { apiPath, type Query } from '../connection/hub-client.ts';
import { exitStatus, usageFailure } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { type Json, type JsonObject, jsonLine } from '../output/json.ts';
import { localTime, parseWhen, wholeNumber } from '../output/numbers.ts';
import { labelledWrapped, type Row, table } from '../output/table.ts';
import type { Args, Call } from '../shell.ts';

export interface HubCommand extends Omit<Entry, 'on' | 'run'> {
  /** 'POST dictionaries/<name>/drafts': method and path below /api/v1, arguments in their places. */
  readonly request?: string;
  /** Fields of the body that are always the same. */
  readonly body?: JsonObject;
  /** A change must have a field: what to give, when there is none. */
  readonly changes?: string;
  /** The name of an answer's object, for the failure when it is not as expected: "the record". */
  readonly item?: string;
  /** A list: the columns of an item, and what is said of none. */
  readonly columns?: Cells;
  readonly none?: string;
  readonly pageSize?: number;
  /** The list takes --limit: so many items are listed without it. */
  readonly usualLimit?: number;
  /** An object: its rows, and the field that is printed below them as JSON. */
  readonly rows?: Cells | ((item: Fields) => readonly Row[]);
  readonly json?: string;
  /** A write: one line, with {fields} of the answer and <arguments> in their places. */
  readonly done?: Cell;
  /** Instead of all that. `fields` are those of the request. */
  answer?(call: Call<object>, target: Target, fields: JsonObject, args: Args): Promise<number>;
}

/**
 * A cell or row: a template with {fields} of the answer, '{version}, by {changedBy} at {updatedAt:time}', or made by a
 * function.
 */
type Cell = string | ((item: Fields) => string);
export type Cells = Readonly<Record<string, Cell>>;

/** '{id} of <name>': fields of the answer and arguments in their places, safe on a terminal. */
function cellText(cell: Cell, item: Fields, args: Args = {}): string {
  if (typeof cell === 'function') return cell(item);
  return cell.replace(/<(\w+)>|\{(\w+)(?::(\w+))?\}/g, (_, argument?: string, field = '', form?: string) => {
    if (argument !== undefined) return safeText(args[argument] ?? '');
    if (form === 'time') return timeText(item.text(field));
    return form === 'json' ? shownJson(item.object(field).raw) : safeText(item.shown(field));
  });
}

function cellsOf(cells: Cells, item: Fields): readonly Row[] {
  return Object.entries(cells).map(([label, cell]) => [label, cellText(cell, item)]);
}

/** An instant for people: local time to the second, or as it is if it is none. */
export function timeText(instant: string): string {
  const ms = Date.parse(instant);
  if (Number.isNaN(ms)) return safeText(instant);
  const { date, time } = localTime(ms);
  return `${date} ${time.replace(/\.\d+$/, '')}`;
}

/** Far more than a list on one box holds: the whole of it. */
export const wholeList = 1_000_000_000;

export function hubCommands(specs: readonly HubCommand[]): readonly Entry[] {
  return specs.map((spec) => (spec.request === undefined && spec.answer === undefined ? spec : runnable(spec)));
}

function runnable(spec: HubCommand): Entry {
  const { options = [], columns, none = '', pageSize = wholeList, item = '', usualLimit } = spec;
  const run = async (call: Call<object>, args: Args): Promise<number> => {
    const fields = await fieldsOf(spec, call, args);
    const to = target(spec, args);
    if (spec.answer !== undefined) return spec.answer(call, to, fields, args);
    if (columns === undefined) return exchange(spec, call, to, fields, args);
    return list(call, to[1], fields, { columns, none, pageSize, item, usualLimit: usualLimit ?? wholeList });
  };
  const limit = usualLimit === undefined ? [] : [limitOption(usualLimit)];
  const pages = columns === undefined ? {} : { pages: () => true };
  return { ...spec, ...pages, options: [...options, ...limit], on: 'hub', run };
}

export function limitOption(usual: number) {
  const help = `at most so many (default: ${usual === wholeList ? 'all' : usual})`;
  return option('--limit <n>', help, { parse: wholeNumber(1, wholeList) });
}

export type Target = readonly [method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE', path: string];

function target({ request = '' }: HubCommand, args: Args): Target {
  const [method = '', path = ''] = request.split(' ');
  const parts = path.split('/').map((part) => (part.startsWith('<') ? (args[part.slice(1, -1)] ?? '') : part));
  return [method as 'GET', apiPath(...parts)];
}

/** Fields that alone change nothing. */
const accompanying = new Set(['changeReason', 'confirmWidening', 'if-match']);

/** What the request says. Two options for one field exclude each other. */
async function fieldsOf(spec: HubCommand, call: Call<object>, args: Args): Promise<JsonObject> {
  const fields: Record<string, Json> = { ...spec.body };
  const filledBy = new Map<string, string>();
  const fill = async ({ field, value }: Filling, name: string, given: unknown): Promise<void> => {
    if (field === undefined || given === undefined) return;
    const other = filledBy.get(field);
    if (other !== undefined) throw usageFailure(`${other} and ${name} exclude each other`, 'Give one of them.');
    filledBy.set(field, name);
    fields[field] = (value === undefined ? given : await value(given as never, call)) as Json;
  };
  for (const argument of spec.arguments ?? []) await fill(argument, argument.name, args[bareName(argument.name)]);
  const options = call.options as unknown as Readonly<Record<string, unknown>>;
  for (const option of spec.options ?? []) {
    await fill(option, option.flags.split(' ')[0] ?? '', options[new Option(option.flags).attributeName()]);
  }
  if (spec.changes !== undefined && Object.keys(fields).every((field) => accompanying.has(field)))
    throw usageFailure('there is nothing to change', spec.changes);
  return fields;
}

/** One request, and its answer as the entry says. */
async function exchange(spec: HubCommand, call: Call<object>, to: Target, fields: JsonObject, args: Args) {
  const raw = await ask(call, to, fields);
  const { done, json: block, rows = {}, item: name = '' } = spec;
  const item = new Fields(raw, name);
  if (done !== undefined) return call.print(raw, cellText(done, item, args));
  const below = block === undefined ? undefined : item.objectOr(block, undefined);
  const shown = typeof rows === 'function' ? rows(item) : cellsOf(rows, item);
  const lines = labelledWrapped(shown, call.out.width);
  return call.print(raw, `${lines}${below === undefined ? '' : shownJson(below.raw, 2)}`);
}

/** The request; `fields` are its query, its body or, for "if-match" and the reason of a DELETE, its headers. */
export async function ask(call: Call<object>, [method, path]: Target, fields: JsonObject): Promise<JsonObject> {
  const { 'if-match': version, ...body } = fields;
  const hub = await call.hub();
  if (method === 'GET') return hub.get(path, body as Query);
  const ifMatch: Record<string, string> = version === undefined ? {} : { 'if-match': `"${version as number}"` };
  return hub.write(method, path, body, method === 'DELETE' ? reasonHeader(body['changeReason']) : ifMatch);
}

type Listing = Required<Pick<HubCommand, 'columns' | 'none' | 'pageSize' | 'item' | 'usualLimit'>>;

/** Writes each page as it comes: a table for people, an object a line for scripts. */
export async function list(call: Call<{ limit?: number }>, path: string, query: JsonObject, listing: Listing) {
  const { columns, none, pageSize, item, usualLimit } = listing;
  const heading = Object.keys(columns);
  const hub = await call.hub();
  let shown = 0;
  for await (const items of hub.pages(path, query as Query, pageSize, call.options.limit ?? usualLimit)) {
    // The rows are read for scripts too: they are not handed an answer that is not lineside's.
    const rows = items.map((raw) => cellsOf(columns, new Fields(raw, item)).map(([, value]) => value));
    const lines = table(heading, rows, call.out.width);
    if (call.json) await call.out.write(items.map((raw) => jsonLine(raw)).join(''));
    else if (rows.length > 0) await call.out.write(shown === 0 ? lines : lines.slice(lines.indexOf('\n') + 1));
    shown += items.length;
  }
  if (shown === 0 && !call.json) await call.out.write(`${none}\n`);
  return exitStatus.ok;
}

// Arguments and options that several commands of the hub have.

export const reason = option('--reason <text>', 'why; kept with the change and sent to consumers', {
  field: 'changeReason',
});
export const auditReason = option('--reason <text>', 'why; kept in the audit', { field: 'changeReason' });
const anyVersion = wholeNumber(1, Number.MAX_SAFE_INTEGER);
export const version = option('--version <n>', 'only if this is its version now (default: whatever it is)', {
  parse: anyVersion,
  field: 'if-match',
});
export const scopes = ['PUBLIC', 'INTERNAL', 'RESTRICTED'];
export const scopeOf = (text: string): string => oneOf(scopes, text.toUpperCase(), text, 'scope');

/** Digits only. */
export function numberArgument(help: string): ArgumentSpec {
  return { name: '<id>', help, parse: (text) => String(anyVersion(text)) };
}

/** A word of a few; `typed` is what was given for it, `shown` how the words are typed. */
export function oneOf(known: readonly string[], word: string, typed: string, kind: string, shown = known): string {
  if (known.includes(word)) return word;
  throw usageFailure(`"${safeText(typed)}" is no ${kind}`, `Known are ${shown.join(', ')}.`);
}

/** The parser of an option that may be given several times. */
export function several(parse: (text: string) => string) {
  return (text: string, before: readonly string[] | undefined): readonly string[] => [...(before ?? []), parse(text)];
}

/** RFC 3339 or an age, as the interface takes it; microseconds are kept. */
export function instant(text: string, { io }: Call<object>): string {
  return parseInstant(text.replace(' ', 'T')) ?? instantOfMs(parseWhen(text, io.clock.wallMs()));
}

/** The reason of a request without a JSON body: its bytes are read as UTF-8; Node takes a header's as Latin-1. */
export function reasonHeader(reason: unknown): Record<string, string> {
  if (typeof reason !== 'string') return {};
  if (/\p{Cc}/u.test(reason)) throw usageFailure('this reason is one line, with no control characters');
  return { 'x-change-reason': Buffer.from(reason, 'utf8').toString('latin1') };
}
