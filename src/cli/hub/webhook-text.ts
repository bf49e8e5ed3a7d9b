/** Subscriptions and test-pings for people. Pure. */
import { Fields } from '../connection/answers.ts';
import { safeText } from '../output/hex.ts';
import type { JsonObject } from '../output/json.ts';
import { spanText } from '../output/numbers.ts';
import { labelledWrapped } from '../output/table.ts';
import { timeText } from './refdata-options.ts';

type Row = readonly [string, string];

export function subscriptionFields(raw: JsonObject): Fields {
  return new Fields(raw, 'the subscription');
}

export const subscriptionHeading = ['ID', 'NAME', 'STATE', 'TAKES', 'URL'];

export function subscriptionRow(raw: JsonObject): string[] {
  const item = subscriptionFields(raw);
  const takes = [...item.texts('scopes'), ...brief(item, 'dictionaries', 'dictionaries')].map(safeText).join(' ');
  return [safeText(item.text('id')), safeText(item.text('name')), stateWord(item), takes, safeText(item.text('url'))];
}

/** In a list there is room for a few names. */
const briefNames = 2;

function brief(item: Fields, field: string, many: string): readonly string[] {
  const names = all(item, field);
  if (names === undefined) return [];
  return names.length <= briefNames ? names : [`${names.length} ${many}`];
}

/** undefined: every one. */
function all(item: Fields, field: string): readonly string[] | undefined {
  return item.raw[field] == null ? undefined : item.texts(field);
}

function stateWord(item: Fields): string {
  if (!item.truth('active')) return 'paused';
  return item.text('blocked') === '' ? 'active' : 'BLOCKED';
}

export function subscriptionText(item: Fields, width: number): string {
  const rows: Row[] = [
    ['Subscription', `${safeText(item.text('id'))} (${safeText(item.text('name'))})`],
    ['State', stateText(item)],
    ['URL', safeText(item.text('url'))],
    ['Consumer', `${safeText(item.text('consumer'))}, whose scopes bound it`],
    ['Scopes', item.texts('scopes').map(safeText).join(', ')],
    ['Dictionaries', listText(item, 'dictionaries')],
    ['Actions', listText(item, 'actions')],
    ['Categories', listText(item, 'categories')],
    ['Created', timeText(item.text('createdAt'))],
    ['Version', `${item.number('version')}, since ${timeText(item.text('updatedAt'))}`],
  ];
  return labelledWrapped(rows, width);
}

function stateText(item: Fields): string {
  const id = safeText(item.text('id'));
  if (!item.truth('active')) return `paused: nothing is sent before lineside webhook resume ${id}`;
  const blocked = safeText(item.text('blocked'));
  return blocked === '' ? 'active' : `BLOCKED (no attempt is used up): ${blocked}`;
}

/** To follow a sentence; '' while nothing is in its way. */
export function blockedText(item: Fields): string {
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

export function pingText(result: Fields, width: number): string {
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
  const told = error.raw['reasons'] == null ? [] : error.texts('reasons');
  return told.filter((reason) => !message.includes(reason)).map(safeText);
}
