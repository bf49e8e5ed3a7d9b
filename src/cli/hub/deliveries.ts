/** webhook deliveries, delivery, retry: what was sent, what became of it, and sending it again. */
import { type Command, Option } from 'commander';
import { Fields } from '../connection/answers.ts';
import { apiPath, type Hub } from '../connection/hub-client.ts';
import { CliFailure, exitStatus, usageFailure } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { type Json, type JsonObject, jsonLine, shownJson } from '../output/json.ts';
import { counted, spanText } from '../output/numbers.ts';
import { cut, labelledWrapped, table } from '../output/table.ts';
import type { HubCall, Shell } from '../shell.ts';
import { showList } from './listing.ts';
import { instantArgument, type ReasonOption, reasonField, tell, timeText, withLimit } from './refdata-options.ts';
import { subscriptionPath, withAuditReason } from './subscriptions.ts';
import { kindText } from './webhook-text.ts';

/** Each carries the first 4 KiB of its last answer. */
const pageSize = 200;
const usualDeliveries = 50;
const states = ['pending', 'retrying', 'delivered', 'rejected', 'failed'];
const endStates = ['rejected', 'failed', 'delivered'];

interface ListOptions {
  readonly state?: string;
  readonly subscription?: string;
  readonly limit?: number;
}
interface RetryOptions extends ReasonOption {
  readonly subscription?: string;
  readonly from?: string;
  readonly to?: string;
  readonly state?: readonly string[];
}

export function addDeliveries(webhook: Command, shell: Shell): void {
  const list = webhook
    .command('deliveries')
    .description('list deliveries, newest first: their state, attempts, when the next is, what the last one met')
    .addOption(new Option('--state <state>', `only these: ${states.join(', ')}`).choices(states))
    .option('--subscription <id>', 'only of this subscription');
  shell.hub<ListOptions>(withLimit(list, String(usualDeliveries)), {
    what: 'cannot list the deliveries',
    run: listDeliveries,
  });
  const show = webhook
    .command('delivery')
    .argument('<id>', 'of the delivery: lineside webhook deliveries shows it')
    .description('show a delivery: every attempt, what was answered, and the body')
    .option('--body', 'print the body alone, to the byte: what the signature is of');
  shell.hub<{ body?: boolean }>(show, {
    what: ([id = '']) => `cannot show delivery ${safeText(id)}`,
    run: showDelivery,
  });
  addRetry(webhook, shell);
}

function addRetry(webhook: Command, shell: Shell): void {
  const command = webhook
    .command('retry')
    .argument('[delivery]', 'its id: lineside webhook deliveries shows it')
    .description('send again, with the same id and bytes: one delivery, or those of a subscription that were given up')
    .option('--subscription <id>', 'those of this subscription, instead of one delivery')
    .option('--from <time>', 'only those made from this time on: RFC 3339, or an age as 10m, 2h, 7d')
    .option('--to <time>', 'only those made before this time')
    .addOption(
      new Option('--state <state>', `only these (${endStates.join(', ')}), several times; default rejected and failed`)
        .choices(endStates)
        .argParser<string[]>((text, before) => [...(before ?? []), endStateOf(text)]),
    );
  shell.hub<RetryOptions>(withAuditReason(command), {
    what: ([id]) => (id === undefined ? 'cannot send again' : `cannot send delivery ${safeText(id)} again`),
    run: retry,
  });
}

function endStateOf(text: string): string {
  if (endStates.includes(text)) return text;
  const why = states.includes(text) ? `what is ${text} is under way by itself` : `"${safeText(text)}" is no state`;
  throw usageFailure(why, `Sent again are ${endStates.join(', ')}.`);
}

function deliveryPath(...parts: readonly string[]): string {
  return apiPath('admin', 'webhooks', 'deliveries', ...parts);
}

async function listDeliveries(call: HubCall<ListOptions>): Promise<number> {
  const { state, subscription, limit } = call.options;
  const hub = await call.hub();
  const pages = hub.pages(deliveryPath(), { state, subscription }, pageSize, limit ?? usualDeliveries);
  const now = call.io.clock.wallMs();
  const none = state === undefined ? 'there are no deliveries' : `there are no deliveries that are ${state}`;
  const status = await showList(call, pages, { heading: deliveryHeading, row: (raw) => deliveryRow(raw, now), none });
  if (!call.json && (await isOffline(hub))) await call.out.write(offlineText);
  return status;
}

async function isOffline(hub: Hub): Promise<boolean> {
  return new Fields(await hub.get(apiPath('admin', 'webhooks', 'status')), 'the status').truth('offline');
}

async function showDelivery(call: HubCall<{ body?: boolean }>, [id = '']: readonly string[]): Promise<number> {
  const { body: bodyAlone } = call.options;
  if (bodyAlone === true && call.json) throw usageFailure('--body and --json exclude each other', 'Give one of them.');
  if (id === '') throw usageFailure('the id of the delivery is empty', 'lineside webhook deliveries shows them.');
  const hub = await call.hub();
  const raw = await hub.get(deliveryPath(id));
  const delivery = new Fields(raw, 'the delivery');
  const text = deliveryText(delivery, call.io.clock.wallMs(), call.out.width);
  if (bodyAlone === true) await call.out.write(wholeBody(delivery));
  else await call.out.write(call.json ? jsonLine(raw) : text);
  return exitStatus.ok;
}

function wholeBody(delivery: Fields): string {
  const body = delivery.textOr('body', undefined);
  if (body !== undefined) return body;
  throw new CliFailure({ status: exitStatus.nothing, code: 'NO_BODY', why: withheldText });
}

async function retry(call: HubCall<RetryOptions>, [id]: readonly string[]): Promise<number> {
  const { subscription, from, to, state } = call.options;
  if ((id === undefined) === (subscription === undefined) || id === '' || subscription === '') {
    throw usageFailure('it is not said what to send again', 'Give the id of a delivery, or --subscription ID.');
  }
  if (subscription !== undefined) return retryAll(call, subscription);
  if ((from ?? to ?? state) !== undefined) {
    throw usageFailure('--from, --to and --state go with --subscription', 'Give --subscription ID, or drop them.');
  }
  const hub = await call.hub();
  const answer = await hub.write('POST', deliveryPath(id ?? '', 'resend'), reasonField(call.options));
  const sent = new Fields(answer, 'the delivery');
  await tell(call, answer, `delivery ${safeText(sent.text('deliveryId'))} is sent again`);
  return exitStatus.ok;
}

async function retryAll(call: HubCall<RetryOptions>, subscription: string): Promise<number> {
  const { from, to, state } = call.options;
  const now = call.io.clock.wallMs();
  const range = {
    ...(from === undefined ? {} : { from: instantArgument(from, now) }),
    ...(to === undefined ? {} : { to: instantArgument(to, now) }),
  };
  if (range.from !== undefined && range.to !== undefined && Date.parse(range.from) >= Date.parse(range.to)) {
    throw usageFailure('--from is not before --to');
  }
  const body = { ...range, ...(state === undefined ? {} : { states: state }), ...reasonField(call.options) };
  const hub = await call.hub();
  const answer = await hub.write('POST', subscriptionPath(subscription, 'resend'), body);
  const count = new Fields(answer, 'the answer').number('deliveries');
  const line = count === 0 ? 'there is none to send again' : `${counted(count, 'delivery', 'deliveries')} sent again`;
  await tell(call, answer, line);
  return exitStatus.ok;
}

// Deliveries for people: how old, how often tried, when again, and what was in the way.

type Row = readonly [string, string];

const offlineText =
  'The device is offline (no route, or no remote host takes a connection): due deliveries wait and use up no attempts.\n';

/** Why there is no body. */
const withheldText = 'it is not kept any more, or your token does not open its scopes';

/** Narrow, so that nothing is cut off at 80 columns but a long name: `delivery ID` has the words. */
const deliveryHeading = ['DELIVERY', 'STATE', 'AGE', 'TRIES', 'NEXT IN', 'LAST', 'TO'];

function deliveryRow(raw: JsonObject, nowMs: number): string[] {
  const item = new Fields(raw, 'the delivery');
  return [
    safeText(item.text('deliveryId')),
    stateWord(item),
    roughly(ageText(item.text('occurredAt'), nowMs)),
    String(item.number('attempts')),
    roughly(nextText(item)),
    lastWord(item.objectOr('lastAttempt', undefined)),
    safeText(item.text('subscriptionName')),
  ];
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
