/** dict: the dictionaries of the reference data; `dict draft` is beside this file. */
import type { Command } from 'commander';
import { Fields } from '../connection/answers.ts';
import { apiPath } from '../connection/hub-client.ts';
import { exitStatus, usageFailure } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { type JsonObject, jsonLine, shownJson } from '../output/json.ts';
import { labelledWrapped } from '../output/table.ts';
import type { HubCall, Shell } from '../shell.ts';
import { addDraft } from './drafts.ts';
import { jsonOfFile } from './json-input.ts';
import { showList } from './listing.ts';
import { type ReasonOption, reasonField, tell, timeText, wholeList, withReason } from './refdata-options.ts';

/** A page of dictionaries with the largest schemas is 7 MB. */
const pageSize = 100;

const scopes = ['PUBLIC', 'INTERNAL', 'RESTRICTED'];

interface DefinitionOptions extends ReasonOption {
  readonly title?: string;
  readonly scope?: string;
  readonly confirmWidening?: boolean;
  /** A file; false: --no-schema. */
  readonly schema?: string | false;
}

export function addDict(program: Command, shell: Shell): void {
  const command = program
    .command('dict')
    .description('dictionaries: list, show, create, update; schema drafts')
    .addHelpText(
      'after',
      '\nExamples:\n  lineside dict create pumps --title "Pumps of the site" --scope PUBLIC --schema pumps.schema.json\n  lineside dict list\n  lineside dict show pumps --json | jq .schema\n  lineside dict draft create pumps --schema pumps.next.json --reason "adds the year"\n',
    );
  shell.hub(command.command('list').description('list the dictionaries that you may see'), {
    what: 'cannot list the dictionaries',
    run: list,
  });
  shell.hub(
    command
      .command('show')
      .argument('<name>', 'name of the dictionary')
      .description('show a dictionary with its schema'),
    {
      what: ([name = '']) => `cannot show dictionary ${safeText(name)}`,
      run: show,
    },
  );
  addCreate(command, shell);
  addUpdate(command, shell);
  addDraft(command, shell);
}

function addCreate(dict: Command, shell: Shell): void {
  const command = dict
    .command('create')
    .argument('<name>', 'name of the dictionary')
    .description('create a dictionary; its name never changes')
    .requiredOption('--title <text>', 'what it is, for people')
    .addOption(scopeOption(dict).makeOptionMandatory())
    .option('--schema <file>', 'JSON Schema of the data (-: standard input); without it any object is taken');
  shell.hub<DefinitionOptions>(withReason(command), {
    what: ([name = '']) => `cannot create dictionary ${safeText(name)}`,
    run: create,
  });
}

function addUpdate(dict: Command, shell: Shell): void {
  const command = dict
    .command('update')
    .argument('<name>', 'name of the dictionary')
    .description('change the title, the scope or the schema; what is not given stays')
    .option('--title <text>', 'what it is, for people')
    .addOption(scopeOption(dict))
    .option('--confirm-widening', 'let more consumers read every record, where the new scope is wider')
    .option('--schema <file>', 'JSON Schema of the data from now on (-: standard input); records that are there stay')
    .option('--no-schema', 'take any object');
  shell.hub<DefinitionOptions>(withReason(command), {
    what: ([name = '']) => `cannot update dictionary ${safeText(name)}`,
    run: update,
  });
}

function scopeOption(command: Command) {
  return command
    .createOption('--scope <scope>', 'who may see it: PUBLIC, INTERNAL or RESTRICTED')
    .choices(scopes)
    .argParser((text) => {
      const scope = text.toUpperCase();
      if (!scopes.includes(scope))
        throw usageFailure(`"${safeText(text)}" is no scope`, `Known are ${scopes.join(', ')}.`);
      return scope;
    });
}

async function list(call: HubCall<object>): Promise<number> {
  const hub = await call.hub();
  const pages = hub.pages(apiPath('dictionaries'), {}, pageSize, wholeList);
  return showList(call, pages, {
    heading: ['NAME', 'SCOPE', 'VERSION', 'TITLE'],
    row,
    none: 'there are no dictionaries that you may see',
  });
}

function row(raw: JsonObject): string[] {
  const item = new Fields(raw, 'the dictionary');
  return [item.text('name'), item.text('scope'), String(item.number('version')), item.text('title')].map(safeText);
}

async function show(call: HubCall<object>, [name = '']: readonly string[]): Promise<number> {
  const hub = await call.hub();
  const raw = await hub.get(apiPath('dictionaries', name));
  const found = new Fields(raw, 'the dictionary');
  const schema = found.objectOr('schema', undefined);
  const rows: (readonly [string, string])[] = [
    ['Dictionary', safeText(found.text('name'))],
    ['Title', safeText(found.text('title'))],
    ['Scope', safeText(found.text('scope'))],
    [
      'Version',
      `${found.number('version')}, by ${safeText(found.text('changedBy'))} at ${timeText(found.text('updatedAt'))}`,
    ],
    ['Schema', schema === undefined ? 'none: any object is taken' : ''],
  ];
  const text = labelledWrapped(rows, call.out.width) + (schema === undefined ? '' : `${shownJson(schema.raw, 2)}\n`);
  await call.out.write(call.json ? jsonLine(raw) : text);
  return exitStatus.ok;
}

async function create(call: HubCall<DefinitionOptions>, [name = '']: readonly string[]): Promise<number> {
  const body = { name, ...(await definitionFields(call)) };
  const hub = await call.hub();
  const made = await hub.write('POST', apiPath('dictionaries'), body);
  await tell(call, made, `created dictionary ${safeText(new Fields(made, 'the dictionary').text('name'))}`);
  return exitStatus.ok;
}

async function update(call: HubCall<DefinitionOptions>, [name = '']: readonly string[]): Promise<number> {
  const { title, scope, schema } = call.options;
  if ([title, scope, schema].every((given) => given === undefined)) {
    throw usageFailure('there is nothing to change', 'Give --title, --scope, --schema or --no-schema.');
  }
  const fields = await definitionFields(call);
  const hub = await call.hub();
  const made = await hub.write('PATCH', apiPath('dictionaries', name), fields);
  const found = new Fields(made, 'the dictionary');
  await tell(call, made, `updated dictionary ${safeText(found.text('name'))} to version ${found.number('version')}`);
  return exitStatus.ok;
}

async function definitionFields(call: HubCall<DefinitionOptions>): Promise<JsonObject> {
  const { title, scope, schema, confirmWidening } = call.options;
  return {
    ...(title === undefined ? {} : { title }),
    ...(scope === undefined ? {} : { scope }),
    ...(confirmWidening === undefined ? {} : { confirmWidening }),
    ...(schema === undefined ? {} : { schema: schema === false ? null : await jsonOfFile(call, schema) }),
    ...reasonField(call.options),
  };
}
