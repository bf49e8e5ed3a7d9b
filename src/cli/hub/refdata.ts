/**
 * dict: the dictionaries of the reference data, and their schema drafts from draft through review to publication.
 * record: the records of a dictionary, now, at a time, and through their history.
 */
import { FAR_FUTURE } from '../../shared/base/instant.ts';
import { sameJson } from '../../shared/base/json.ts';
import { type ArgumentSpec, option } from '../command.ts';
import { Fields } from '../connection/answers.ts';
import { apiPath } from '../connection/hub-client.ts';
import { CliFailure } from '../failure.ts';
import { dataArgument, jsonOfFile } from '../input.ts';
import { safeText } from '../output/hex.ts';
import type { JsonObject } from '../output/json.ts';
import type { Args, Call } from '../shell.ts';
import {
  ask,
  type HubCommand,
  hubCommands,
  instant,
  numberArgument,
  reason,
  scopeOf,
  scopes,
  type Target,
  timeText,
  version,
  wholeList,
} from './hub-command.ts';

/** A page of dictionaries or drafts with the largest schemas is 7 MB, of the largest records 26 MB. */
const pageSize = 100;

const newName = { name: '<name>', help: 'name of the dictionary' } as const;
const name: ArgumentSpec = { ...newName, completes: 'dictionaries' };
const draftId = numberArgument('number of the draft');
const title = { ...option('--title <text>', 'what it is, for people'), field: 'title' };
const scope = {
  ...option('--scope <scope>', 'who may see it: PUBLIC, INTERNAL or RESTRICTED', { choices: scopes }),
  parse: scopeOf,
  field: 'scope',
};
/** false: --no-schema. */
const schema = (help: string, more?: { readonly required: true }) => ({
  ...option('--schema <file>', `JSON Schema of the data${help}`, more),
  field: 'schema',
  value: (file: string | false, call: Call<object>) => (file === false ? null : jsonOfFile(call, file)),
});

const dictionary = { item: 'the dictionary' };
const draft = { item: 'the draft' };

/** The steps of a draft: the route's last part, and what is sent to it. */
function step(word: string, help: string, route: string, verb = word, body = {}): HubCommand {
  return {
    command: `dict draft ${word}`,
    help,
    arguments: [name, draftId],
    options: [reason],
    what: `${verb} draft <id> of <name>`,
    request: `POST dictionaries/<name>/drafts/<id>/${route}`,
    body,
    ...draft,
    done: 'draft {id} of <name>: {state}',
  };
}

export const dictionaryCommands = hubCommands([
  {
    command: 'dict',
    help: 'dictionaries: list, show, create, update; schema drafts',
    examples: [
      'lineside dict create pumps --title "Pumps of the site" --scope PUBLIC --schema pumps.schema.json',
      'lineside dict list',
      'lineside dict show pumps --json | jq .schema',
      'lineside dict draft create pumps --schema pumps.next.json --reason "adds the year"',
    ],
  },
  {
    command: 'dict list',
    help: 'list the dictionaries that you may see',
    what: 'list the dictionaries',
    request: 'GET dictionaries',
    ...dictionary,
    pageSize,
    columns: { NAME: '{name}', SCOPE: '{scope}', VERSION: '{version}', TITLE: '{title}' },
    none: 'there are no dictionaries that you may see',
  },
  {
    command: 'dict show',
    help: 'show a dictionary with its schema',
    arguments: [name],
    what: 'show dictionary <name>',
    request: 'GET dictionaries/<name>',
    ...dictionary,
    rows: {
      Dictionary: '{name}',
      Title: '{title}',
      Scope: '{scope}',
      Version: '{version}, by {changedBy} at {updatedAt:time}',
      Schema: (item) => (item.objectOr('schema', undefined) === undefined ? 'none: any object is taken' : ''),
    },
    json: 'schema',
  },
  {
    command: 'dict create',
    help: 'create a dictionary; its name never changes',
    arguments: [{ ...newName, field: 'name' }],
    options: [
      { ...title, required: true },
      { ...scope, required: true },
      schema(' (-: standard input); without it any object is taken'),
      reason,
    ],
    what: 'create dictionary <name>',
    request: 'POST dictionaries',
    ...dictionary,
    done: 'created dictionary {name}',
  },
  {
    command: 'dict update',
    help: 'change the title, the scope or the schema; what is not given stays',
    arguments: [name],
    options: [
      title,
      scope,
      option('--confirm-widening', 'let more consumers read every record, where the new scope is wider', {
        field: 'confirmWidening',
      }),
      schema(' from now on (-: standard input); records that are there stay'),
      option('--no-schema', 'take any object'),
      reason,
    ],
    what: 'update dictionary <name>',
    request: 'PATCH dictionaries/<name>',
    changes: 'Give --title, --scope, --schema or --no-schema.',
    ...dictionary,
    done: 'updated dictionary {name} to version {version}',
  },
  {
    command: 'dict draft',
    help: 'schema drafts: create, list, show, request-review, approve, reject, publish, withdraw',
    notes: 'A draft goes: draft, request-review, approve (or reject), publish. withdraw ends it before that.',
    examples: [
      'lineside dict draft create pumps --schema pumps.next.json --reason "adds the year"',
      'lineside dict draft request-review pumps 1',
      'lineside dict draft approve pumps 1 --reason "as agreed"',
      'lineside dict draft publish pumps 1',
    ],
  },
  {
    command: 'dict draft create',
    help: 'propose a new schema for a dictionary',
    arguments: [name],
    options: [
      schema(' (-: standard input)', { required: true }),
      { ...option('--reason <text>', 'why; kept with the draft', { required: true }), field: 'changeReason' },
    ],
    what: 'create a draft of dictionary <name>',
    request: 'POST dictionaries/<name>/drafts',
    ...draft,
    done: 'created draft {id} of <name>',
  },
  {
    command: 'dict draft list',
    help: 'list the drafts of a dictionary',
    arguments: [name],
    what: 'list the drafts of dictionary <name>',
    request: 'GET dictionaries/<name>/drafts',
    ...draft,
    pageSize,
    columns: { ID: '{id}', STATE: '{state}', CHANGED: '{updatedAt:time}', BY: '{updatedBy}', REASON: '{changeReason}' },
    none: 'it has no drafts',
  },
  {
    command: 'dict draft show',
    help: 'show a draft with its schema',
    arguments: [name, draftId],
    what: 'show draft <id> of <name>',
    request: 'GET dictionaries/<name>/drafts/<id>',
    ...draft,
    rows: {
      Draft: '{id} of {dictionary}',
      State: '{state}',
      Reason: '{changeReason}',
      Created: '{createdAt:time} by {createdBy}',
      Changed: '{updatedAt:time} by {updatedBy}',
      Schema: '',
    },
    json: 'schema',
  },
  step('request-review', 'ask for a review of a draft', 'request-review', 'request a review of'),
  step('approve', 'approve a draft in review', 'decide', 'approve', { decision: 'approved' }),
  step('reject', 'reject a draft in review', 'decide', 'reject', { decision: 'rejected' }),
  step('publish', 'make an approved draft the schema of its dictionary', 'publish'),
  step('withdraw', 'withdraw a draft that is not published', 'withdraw'),
]);

// The records of a dictionary.

/** Versions since the one that was meant that are shown after a 412. */
const shownVersions = 10;

const dict: ArgumentSpec = { name: '<dict>', help: 'name of the dictionary', completes: 'dictionaries' };
const key: ArgumentSpec = { name: '<key>', help: 'business key of the record', completes: 'keys' };
const data = {
  name: '<data>',
  help: 'JSON object: as text, @FILE, or - for standard input',
  field: 'data',
  value: (text: string, call: Call<object>) => dataArgument(call, text),
};
const at = option('--at <time>', 'as it was valid then: RFC 3339, or an age as 10m, 2h, 7d', {
  field: 'at',
  value: instant,
});
const validFrom = option('--valid-from <time>', 'when it begins to be so, past or future: RFC 3339 (default: now)', {
  field: 'validFrom',
  value: instant,
});
const record = { item: 'the record', pageSize };

export const recordCommands = hubCommands([
  {
    command: 'record',
    help: 'records of a dictionary: list, get, create, update, close, history',
    notes: 'DATA is a JSON object: as text, @FILE, or - for standard input.',
    examples: [
      'lineside record create pumps P-101 \'{"name": "Feed pump", "kw": 7.5}\' --reason "new on site"',
      'lineside record get pumps P-101 --json | jq .data',
      'lineside record get pumps P-101 --at 2d',
      'lineside record update pumps P-101 @p101.json --version 3',
      'lineside record history pumps P-101',
    ],
  },
  {
    command: 'record list',
    help: 'list the records that are valid, by key',
    arguments: [dict],
    options: [at],
    what: 'list the records of <dict>',
    request: 'GET dictionaries/<dict>/records',
    ...record,
    usualLimit: wholeList,
    columns: { KEY: '{businessKey}', VERSION: '{version}', DATA: '{data:json}' },
    none: 'there are no records',
  },
  {
    command: 'record get',
    help: 'show a record',
    arguments: [dict, key],
    options: [at],
    what: 'read record <key> of <dict>',
    request: 'GET dictionaries/<dict>/records/<key>',
    ...record,
    rows: {
      Record: '{businessKey} of {dictionary}',
      Version: (item) => `${item.number('version')}, ${changeText(item)}`,
      Valid: validText,
      Data: '',
    },
    json: 'data',
  },
  {
    command: 'record history',
    help: 'list all versions of a record, newest first',
    arguments: [dict, key],
    what: 'read the history of record <key> of <dict>',
    request: 'GET dictionaries/<dict>/records/<key>/history',
    ...record,
    usualLimit: wholeList,
    columns: { VERSION: '{version}', CHANGE: changeText, VALID: validText, DATA: '{data:json}' },
    none: 'there are no versions',
  },
  {
    command: 'record create',
    help: 'create a record, or open a closed one again',
    arguments: [dict, { ...key, field: 'businessKey' }, data],
    options: [validFrom, reason],
    what: 'create record <key> of <dict>',
    request: 'POST dictionaries/<dict>/records',
    ...record,
    done: (item) => {
      const made = item.number('version');
      return `created ${safeText(item.text('businessKey'))}${made === 1 ? '' : ` again, as version ${made}`}`;
    },
  },
  {
    command: 'record update',
    help: 'write a new version of a record: the whole data',
    arguments: [dict, key, data],
    options: [version, validFrom, reason],
    what: 'update record <key> of <dict>',
    request: 'PUT dictionaries/<dict>/records/<key>',
    answer: (call, to, fields, args) => writeVersion(call, to, fields, args, 'updated'),
  },
  {
    command: 'record close',
    help: 'close a record: it is valid no longer, its history stays',
    arguments: [dict, key],
    options: [version, reason],
    what: 'close record <key> of <dict>',
    request: 'POST dictionaries/<dict>/records/<key>/close',
    answer: (call, to, fields, args) => writeVersion(call, to, fields, args, 'closed'),
  },
]);

/** A write that names the version it is meant for: the one that was given, or the one that is there now. */
async function writeVersion(
  call: Call<object>,
  to: Target,
  fields: JsonObject,
  { dict = '', key = '' }: Args,
  done: string,
): Promise<number> {
  const given = fields['if-match'] as number | undefined;
  const history = apiPath('dictionaries', dict, 'records', key, 'history');
  const meant = given === undefined ? await newest(call, history) : undefined;
  const from = meant?.number('version') ?? given ?? 0;
  try {
    const raw = await ask(call, to, { ...fields, 'if-match': from });
    const made = recordFields(raw).number('version');
    const text = `${done} ${safeText(key)}: version ${made}, after version ${from}`;
    return await call.print(raw, text + overtaken(meant, call.io.clock.wallMs()));
  } catch (error) {
    throw error instanceof CliFailure && error.code === 'STALE_VERSION'
      ? await staleFailure(call, history, from, error)
      : error;
  }
}

/** The newest version, which is what a write names; not the one that is valid now: a later one may be waiting for its time. */
async function newest(call: Call<object>, history: string): Promise<Fields> {
  const hub = await call.hub();
  for await (const [version] of hub.pages(history, {}, 1, 1)) if (version !== undefined) return recordFields(version);
  throw new CliFailure('nothing', 'NOT_FOUND', 'it has no versions');
}

/** A version whose validity lies in the future is replaced by a newer one. */
function overtaken(before: Fields | undefined, nowMs: number): string {
  const begin = before?.text('validFrom') ?? '';
  if (before === undefined || !(Date.parse(begin) > nowMs)) return '';
  return `, which was to be valid from ${timeText(begin)} on and may never be now`;
}

/** The changes of the record since the version that was meant, from its history. */
async function staleFailure(call: Call<object>, history: string, from: number, stale: CliFailure): Promise<CliFailure> {
  const versions: Fields[] = [];
  const hub = await call.hub();
  try {
    for await (const page of hub.pages(history, {}, shownVersions + 1, shownVersions + 1)) {
      versions.push(...page.map(recordFields));
    }
    const now = versions[0]?.number('version') ?? 0;
    const why =
      now > from
        ? `it is not at version ${from} any more, but at ${now}`
        : `it never was at version ${from}; it is at ${now}`;
    return new CliFailure(stale.outcome, stale.code, why, {
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
