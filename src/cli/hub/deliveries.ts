/** webhook deliveries, delivery, retry: what was sent, what became of it, and sending it again. */
import { shownJson } from '../../shared/base/shown-json.ts';
import { type Given, option } from '../command.ts';
import { Fields } from '../connection/answers.ts';
import { apiPath, type Hub } from '../connection/hub-client.ts';
import { CliFailure, exitStatus, usageFailure } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { type Json, type JsonObject } from '../output/json.ts';
import { counted, spanText } from '../output/numbers.ts';
import { cut, labelledWrapped, type Row, table } from '../output/table.ts';
import type { Args, Call } from '../shell.ts';
import {
  ask,
  auditReason,
  type Cells,
  hubCommands,
  instant,
  limitOption,
  list,
  several,
  type Target,
  timeText,
} from './hub-command.ts';
import { kindText } from './subscriptions.ts';

const usualDeliveries = 50;
const states = ['pending', 'retrying', 'delivered', 'rejected', 'failed'];
const endStates = ['rejected', 'failed', 'delivered'];

const listOptions = [
  option('--state <state>', `only these: ${states.join(', ')}`, { choices: states, field: 'state' }),
  option('--subscription <id>', 'only of this subscription', { field: 'subscription' }),
  limitOption(usualDeliveries),
] as const;

const retryOptions = [
  option('--subscription <id>', 'those of this subscription, instead of one delivery'),
  option('--from <time>', 'only those made from this time on: RFC 3339, or an age as 10m, 2h, 7d', {
    field: 'from',
    value: instant,
  }),
  option('--to <time>', 'only those made before this time', { field: 'to', value: instant }),
  option('--state <state>', `only these (${endStates.join(', ')}), several times; default rejected and failed`, {
    choices: endStates,
    parse: several(endStateOf),
    field: 'states',
  }),
  auditReason,
] as const;

export const deliveryCommands = hubCommands([
  {
    command: 'webhook deliveries',
    heading: 'Deliveries:',
    help: 'list deliveries, newest first: their state, attempts, when the next is, what the last one met',
    options: listOptions,
    what: 'list the deliveries',
    request: 'GET admin/webhooks/deliveries',
    answer: listDeliveries,
  },
  {
    command: 'webhook delivery',
    help: 'show a delivery: every attempt, what was answered, and the body',
    arguments: [{ name: '<id>', help: 'of the delivery: lineside webhook deliveries shows it' }],
    options: [option('--body', 'print the body alone, to the byte: what the signature is of')],
    what: 'show delivery <id>',
    request: 'GET admin/webhooks/deliveries/<id>',
    answer: showDelivery,
  },
  {
    command: 'webhook retry',
    help: 'send again, with the same id and bytes: one delivery, or the abandoned ones of a subscription',
    arguments: [{ name: '[delivery]', help: 'its id: lineside webhook deliveries shows it' }],
    options: retryOptions,
    what: ({ delivery }) => (delivery === undefined ? 'send again' : `send delivery ${safeText(delivery)} again`),
    answer: retry,
  },
]);

function endStateOf(text: string): string {
  if (endStates.includes(text)) return text;
  const why = states.includes(text) ? `what is ${text} is sent automatically` : `"${safeText(text)}" is no state`;
  throw usageFailure(why, `Sent again are ${endStates.join(', ')}.`);
}

type ListCall = Call<Given<typeof listOptions>>;

async function listDeliveries(call: ListCall, [, path]: Target, query: JsonObject): Promise<number> {
  const { state } = call.options;
  const now = call.io.clock.wallMs();
  const status = await list(call, path, query, {
    item: 'the delivery',
    // Each carries the first 4 KiB of its last answer.
    pageSize: 200,
    usualLimit: usualDeliveries,
    columns: deliveryColumns(now),
    none: state === undefined ? 'there are no deliveries' : `there are no deliveries that are ${state}`,
  });
  if (!call.json && (await isOffline(await call.hub()))) await call.out.write(offlineText);
  return status;
}

async function isOffline(hub: Hub): Promise<boolean> {
  return new Fields(await hub.get(apiPath('admin', 'webhooks', 'status')), 'the status').truth('offline');
}

async function showDelivery(call: Call<{ body?: true }>, to: Target, fields: JsonObject, { id = '' }: Args) {
  const { body: bodyAlone } = call.options;
  if (bodyAlone === true && call.json) throw usageFailure('--body and --json exclude each other', 'Give one of them.');
  if (id === '') throw usageFailure('the id of the delivery is empty', 'lineside webhook deliveries shows them.');
  const raw = await ask(call, to, fields);
  const delivery = new Fields(raw, 'the delivery');
  const text = deliveryText(delivery, call.io.clock.wallMs(), call.out.width);
  if (bodyAlone !== true) return call.print(raw, text);
  const body = delivery.textOr('body', undefined);
  if (body === undefined) throw new CliFailure('nothing', 'NO_BODY', withheldText);
  await call.out.write(body);
  return exitStatus.ok;
}

type RetryCall = Call<Given<typeof retryOptions>>;

async function retry(call: RetryCall, _: Target, fields: JsonObject, { delivery }: Args): Promise<number> {
  const { subscription } = call.options;
  if ((delivery === undefined) === (subscription === undefined) || delivery === '' || subscription === '') {
    throw usageFailure('it is not said what to send again', 'Give the id of a delivery, or --subscription ID.');
  }
  if (subscription !== undefined) return retryAll(call, subscription, fields);
  if (['from', 'to', 'states'].some((field) => fields[field] !== undefined)) {
    throw usageFailure('--from, --to and --state go with --subscription', 'Give --subscription ID, or drop them.');
  }
  const path = apiPath('admin', 'webhooks', 'deliveries', delivery ?? '', 'resend');
  const answer = await ask(call, ['POST', path], fields);
  const sent = new Fields(answer, 'the delivery');
  return call.print(answer, `delivery ${safeText(sent.text('deliveryId'))} is sent again`);
}

async function retryAll(call: RetryCall, subscription: string, fields: JsonObject): Promise<number> {
  const { from, to } = fields as { readonly from?: string; readonly to?: string };
  if (from !== undefined && to !== undefined && Date.parse(from) >= Date.parse(to)) {
    throw usageFailure('--from is not before --to');
  }
  const path = apiPath('admin', 'webhooks', 'subscriptions', subscription, 'resend');
  const answer = await ask(call, ['POST', path], fields);
  const count = new Fields(answer, 'the answer').number('deliveries');
  const done = `${counted(count, 'delivery', 'deliveries')} sent again`;
  return call.print(answer, count === 0 ? 'there is none to send again' : done);
}

// Deliveries for people: how old, how often tried, when again, and what was in the way.

const offlineText =
  'The device is offline (no route, or no remote host takes a connection): due deliveries wait and use up no attempts.\n';

/** Why there is no body. */
const withheldText = 'it is not kept any more, or your token does not open its scopes';

/** Narrow, so that only a long name is truncated at 80 columns: `delivery ID` has the words. */
function deliveryColumns(nowMs: number): Cells {
  return {
    DELIVERY: '{deliveryId}',
    STATE: stateWord,
    AGE: (item) => roughly(ageText(item.text('occurredAt'), nowMs)),
    TRIES: '{attempts}',
    'NEXT IN': (item) => roughly(nextText(item)),
    LAST: (item) => lastWord(item.objectOr('lastAttempt', undefined)),
    TO: '{subscriptionName}',
  };
}

/** Those that wait for a person stand out. */
function stateWord(item: Fields): string {
  const state = safeText(item.text('state'));
  return state === 'failed' || state === 'rejected' ? state.toUpperCase() : state;
}

/** By this machine's clock, which may be behind that of the box. */
function ageText(instant: string, nowMs: number): string {
  const ms = Date.parse(instant);
  return Number.isNaN(ms) ? safeText(instant) : spanText(Math.max(0, nowMs - ms));
}

function nextText(item: Fields): string {
  if (item.raw['nextAttemptInSeconds'] === null) return '-';
  const seconds = item.number('nextAttemptInSeconds');
  return seconds <= 0 ? 'due now' : spanText(Math.ceil(seconds) * 1000);
}

function nextAttempt(item: Fields): string {
  const text = nextText(item);
  return /^\d/.test(text) ? `in ${text}` : text === '-' ? 'none' : text;
}

/** "2 h 7 min" as "2 h". */
function roughly(span: string): string {
  return span.replace(/^(\d+ \w+) .*$/, '$1');
}

/** HTTP 503; timeout; -: there was none yet. */
function lastWord(attempt: Fields | undefined): string {
  if (attempt === undefined) return '-';
  const cause = attempt.textOr('cause', '');
  return cause === '' || cause === 'http' ? `HTTP ${attempt.number('statusCode')}` : safeText(cause);
}

/** accepted (HTTP 202); http: mes.example answered 503 */
function attemptText(attempt: Fields): string {
  const cause = attempt.textOr('cause', '');
  if (cause === '') return `accepted (HTTP ${attempt.number('statusCode')})`;
  const message = safeText(attempt.text('message'));
  return `${safeText(cause)}: ${message === '' ? kindText(cause) : message}`;
}

function deliveryText(item: Fields, nowMs: number, width: number): string {
  const occurred = item.text('occurredAt');
  const ended = item.textOr('endedAt', undefined);
  const rows: Row[] = [
    ['Delivery', safeText(item.text('deliveryId'))],
    ['To', `${safeText(item.text('subscriptionName'))} (subscription ${safeText(item.text('subscription'))})`],
    ['State', `${stateWord(item)}${ended === undefined ? '' : ` since ${timeText(ended)}`}${adviceText(item)}`],
    ['Occurred', `${timeText(occurred)}, ${ageText(occurred, nowMs)} ago; ${counted(item.number('events'), 'event')}`],
    ['Next attempt', nextAttempt(item)],
    ['Attempts', item.number('attempts') === 0 ? 'none yet' : String(item.number('attempts'))],
  ];
  const attempts = item.objects('attemptList').map((raw) => new Fields(raw, 'the attempt'));
  return labelledWrapped(rows, width) + attemptsText(attempts, width) + bodyText(item.raw['body'], item);
}

function adviceText(item: Fields): string {
  const state = item.text('state');
  const again = `lineside webhook retry ${safeText(item.text('deliveryId'))} sends it again`;
  if (state === 'failed') return `: every attempt is used up; ${again}`;
  return state === 'rejected' ? `: the subscriber refused it permanently; ${again}` : '';
}

function attemptsText(attempts: readonly Fields[], width: number): string {
  if (attempts.length === 0) return '';
  const rows = attempts.map((attempt) => [
    `  ${attempt.number('attempt')}`,
    timeText(attempt.text('at')),
    spanText(attempt.number('elapsedMs')),
    attemptText(attempt),
  ]);
  const said = attempts.at(-1)?.textOr('responseBody', '') ?? '';
  const answer = said === '' ? '' : `It said last:\n${cut(`  ${safeText(said)}`, width)}\n`;
  return table(['  #', 'BEGAN', 'TOOK', 'RESULT'], rows, width) + answer;
}

function bodyText(body: Json | undefined, item: Fields): string {
  if (body === null) return `Body: ${withheldText}\n`;
  return `Body:\n${shownBody(item.text('body'))}\n`;
}

/** Laid out where that changes nothing, numbers too; else as it is. */
function shownBody(body: string): string {
  try {
    const value = JSON.parse(body) as Json;
    return JSON.stringify(value) === body ? shownJson(value, 2) : safeText(body);
  } catch {
    return safeText(body);
  }
}
