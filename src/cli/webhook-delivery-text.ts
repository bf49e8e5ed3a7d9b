/** Deliveries for people: how old, how often tried, when again, and what was in the way. Pure. */
import { Fields } from './answers.ts';
import { safeText } from './hex.ts';
import { type Json, type JsonObject, shownJson } from './json.ts';
import { counted, spanText } from './numbers.ts';
import { timeText } from './refdata-options.ts';
import { cut, labelledWrapped, table } from './table.ts';
import { kindText } from './webhook-text.ts';

type Row = readonly [string, string];

export const offlineText =
  'The device is offline (no route, or no remote host takes a connection): due deliveries wait and use up no attempts.\n';

/** Why there is no body. */
export const withheldText = 'it is not kept any more, or your token does not open its scopes';

/** Narrow, so that nothing is cut off at 80 columns but a long name: `delivery ID` has the words. */
export const deliveryHeading = ['DELIVERY', 'STATE', 'AGE', 'TRIES', 'NEXT IN', 'LAST', 'TO'];

export function deliveryRow(raw: JsonObject, nowMs: number): string[] {
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

export function deliveryText(item: Fields, nowMs: number, width: number): string {
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
