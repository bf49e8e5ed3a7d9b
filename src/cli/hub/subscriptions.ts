/** webhook: which subscriber gets which changes, and where; test-pings. */
import { randomBytes } from 'node:crypto';
import { type Given, option } from '../command.ts';
import { Fields } from '../connection/answers.ts';
import { CliFailure, exitStatus, usageFailure } from '../failure.ts';
import { wholeText } from '../input.ts';
import { safeText } from '../output/hex.ts';
import type { JsonObject } from '../output/json.ts';
import { spanText, wholeNumber } from '../output/numbers.ts';
import { labelledWrapped, type Row } from '../output/table.ts';
import type { Call } from '../shell.ts';
import {
  ask,
  auditReason,
  type HubCommand,
  hubCommands,
  oneOf,
  scopeOf,
  scopes,
  several,
  type Target,
  version,
} from './hub-command.ts';

/** As long as the service lets an old secret sign. */
const longestGraceSeconds = 2_592_000;
/** The service gives the URL up to webhooks.timeout_ms, and pings only a few at a time. */
const pingTimeoutSeconds = 70;

const actions = ['created', 'updated', 'closed'];
const categories = ['dict.record.*', 'dict.definition.*', 'dict.draft.*'];

const id = {
  name: '<id>',
  help: 'of the subscription: lineside webhook list shows it',
  parse: (text: string) => {
    if (text === '') throw usageFailure('the id of the subscription is empty', 'lineside webhook list shows them.');
    return text;
  },
};

/** Which changes a subscription gets. */
const filters = [
  ['--scope <scope>', `only of this scope: ${scopes.join(', ')}`, 'scopes', scopeOf],
  ['--dictionary <name>', 'only of this dictionary', 'dictionaries', (text: string) => text],
  ['--action <action>', `only these changes of records: ${actions.join(', ')}`, 'actions', actionOf],
  ['--category <category>', 'only these: record, definition, draft', 'categories', categoryOf],
] as const;
const group = 'Which changes; each may be given several times:';
const filterOptions = filters.map(([flags, help, field, parse]) =>
  option(flags, help, {
    group,
    field,
    parse: several(parse),
    ...(flags === '--dictionary <name>' && { completes: 'dictionaries' as const }),
  }),
);
/** Each removes a filter. */
const allOptions = [
  option('--all-dictionaries', 'of every dictionary', { group, field: 'dictionaries', value: () => null }),
  option('--all-actions', 'every change of a record', { group, field: 'actions', value: () => null }),
  option('--all-categories', 'changes of records, definitions and drafts', {
    group,
    field: 'categories',
    value: () => null,
  }),
];

function actionOf(text: string): string {
  return oneOf(actions, text.toLowerCase(), text, 'action');
}

/** "draft" and "dict.draft.*": the latter is a pattern of file names to many a shell. */
function categoryOf(text: string): string {
  const whole = text.startsWith('dict.') ? text : `dict.${text}.*`;
  return oneOf(categories, whole, text, 'category', ['record', 'definition', 'draft']);
}

/** Each may name 1,000 dictionaries: a page of the largest is 7 MB. */
const subscription = { item: 'the subscription', pageSize: 50 };

function switched(command: string, help: string, isActive: boolean, done: (item: Fields) => string): HubCommand {
  return {
    command: `webhook ${command}`,
    help,
    arguments: [id],
    options: [auditReason],
    what: `${command} subscription <id>`,
    request: 'PATCH admin/webhooks/subscriptions/<id>',
    body: { active: isActive },
    ...subscription,
    done,
  };
}

/** As many as the output of HMAC-SHA256 has: more add nothing. */
const generatedBytes = 32;
/** More than the service takes: it reports a secret that is too long itself. */
const maxFileBytes = 8192;

const secretFile = option('--secret-file <file>', 'file that holds the secret (-: standard input); one line');
const secretOptions = [
  secretFile,
  option('--generate-secret', 'make one, and print it once, as the last line'),
] as const;
type SecretOptions = Given<typeof secretOptions>;

export const subscriptionCommands = hubCommands([
  {
    command: 'webhook',
    help: 'subscriptions that get changes by HTTPS, and their deliveries: show, send again',
    examples: [
      'lineside webhook ping https://mes.example/hook --secret-file mes.secret',
      'lineside webhook add --name mes --url https://mes.example/hook --dictionary pumps --generate-secret',
      'lineside webhook list',
      'lineside webhook deliveries --state failed',
      'lineside webhook delivery 41-9f86d081884c7d65',
      'lineside webhook retry --subscription 3 --from 2d --reason "mes is back"',
    ],
  },
  {
    command: 'webhook add',
    heading: 'Subscriptions:',
    help: 'subscribe: changes from now on are posted to the URL',
    options: [
      option('--name <text>', 'what it is called here and in each delivery', { required: true, field: 'name' }),
      option('--url <url>', 'where deliveries are posted: https, at an address that may be called', {
        required: true,
        field: 'url',
      }),
      option('--consumer <name>', 'token whose scopes bound it, or local (default: your own)', { field: 'consumer' }),
      option('--inactive', 'do not send yet: lineside webhook resume begins', { field: 'active', value: () => false }),
      ...secretOptions,
      ...filterOptions,
      auditReason,
    ],
    what: 'add the subscription',
    request: 'POST admin/webhooks/subscriptions',
    answer: withSecret((added, fields) => {
      const resume = `; it sends nothing before lineside webhook resume ${safeText(added.text('id'))}`;
      return `added subscription ${named(added)}${fields['active'] === false ? resume : ''}`;
    }),
  },
  {
    command: 'webhook list',
    help: 'list the subscriptions',
    what: 'list the subscriptions',
    request: 'GET admin/webhooks/subscriptions',
    ...subscription,
    columns: { ID: '{id}', NAME: '{name}', STATE: stateWord, TAKES: takesText, URL: '{url}' },
    none: 'there are no subscriptions',
  },
  {
    command: 'webhook show',
    help: 'show a subscription',
    arguments: [id],
    what: 'show subscription <id>',
    request: 'GET admin/webhooks/subscriptions/<id>',
    ...subscription,
    rows: {
      Subscription: named,
      State: stateText,
      URL: '{url}',
      Consumer: '{consumer}, whose scopes bound it',
      Scopes: (item) => listText(item, 'scopes'),
      Dictionaries: (item) => listText(item, 'dictionaries'),
      Actions: (item) => listText(item, 'actions'),
      Categories: (item) => listText(item, 'categories'),
      Created: '{createdAt:time}',
      Version: '{version}, since {updatedAt:time}',
    },
  },
  {
    command: 'webhook update',
    help: 'change a subscription; what is not given stays',
    arguments: [id],
    options: [
      option('--name <text>', 'what it is called here and in each delivery from now on', { field: 'name' }),
      option('--url <url>', 'where deliveries are posted, those that wait too', { field: 'url' }),
      version,
      ...filterOptions,
      ...allOptions,
      auditReason,
    ],
    what: 'update subscription <id>',
    request: 'PATCH admin/webhooks/subscriptions/<id>',
    changes: 'Give --name, --url, or an option that says which changes.',
    ...subscription,
    done: 'updated subscription {id} ({name}) to version {version}',
  },
  switched(
    'pause',
    'send nothing; what happens meanwhile is never sent, what waits waits',
    false,
    (item) =>
      `subscription ${named(item)} is paused: what happens until lineside webhook resume ${safeText(item.text('id'))} is never sent to it`,
  ),
  switched(
    'resume',
    'resume: what waited is sent, then what happens from now on',
    true,
    (item) => `subscription ${named(item)} is resumed${blockedText(item)}`,
  ),
  {
    command: 'webhook rotate-secret',
    help: 'sign with another secret from now on',
    arguments: [id],
    options: [
      ...secretOptions,
      option('--grace <seconds>', 'how long the old one signs as well (X-Service-Signature-Previous); default a day', {
        parse: wholeNumber(0, longestGraceSeconds),
        field: 'graceSeconds',
      }),
      auditReason,
    ],
    what: 'rotate the secret of subscription <id>',
    request: 'POST admin/webhooks/subscriptions/<id>/rotate-secret',
    answer: withSecret((rotated, { graceSeconds: grace }) => {
      const span = grace === undefined ? 'a day' : spanText(Number(grace) * 1000);
      const old = grace === 0 ? 'the old one no more' : `for ${span} the old one as well`;
      return `the new secret signs what is sent to subscription ${named(rotated)}, ${old}`;
    }),
  },
  {
    command: 'webhook remove',
    help: 'end a subscription, with all that waits for it and its history',
    arguments: [id],
    options: [auditReason],
    what: 'remove subscription <id>',
    request: 'DELETE admin/webhooks/subscriptions/<id>',
    done: 'subscription <id> is removed',
  },
  {
    command: 'webhook ping',
    help: 'post a signed test delivery to a URL, registered or not; status 1 when it is not accepted',
    arguments: [{ name: '<url>', help: 'where to: https', field: 'url' }],
    options: [secretFile],
    what: 'ping <url>',
    timeoutSeconds: pingTimeoutSeconds,
    request: 'POST admin/webhooks/test-ping',
    answer: ping,
  },
]);

/** Sends a secret that is given or made here. The secret is in no answer: only its maker knows it, and only now. */
function withSecret(line: (item: Fields, fields: JsonObject) => string): NonNullable<HubCommand['answer']> {
  return async (call: Call<SecretOptions>, to: Target, fields: JsonObject) => {
    const { secret, made } = await secretOf(call);
    const answer = await ask(call, to, { ...fields, secret });
    const done = line(new Fields(answer, subscription.item), fields);
    if (!made) return call.print(answer, done);
    return call.print({ ...answer, secret }, `${done}\nIts secret is shown this once:\n${secret}`);
  };
}

// A subscription's secret: out of a file or standard input, or made here; never on a command line, where all can read it.

/** The secret, and whether it is to be shown, being new. */
async function secretOf(call: Call<SecretOptions>): Promise<{ secret: string; made: boolean }> {
  const { secretFile, generateSecret } = call.options;
  if ((secretFile !== undefined) === (generateSecret === true)) {
    const why = secretFile === undefined ? 'there is no secret' : 'there are two secrets';
    throw usageFailure(why, 'Give --secret-file FILE (-: standard input), or --generate-secret.');
  }
  if (secretFile === undefined) return { secret: randomBytes(generatedBytes).toString('base64url'), made: true };
  return { secret: await readSecret(call, secretFile), made: false };
}

/** What the file holds but for the end of its line. */
async function readSecret(call: Call<object>, path: string): Promise<string> {
  if (path === '') throw usageFailure('no file is named', 'Give --secret-file FILE, or - for standard input.');
  const name = path === '-' ? 'standard input' : path;
  const text = (
    await wholeText(call, path, maxFileBytes, `${maxFileBytes} bytes`, (why) => unusable(name, why))
  ).replace(/\r?\n$/, '');
  if (text === '') throw unusable(name, 'it is empty');
  if (/[\r\n]/.test(text)) throw unusable(name, 'it has more than one line');
  return text;
}

function unusable(name: string, why: string): CliFailure {
  return new CliFailure('refused', 'BAD_SECRET_FILE', why, {
    what: `cannot use ${safeText(name)}`,
    next: 'Put the secret into it, on one line and nothing else: at least 16 bytes.',
  });
}

async function ping(call: Call<{ secretFile?: string }>, to: Target, fields: JsonObject): Promise<number> {
  const { secretFile } = call.options;
  if (secretFile === undefined)
    throw usageFailure('there is no secret', 'Give --secret-file FILE, or - for standard input.');
  const answer = await ask(call, to, { ...fields, secret: await readSecret(call, secretFile) });
  const result = new Fields(answer, 'the result');
  await call.print(answer, pingText(result, call.out.width));
  return result.truth('success') ? exitStatus.ok : exitStatus.refused;
}

// Subscriptions and test-pings for people.

function named(item: Fields): string {
  return safeText(`${item.text('id')} (${item.text('name')})`);
}

/** In a list there is room for a few names. */
const briefNames = 2;

function takesText(item: Fields): string {
  const names = all(item, 'dictionaries') ?? [];
  const brief = names.length <= briefNames ? names : [`${names.length} dictionaries`];
  return [...item.texts('scopes'), ...brief].map(safeText).join(' ');
}

/** undefined: every one. */
function all(item: Fields, field: string): readonly string[] | undefined {
  return item.raw[field] == null ? undefined : item.texts(field);
}

function stateWord(item: Fields): string {
  if (!item.truth('active')) return 'paused';
  return item.text('blocked') === '' ? 'active' : 'BLOCKED';
}

function stateText(item: Fields): string {
  const id = safeText(item.text('id'));
  if (!item.truth('active')) return `paused: nothing is sent before lineside webhook resume ${id}`;
  const blocked = safeText(item.text('blocked'));
  return blocked === '' ? 'active' : `BLOCKED (no attempt is used up): ${blocked}`;
}

/** To follow a sentence; '' while nothing is in its way. */
function blockedText(item: Fields): string {
  const blocked = safeText(item.text('blocked'));
  return blocked === '' ? '' : `; but it is BLOCKED: ${blocked}`;
}

function listText(item: Fields, field: string): string {
  return all(item, field)?.map(safeText).join(', ') ?? 'all';
}

const kinds: Readonly<Record<string, string>> = {
  dns: 'its name could not be resolved',
  timeout: 'it took too long',
  ssrf: 'it may not be called',
  tls: 'TLS failed',
  connect: 'no connection',
  http: 'it answered, but did not accept',
};

/** What kind of failure, in words. */
export function kindText(kind: string): string {
  return kinds[kind] ?? safeText(kind);
}

function pingText(result: Fields, width: number): string {
  const status = result.raw['statusCode'] === null ? undefined : result.number('statusCode');
  const answered = `${status === undefined ? 'no answer' : `HTTP ${status}`} after ${spanText(result.number('elapsedMs'))}`;
  if (result.truth('success')) return `accepted: ${answered}\n`;
  const error = result.object('error');
  const rows: Row[] = [
    ['NOT ACCEPTED', `${kindText(error.text('kind'))} (${safeText(error.text('kind'))}); ${answered}`],
    ['Why', safeText(error.text('message'))],
    ...reasons(error).map((reason): Row => ['', reason]),
  ];
  const body = safeText(result.text('responseBody'));
  return labelledWrapped(body === '' ? rows : [...rows, ['It said', body]], width);
}

/** A single one is often the message itself. */
function reasons(error: Fields): string[] {
  const message = error.text('message');
  const all = error.raw['reasons'] == null ? [] : error.texts('reasons');
  return all.filter((reason) => !message.includes(reason)).map(safeText);
}
