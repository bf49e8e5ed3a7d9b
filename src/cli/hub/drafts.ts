/** dict draft: the way of a new schema from draft through review to publication. */
import type { Command } from 'commander';
import { Fields } from '../connection/answers.ts';
import { apiPath } from '../connection/hub-client.ts';
import { exitStatus } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { type JsonObject, jsonLine, shownJson } from '../output/json.ts';
import { wholeNumber } from '../output/numbers.ts';
import { labelledWrapped } from '../output/table.ts';
import type { HubCall, Shell } from '../shell.ts';
import { jsonOfFile } from './json-input.ts';
import { showList } from './listing.ts';
import { type ReasonOption, reasonField, tell, timeText, wholeList, withReason } from './refdata-options.ts';

/** A page of drafts with the largest schemas is 7 MB. */
const pageSize = 100;

interface Step {
  readonly description: string;
  /** The route's last part. */
  readonly route: string;
  readonly body: JsonObject;
}

const steps: Readonly<Record<string, Step>> = {
  'request-review': { description: 'ask for a review of a draft', route: 'request-review', body: {} },
  approve: { description: 'approve a draft in review', route: 'decide', body: { decision: 'approved' } },
  reject: { description: 'reject a draft in review', route: 'decide', body: { decision: 'rejected' } },
  publish: { description: 'make an approved draft the schema of its dictionary', route: 'publish', body: {} },
  withdraw: { description: 'withdraw a draft that is not published', route: 'withdraw', body: {} },
};

export function addDraft(dict: Command, shell: Shell): void {
  const command = dict
    .command('draft')
    .description('schema drafts: create, list, show, request-review, approve, reject, publish, withdraw')
    .addHelpText(
      'after',
      '\nA draft goes: draft, request-review, approve (or reject), publish. withdraw ends it before that.\n\nExamples:\n  lineside dict draft create pumps --schema pumps.next.json --reason "adds the year"\n  lineside dict draft request-review pumps 1\n  lineside dict draft approve pumps 1 --reason "as agreed"\n  lineside dict draft publish pumps 1\n',
    );
  const create = command
    .command('create')
    .argument('<name>', 'name of the dictionary')
    .description('propose a new schema for a dictionary')
    .requiredOption('--schema <file>', 'JSON Schema of the data (-: standard input)')
    .requiredOption('--reason <text>', 'why; kept with the draft');
  shell.hub<{ schema: string } & ReasonOption>(create, { what: aboutDrafts('create a draft of'), run: createDraft });
  shell.hub(
    command.command('list').argument('<name>', 'name of the dictionary').description('list the drafts of a dictionary'),
    {
      what: aboutDrafts('list the drafts of'),
      run: listDrafts,
    },
  );
  shell.hub(
    idArgument(
      command.command('show').argument('<name>', 'name of the dictionary').description('show a draft with its schema'),
    ),
    {
      what: aboutDraft('show'),
      run: showDraft,
    },
  );
  for (const [name, step] of Object.entries(steps)) addStep(command, shell, name, step);
}

function addStep(draft: Command, shell: Shell, name: string, step: Step): void {
  const command = idArgument(
    draft.command(name).argument('<name>', 'name of the dictionary').description(step.description),
  );
  shell.hub<ReasonOption>(withReason(command), {
    what: aboutDraft(name.replace('request-review', 'request a review of')),
    run: (call, args) => takeStep(call, args, step),
  });
}

function idArgument(command: Command): Command {
  // Checked, and handed on as it was typed.
  return command.argument('<id>', 'number of the draft', (text) =>
    String(wholeNumber(1, Number.MAX_SAFE_INTEGER)(text)),
  );
}

function aboutDrafts(verb: string) {
  return ([name = '']: readonly string[]): string => `cannot ${verb} dictionary ${safeText(name)}`;
}

function aboutDraft(verb: string) {
  return ([name = '', id = '']: readonly string[]): string => `cannot ${verb} draft ${id} of ${safeText(name)}`;
}

async function createDraft(
  call: HubCall<{ schema: string } & ReasonOption>,
  [name = '']: readonly string[],
): Promise<number> {
  const schema = await jsonOfFile(call, call.options.schema);
  const hub = await call.hub();
  const made = await hub.write('POST', apiPath('dictionaries', name, 'drafts'), {
    schema,
    ...reasonField(call.options),
  });
  await tell(call, made, `created draft ${new Fields(made, 'the draft').number('id')} of ${safeText(name)}`);
  return exitStatus.ok;
}

async function listDrafts(call: HubCall<object>, [name = '']: readonly string[]): Promise<number> {
  const hub = await call.hub();
  const pages = hub.pages(apiPath('dictionaries', name, 'drafts'), {}, pageSize, wholeList);
  return showList(call, pages, { heading: ['ID', 'STATE', 'CHANGED', 'BY', 'REASON'], row, none: 'it has no drafts' });
}

function row(raw: JsonObject): string[] {
  const draft = new Fields(raw, 'the draft');
  return [
    String(draft.number('id')),
    safeText(draft.text('state')),
    timeText(draft.text('updatedAt')),
    safeText(draft.text('updatedBy')),
    safeText(draft.text('changeReason')),
  ];
}

async function showDraft(call: HubCall<object>, [name = '', id = '']: readonly string[]): Promise<number> {
  const hub = await call.hub();
  const raw = await hub.get(apiPath('dictionaries', name, 'drafts', id));
  const draft = new Fields(raw, 'the draft');
  const by = (who: string, when: string): string => `${timeText(draft.text(when))} by ${safeText(draft.text(who))}`;
  const rows: (readonly [string, string])[] = [
    ['Draft', `${draft.number('id')} of ${safeText(draft.text('dictionary'))}`],
    ['State', safeText(draft.text('state'))],
    ['Reason', safeText(draft.text('changeReason'))],
    ['Created', by('createdBy', 'createdAt')],
    ['Changed', by('updatedBy', 'updatedAt')],
    ['Schema', ''],
  ];
  const text = `${labelledWrapped(rows, call.out.width)}${shownJson(draft.object('schema').raw, 2)}\n`;
  await call.out.write(call.json ? jsonLine(raw) : text);
  return exitStatus.ok;
}

async function takeStep(
  call: HubCall<ReasonOption>,
  [name = '', id = '']: readonly string[],
  step: Step,
): Promise<number> {
  const hub = await call.hub();
  const path = apiPath('dictionaries', name, 'drafts', id, step.route);
  const made = await hub.write('POST', path, { ...step.body, ...reasonField(call.options) });
  const draft = new Fields(made, 'the draft');
  await tell(call, made, `draft ${draft.number('id')} of ${safeText(name)}: ${safeText(draft.text('state'))}`);
  return exitStatus.ok;
}
