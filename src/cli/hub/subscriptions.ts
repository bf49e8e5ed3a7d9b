/** webhook add, list, show, update, pause, resume, rotate-secret, remove: which subscriber gets which changes, and where. */
import { type Command, Option } from 'commander';
import type { Fields } from '../connection/answers.ts';
import { apiPath } from '../connection/hub-client.ts';
import { exitStatus, usageFailure } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { type JsonObject, jsonLine } from '../output/json.ts';
import { spanText, wholeNumber } from '../output/numbers.ts';
import type { AnyCall, HubCall, Shell } from '../shell.ts';
import { showList } from './listing.ts';
import { type ReasonOption, reasonField, reasonHeader, tell, wholeList } from './refdata-options.ts';
import { type SecretOptions, secretOf, withSecret } from './webhook-secret.ts';
import {
  blockedText,
  subscriptionFields,
  subscriptionHeading,
  subscriptionRow,
  subscriptionText,
} from './webhook-text.ts';

/** Each may name 1,000 dictionaries: a page of the largest is 7 MB. */
const pageSize = 50;
/** As long as the service lets an old secret sign. */
const longestGraceSeconds = 2_592_000;

interface AddOptions extends FilterOptions, SecretOptions, ReasonOption {
  readonly name: string;
  readonly url: string;
  readonly consumer?: string;
  readonly inactive?: boolean;
}
interface UpdateOptions extends FilterOptions, AllOptions, ReasonOption {
  readonly name?: string;
  readonly url?: string;
  readonly version?: number;
}
interface RotateOptions extends SecretOptions, ReasonOption {
  readonly grace?: number;
}

export function addSubscriptions(webhook: Command, shell: Shell): void {
  addAdd(webhook, shell);
  shell.hub(webhook.command('list').description('list the subscriptions'), {
    what: 'cannot list the subscriptions',
    run: list,
  });
  shell.hub(withId(webhook.command('show').description('show a subscription')), { what: about('show'), run: show });
  addUpdate(webhook, shell);
  const pause = webhook
    .command('pause')
    .description('send nothing; what happens meanwhile is never sent, what waits waits');
  addSwitch(pause, shell, false);
  const resume = webhook.command('resume').description('go on: what waited is sent, then what happens from now on');
  addSwitch(resume, shell, true);
  addRotate(webhook, shell);
  const remove = webhook
    .command('remove')
    .description('end a subscription, with all that waits for it and its history');
  shell.hub<ReasonOption>(withAuditReason(withId(remove)), { what: about('remove'), run: removeOne });
}

function addAdd(webhook: Command, shell: Shell): void {
  const command = webhook
    .command('add')
    .description('subscribe: changes from now on are posted to the URL')
    .requiredOption('--name <text>', 'what it is called here and in each delivery')
    .requiredOption('--url <url>', 'where deliveries are posted: https, at an address that may be called')
    .option('--consumer <name>', 'token whose scopes bound it, or local (default: your own)')
    .option('--inactive', 'do not send yet: lineside webhook resume begins');
  shell.hub<AddOptions>(withAuditReason(withFilter(withSecret(command))), {
    what: 'cannot add the subscription',
    run: add,
  });
}

function addUpdate(webhook: Command, shell: Shell): void {
  const command = webhook
    .command('update')
    .description('change a subscription; what is not given stays')
    .option('--name <text>', 'what it is called here and in each delivery from now on')
    .option('--url <url>', 'where deliveries are posted, those that wait too')
    .option(
      '--version <n>',
      'only if this is its version now (default: whatever it is)',
      wholeNumber(1, Number.MAX_SAFE_INTEGER),
    );
  shell.hub<UpdateOptions>(withAuditReason(withAll(withFilter(withId(command)))), {
    what: about('update'),
    run: update,
  });
}

function addSwitch(command: Command, shell: Shell, active: boolean): void {
  shell.hub<ReasonOption>(withAuditReason(withId(command)), {
    what: about(active ? 'resume' : 'pause'),
    run: (call, args) => switchTo(call, args, active),
  });
}

function addRotate(webhook: Command, shell: Shell): void {
  const command = withSecret(withId(webhook.command('rotate-secret')))
    .description('sign with another secret from now on')
    .option(
      '--grace <seconds>',
      'how long the old one signs as well (X-Service-Signature-Previous); default a day',
      wholeNumber(0, longestGraceSeconds),
    );
  shell.hub<RotateOptions>(withAuditReason(command), { what: about('rotate the secret of'), run: rotate });
}

export function withAuditReason(command: Command): Command {
  return command.optionsGroup('Options:').option('--reason <text>', 'why; kept in the audit');
}

function withId(command: Command): Command {
  return command.argument('<id>', 'of the subscription: lineside webhook list shows it', (text) => {
    if (text === '') throw usageFailure('the id of the subscription is empty', 'lineside webhook list shows them.');
    return text;
  });
}

function about(verb: string) {
  return ([id = '']: readonly string[]): string => `cannot ${verb} subscription ${safeText(id)}`;
}

export function subscriptionPath(...parts: readonly string[]): string {
  return apiPath('admin', 'webhooks', 'subscriptions', ...parts);
}

async function list(call: HubCall<object>): Promise<number> {
  const hub = await call.hub();
  const pages = hub.pages(subscriptionPath(), {}, pageSize, wholeList);
  const none = 'there are no subscriptions';
  return showList(call, pages, { heading: subscriptionHeading, row: subscriptionRow, none });
}

async function show(call: HubCall<object>, [id = '']: readonly string[]): Promise<number> {
  const hub = await call.hub();
  const raw = await hub.get(subscriptionPath(id));
  const text = subscriptionText(subscriptionFields(raw), call.out.width);
  await call.out.write(call.json ? jsonLine(raw) : text);
  return exitStatus.ok;
}

async function add(call: HubCall<AddOptions>): Promise<number> {
  const { name, url, consumer, inactive } = call.options;
  const filter = filterFields(call.options);
  const { secret, made } = await secretOf(call);
  const hub = await call.hub();
  const answer = await hub.write('POST', subscriptionPath(), {
    name,
    url,
    secret,
    ...(consumer === undefined ? {} : { consumer }),
    ...filter,
    ...(inactive === true ? { active: false } : {}),
    ...reasonField(call.options),
  });
  const added = subscriptionFields(answer);
  const resume = inactive === true ? `; it sends nothing before lineside webhook resume ${id(added)}` : '';
  await tellWithSecret(call, answer, made ? secret : undefined, `added subscription ${named(added)}${resume}`);
  return exitStatus.ok;
}

async function update(call: HubCall<UpdateOptions>, [given = '']: readonly string[]): Promise<number> {
  const { name, url, version } = call.options;
  const changes: JsonObject = {
    ...(name === undefined ? {} : { name }),
    ...(url === undefined ? {} : { url }),
    ...filterFields(call.options),
  };
  if (Object.keys(changes).length === 0) {
    throw usageFailure('there is nothing to change', 'Give --name, --url, or an option that says which changes.');
  }
  const ifMatch: Record<string, string> = version === undefined ? {} : { 'if-match': `"${version}"` };
  const body = { ...changes, ...reasonField(call.options) };
  const hub = await call.hub();
  const answer = await hub.write('PATCH', subscriptionPath(given), body, ifMatch);
  const updated = subscriptionFields(answer);
  await tell(call, answer, `updated subscription ${named(updated)} to version ${updated.number('version')}`);
  return exitStatus.ok;
}

async function switchTo(
  call: HubCall<ReasonOption>,
  [given = '']: readonly string[],
  active: boolean,
): Promise<number> {
  const hub = await call.hub();
  const answer = await hub.write('PATCH', subscriptionPath(given), { active, ...reasonField(call.options) });
  const switched = subscriptionFields(answer);
  const line = active
    ? `subscription ${named(switched)} goes on`
    : `subscription ${named(switched)} is paused: what happens until lineside webhook resume ${id(switched)} is never sent to it`;
  await tell(call, answer, `${line}${active ? blockedText(switched) : ''}`);
  return exitStatus.ok;
}

async function rotate(call: HubCall<RotateOptions>, [given = '']: readonly string[]): Promise<number> {
  const { grace } = call.options;
  const { secret, made } = await secretOf(call);
  const hub = await call.hub();
  const answer = await hub.write('POST', subscriptionPath(given, 'rotate-secret'), {
    secret,
    ...(grace === undefined ? {} : { graceSeconds: grace }),
    ...reasonField(call.options),
  });
  const rotated = subscriptionFields(answer);
  const span = grace === undefined ? 'a day' : spanText(grace * 1000);
  const old = grace === 0 ? 'the old one no more' : `for ${span} the old one as well`;
  const line = `the new secret signs what is sent to subscription ${named(rotated)}, ${old}`;
  await tellWithSecret(call, answer, made ? secret : undefined, line);
  return exitStatus.ok;
}

async function removeOne(call: HubCall<ReasonOption>, [given = '']: readonly string[]): Promise<number> {
  const headers = reasonHeader(call.options);
  const hub = await call.hub();
  const answer = await hub.remove(subscriptionPath(given), headers);
  await tell(call, answer, `subscription ${safeText(given)} is removed`);
  return exitStatus.ok;
}

/** The secret is in no answer: only who made it knows it, and only now. */
async function tellWithSecret(
  call: AnyCall<object>,
  answer: JsonObject,
  secret: string | undefined,
  line: string,
): Promise<void> {
  if (secret === undefined) return tell(call, answer, line);
  await tell(call, { ...answer, secret }, `${line}\nIts secret is shown this once:\n${secret}`);
}

function id(subscription: Fields): string {
  return safeText(subscription.text('id'));
}

function named(subscription: Fields): string {
  return `${id(subscription)} (${safeText(subscription.text('name'))})`;
}

// The options that say which changes a subscription gets.

interface FilterOptions {
  readonly scope?: readonly string[];
  readonly dictionary?: readonly string[];
  readonly action?: readonly string[];
  readonly category?: readonly string[];
}

interface AllOptions {
  readonly allDictionaries?: boolean;
  readonly allActions?: boolean;
  readonly allCategories?: boolean;
}

const scopes = ['PUBLIC', 'INTERNAL', 'RESTRICTED'];
const actions = ['created', 'updated', 'closed'];
const categories = ['dict.record.*', 'dict.definition.*', 'dict.draft.*'];

function withFilter(command: Command): Command {
  return command
    .optionsGroup('Which changes; each may be given several times:')
    .addOption(several('--scope <scope>', `only of this scope: ${scopes.join(', ')}`, scopeOf))
    .addOption(several('--dictionary <name>', 'only of this dictionary', (text) => text))
    .addOption(several('--action <action>', `only these changes of records: ${actions.join(', ')}`, actionOf))
    .addOption(several('--category <category>', 'only these: record, definition, draft', categoryOf));
}

/** Takes a filter away again. */
function withAll(command: Command): Command {
  return command
    .option('--all-dictionaries', 'of every dictionary')
    .option('--all-actions', 'every change of a record')
    .option('--all-categories', 'changes of records, definitions and drafts');
}

function filterFields(options: FilterOptions & AllOptions): JsonObject {
  const { scope, dictionary, action, category, allDictionaries, allActions, allCategories } = options;
  return {
    ...(scope === undefined ? {} : { scopes: scope }),
    ...either('dictionaries', dictionary, allDictionaries, '--dictionary and --all-dictionaries'),
    ...either('actions', action, allActions, '--action and --all-actions'),
    ...either('categories', category, allCategories, '--category and --all-categories'),
  };
}

function either(
  field: string,
  some: readonly string[] | undefined,
  all: boolean | undefined,
  options: string,
): JsonObject {
  if (some !== undefined && all === true) throw usageFailure(`${options} exclude each other`, 'Give one of them.');
  if (all === true) return { [field]: null };
  return some === undefined ? {} : { [field]: some };
}

function several(flags: string, description: string, parse: (text: string) => string): Option {
  return new Option(flags, description).argParser<string[]>((text, before) => [...(before ?? []), parse(text)]);
}

function scopeOf(text: string): string {
  return oneOf(scopes, text.toUpperCase(), `"${safeText(text)}" is no scope`, scopes);
}

function actionOf(text: string): string {
  return oneOf(actions, text.toLowerCase(), `"${safeText(text)}" is no action`, actions);
}

/** "draft" and "dict.draft.*": the latter is a pattern of file names to many a shell. */
function categoryOf(text: string): string {
  const whole = text.startsWith('dict.') ? text : `dict.${text}.*`;
  return oneOf(categories, whole, `"${safeText(text)}" is no category`, ['record', 'definition', 'draft']);
}

function oneOf(known: readonly string[], text: string, why: string, said: readonly string[]): string {
  if (known.includes(text)) return text;
  throw usageFailure(why, `Known are ${said.join(', ')}.`);
}
