/** record: the records of a dictionary, now, at a time, and through their history. */
import { type Command, Option } from 'commander';
import { FAR_FUTURE } from '../../shared/base/instant.ts';
import { Fields } from '../connection/answers.ts';
import { apiPath, type Hub } from '../connection/hub-client.ts';
import { CliFailure, exitStatus } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { type Json, type JsonObject, jsonLine, shownJson } from '../output/json.ts';
import { wholeNumber } from '../output/numbers.ts';
import { labelledWrapped } from '../output/table.ts';
import type { HubCall, Shell } from '../shell.ts';
import { dataArgument } from './json-input.ts';
import { showList } from './listing.ts';
import {
  instantArgument,
  type ReasonOption,
  reasonField,
  tell,
  timeText,
  wholeList,
  withLimit,
  withReason,
} from './refdata-options.ts';

/** A page of the largest records is 26 MB. */
const pageSize = 100;
/** Versions since the one that was meant that are shown after a 412. */
const toldVersions = 10;

interface ReadOptions {
  readonly at?: string;
  readonly limit?: number;
}
interface WriteOptions extends ReasonOption {
  readonly validFrom?: string;
  readonly version?: number;
}

export function addRecord(program: Command, shell: Shell): void {
  const command = program
    .command('record')
    .description('records of a dictionary: list, get, create, update, close, history')
    .addHelpText(
      'after',
      '\nDATA is a JSON object: as text, @FILE, or - for standard input.\n\nExamples:\n  lineside record create pumps P-101 \'{"name": "Feed pump", "kw": 7.5}\' --reason "new on site"\n  lineside record get pumps P-101 --json | jq .data\n  lineside record get pumps P-101 --at 2d\n  lineside record update pumps P-101 @p101.json --version 3\n  lineside record history pumps P-101\n',
    );
  addReading(command, shell);
  addWriting(command, shell);
}

function addReading(record: Command, shell: Shell): void {
  const list = record
    .command('list')
    .argument('<dict>', 'name of the dictionary')
    .description('list the records that are valid, by key');
  shell.hub<ReadOptions>(withLimit(withAt(list), 'all'), {
    what: ([dict = '']) => `cannot list the records of ${safeText(dict)}`,
    run: listRecords,
  });
  shell.hub<ReadOptions>(
    withAt(
      record
        .command('get')
        .argument('<dict>', 'name of the dictionary')
        .argument('<key>', 'business key of the record')
        .description('show a record'),
    ),
    {
      what: aboutRecord('read'),
      run: getRecord,
    },
  );
  const history = record
    .command('history')
    .argument('<dict>', 'name of the dictionary')
    .argument('<key>', 'business key of the record')
    .description('list all versions of a record, newest first');
  shell.hub<ReadOptions>(withLimit(history, 'all'), { what: aboutRecord('read the history of'), run: showHistory });
}

function addWriting(record: Command, shell: Shell): void {
  const create = record
    .command('create')
    .argument('<dict>', 'name of the dictionary')
    .argument('<key>', 'business key of the record')
    .argument('<data>', 'JSON object: as text, @FILE, or - for standard input')
    .description('create a record, or open a closed one again')
    .addOption(validFromOption());
  shell.hub<WriteOptions>(withReason(create), { what: aboutRecord('create'), run: createRecord });
  const update = record
    .command('update')
    .argument('<dict>', 'name of the dictionary')
    .argument('<key>', 'business key of the record')
    .argument('<data>', 'JSON object: as text, @FILE, or - for standard input')
    .description('write a new version of a record: the whole data')
    .addOption(versionOption())
    .addOption(validFromOption());
  shell.hub<WriteOptions>(withReason(update), { what: aboutRecord('update'), run: updateRecord });
  const close = record
    .command('close')
    .argument('<dict>', 'name of the dictionary')
    .argument('<key>', 'business key of the record')
    .description('close a record: it is valid no longer, its history stays')
    .addOption(versionOption());
  shell.hub<WriteOptions>(withReason(close), { what: aboutRecord('close'), run: closeRecord });
}

function withAt(command: Command): Command {
  return command.option('--at <time>', 'as it was valid then: RFC 3339, or an age as 10m, 2h, 7d');
}

function validFromOption(): Option {
  return new Option('--valid-from <time>', 'when it begins to be so, past or future: RFC 3339 (default: now)');
}

function versionOption(): Option {
  return new Option('--version <n>', 'only if this is its version now (default: whatever it is)').argParser(
    wholeNumber(1, Number.MAX_SAFE_INTEGER),
  );
}

function aboutRecord(verb: string) {
  return ([dict = '', key = '']: readonly string[]): string =>
    `cannot ${verb} record ${safeText(key)} of ${safeText(dict)}`;
}

function recordPath(dict: string, key: string, ...more: readonly string[]): string {
  return apiPath('dictionaries', dict, 'records', key, ...more);
}

async function listRecords(call: HubCall<ReadOptions>, [dict = '']: readonly string[]): Promise<number> {
  const hub = await call.hub();
  const path = apiPath('dictionaries', dict, 'records');
  const pages = hub.pages(path, atQuery(call), pageSize, call.options.limit ?? wholeList);
  return showList(call, pages, { heading: ['KEY', 'VERSION', 'DATA'], row: recordRow, none: 'there are no records' });
}

function recordRow(raw: JsonObject): string[] {
  const record = recordFields(raw);
  return [safeText(record.text('businessKey')), String(record.number('version')), shownJson(record.object('data').raw)];
}

async function getRecord(call: HubCall<ReadOptions>, [dict = '', key = '']: readonly string[]): Promise<number> {
  const hub = await call.hub();
  const raw = await hub.get(recordPath(dict, key), atQuery(call));
  const text = recordText(recordFields(raw), call.out.width);
  await call.out.write(call.json ? jsonLine(raw) : text);
  return exitStatus.ok;
}

function atQuery({ options, io }: HubCall<ReadOptions>): { at?: string } {
  return options.at === undefined ? {} : { at: instantArgument(options.at, io.clock.wallMs()) };
}

async function showHistory(call: HubCall<ReadOptions>, [dict = '', key = '']: readonly string[]): Promise<number> {
  const hub = await call.hub();
  const pages = hub.pages(recordPath(dict, key, 'history'), {}, pageSize, call.options.limit ?? wholeList);
  const heading = ['VERSION', 'CHANGE', 'VALID', 'DATA'];
  return showList(call, pages, { heading, row: versionRow, none: 'there are no versions' });
}

function versionRow(raw: JsonObject): string[] {
  const record = recordFields(raw);
  const data = shownJson(record.object('data').raw);
  return [String(record.number('version')), changeText(record), validText(record), data];
}

async function createRecord(
  call: HubCall<WriteOptions>,
  [dict = '', key = '', text = '']: readonly string[],
): Promise<number> {
  const fields = await changeFields(call, text);
  const hub = await call.hub();
  const raw = await hub.write('POST', apiPath('dictionaries', dict, 'records'), { businessKey: key, ...fields });
  const made = recordFields(raw).number('version');
  await tell(call, raw, `created ${safeText(key)}${made === 1 ? '' : ` again, as version ${made}`}`);
  return exitStatus.ok;
}

async function updateRecord(
  call: HubCall<WriteOptions>,
  [dict = '', key = '', text = '']: readonly string[],
): Promise<number> {
  const fields = await changeFields(call, text);
  return writeVersion(call, dict, key, 'updated', (hub, ifMatch) =>
    hub.write('PUT', recordPath(dict, key), fields, ifMatch),
  );
}

async function closeRecord(call: HubCall<WriteOptions>, [dict = '', key = '']: readonly string[]): Promise<number> {
  return writeVersion(call, dict, key, 'closed', (hub, ifMatch) =>
    hub.write('POST', recordPath(dict, key, 'close'), reasonField(call.options), ifMatch),
  );
}

async function changeFields(call: HubCall<WriteOptions>, text: string): Promise<JsonObject> {
  const { validFrom } = call.options;
  const data = await dataArgument(call, text);
  const valid = validFrom === undefined ? {} : { validFrom: instantArgument(validFrom, call.io.clock.wallMs()) };
  return { data, ...valid, ...reasonField(call.options) };
}

type IfMatch = Readonly<Record<'if-match', string>>;

/** A write that names the version it is meant for: the one that was given, or the one that is there now. */
async function writeVersion(
  call: HubCall<WriteOptions>,
  dict: string,
  key: string,
  done: string,
  write: (hub: Hub, ifMatch: IfMatch) => Promise<JsonObject>,
): Promise<number> {
  const hub = await call.hub();
  const meant = call.options.version === undefined ? await newest(hub, recordPath(dict, key, 'history')) : undefined;
  const from = meant?.number('version') ?? call.options.version ?? 0;
  try {
    const raw = await write(hub, { 'if-match': `"${from}"` });
    const to = recordFields(raw).number('version');
    const text = `${done} ${safeText(key)}: version ${to}, after version ${from}`;
    await tell(call, raw, text + overtaken(meant, call.io.clock.wallMs()));
    return exitStatus.ok;
  } catch (error) {
    throw error instanceof CliFailure && error.code === 'STALE_VERSION'
      ? await staleFailure(hub, recordPath(dict, key, 'history'), from, error)
      : error;
  }
}

/** The newest version, which is what a write names; not the one that is valid now: a later one may be waiting for its time. */
async function newest(hub: Hub, history: string): Promise<Fields> {
  for await (const [version] of hub.pages(history, {}, 1, 1)) if (version !== undefined) return recordFields(version);
  throw new CliFailure({ status: exitStatus.nothing, code: 'NOT_FOUND', why: 'it has no versions' });
}

/** A version that was waiting for its time is overtaken by a newer one, unnoticed. */
function overtaken(before: Fields | undefined, nowMs: number): string {
  const begin = before?.text('validFrom') ?? '';
  if (before === undefined || !(Date.parse(begin) > nowMs)) return '';
  return `, which was to be valid from ${timeText(begin)} on and may never be now`;
}

/** What happened to the record since the version that was meant, as its history tells. */
async function staleFailure(hub: Hub, history: string, from: number, stale: CliFailure): Promise<CliFailure> {
  const versions: Fields[] = [];
  try {
    for await (const page of hub.pages(history, {}, toldVersions + 1, toldVersions + 1)) {
      versions.push(...page.map(recordFields));
    }
    const now = versions[0]?.number('version') ?? 0;
    return new CliFailure({
      status: stale.status,
      code: stale.code,
      why:
        now > from
          ? `it is not at version ${from} any more, but at ${now}`
          : `it never was at version ${from}; it is at ${now}`,
      next: `Nothing was written. If it is still right: the same command with --version ${now}.`,
      reasons: versions
        .filter((version) => version.number('version') > from)
        .map((version) => sinceText(version, versions)),
      cause: stale,
    });
  } catch {
    // The history would only have explained it.
    return stale;
  }
}

function sinceText(version: Fields, versions: readonly Fields[]): string {
  const number = version.number('version');
  const before = versions.find((other) => other.number('version') === number - 1);
  const names = before === undefined ? [] : changedFields(before.object('data').raw, version.object('data').raw);
  const what = names.length === 0 ? '' : ` (changed: ${names.map(safeText).join(', ')})`;
  return `version ${number}: ${changeText(version)}${what}`;
}

// Records and their versions for people.

function recordFields(raw: JsonObject): Fields {
  return new Fields(raw, 'the record');
}

function recordText(record: Fields, width: number): string {
  const rows: (readonly [string, string])[] = [
    ['Record', `${safeText(record.text('businessKey'))} of ${safeText(record.text('dictionary'))}`],
    ['Version', `${record.number('version')}, ${changeText(record)}`],
    ['Valid', validText(record)],
    ['Data', ''],
  ];
  return `${labelledWrapped(rows, width)}${shownJson(record.object('data').raw, 2)}\n`;
}

/** updated by anna at 2026-03-01 09:30:00: new motor */
function changeText(record: Fields): string {
  const reason = record.textOr('changeReason', '');
  const done = `${safeText(record.text('action'))} by ${safeText(record.text('changedBy'))}`;
  return `${done} at ${timeText(record.text('txTime'))}${reason === '' ? '' : `: ${safeText(reason)}`}`;
}

function validText(record: Fields): string {
  const to = record.text('validTo');
  return `from ${timeText(record.text('validFrom'))}${to === FAR_FUTURE ? '' : ` to ${timeText(to)}`}`;
}

/** Names of the fields whose values differ, on either side. */
function changedFields(before: JsonObject, after: JsonObject): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].filter((name) => !sameJson(before[name], after[name]));
}

/** The order of an object's names says nothing. */
function sameJson(a: Json | undefined, b: Json | undefined): boolean {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [left, right] = [Object.entries(a), new Map(Object.entries(b))];
  return (
    left.length === right.size && left.every(([name, value]) => right.has(name) && sameJson(value, right.get(name)))
  );
}
