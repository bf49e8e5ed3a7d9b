/** dict: the dictionaries of the reference data, and their schema drafts from draft through review to publication. */
import { type ArgumentSpec, option } from '../command.ts';
import { jsonOfFile } from '../input.ts';
import type { Call } from '../shell.ts';
import { type HubCommand, hubCommands, numberArgument, oneOf, reason, scopes } from './hub-command.ts';

const name: ArgumentSpec = { name: '<name>', help: 'name of the dictionary' };
const draftId = numberArgument('number of the draft');
const title = { ...option('--title <text>', 'what it is, for people'), field: 'title' };
const scope = {
  ...option('--scope <scope>', 'who may see it: PUBLIC, INTERNAL or RESTRICTED', { choices: scopes }),
  parse: (text: string) => oneOf(scopes, text.toUpperCase(), text, 'scope'),
  field: 'scope',
};
/** false: --no-schema. */
const schema = {
  field: 'schema',
  value: (file: string | false, call: Call<object>) => (file === false ? null : jsonOfFile(call, file)),
};
/** A page of dictionaries or drafts with the largest schemas is 7 MB. */
const pageSize = 100;

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
    arguments: [{ ...name, field: 'name' }],
    options: [
      { ...title, required: true },
      { ...scope, required: true },
      {
        ...option('--schema <file>', 'JSON Schema of the data (-: standard input); without it any object is taken'),
        ...schema,
      },
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
      {
        ...option('--confirm-widening', 'let more consumers read every record, where the new scope is wider'),
        field: 'confirmWidening',
      },
      {
        ...option(
          '--schema <file>',
          'JSON Schema of the data from now on (-: standard input); records that are there stay',
        ),
        ...schema,
      },
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
      { ...option('--schema <file>', 'JSON Schema of the data (-: standard input)', { required: true }), ...schema },
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
