/**
 * Databases of version 4 and what is sent of them, before and after the move of deliveries to contents. The rules of version 4
 * are frozen here: they must not follow the product's.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, inflateSync } from 'node:zlib';
import type { Statement } from 'better-sqlite3';
import { type Connection, openExisting } from '../shared/storage/open.ts';

/**
 * Made once by the classes of the last program of version 4, with ChangeStore, Subscriptions, Planner, DeliveryRows and
 * BodySource on a real file: 6 subscriptions (one deleted, one inactive, one renamed and narrowed after its deliveries were
 * planned), record, definition and draft events, a transaction of 600, text beyond ASCII, numbers that no double holds; 28
 * deliveries pending, retrying, delivered and rejected, some with a kept body. Two have lost an event, and the delivery with
 * the highest id was removed.
 */
const samplePath = join(import.meta.dirname, '../../test/migration/refdata-4.db.gz');

/** The first 16 hex digits of SHA-256 of what that program would have sent of its deliveries 1 to 28; null: it had no body. */
export const sampleBodies: readonly (string | null)[] = [
  null,
  '5ba4af34e510378b',
  'd829f58226b5ffe4',
  null,
  'bba40ee092458ea0',
  'a42ff992fda083e9',
  '7ed3a776f164b097',
  '0dd4629f6f3ba72b',
  '3f762969dd611689',
  'c42afa6e560c4da7',
  'fb3dab0ccaaec15c',
  '29f737658961e08f',
  '2a6b2acf87eb798e',
  '5880dcece56fc8b7',
  '145b23f5a35255a1',
  '93f837d4022ee863',
  '42f5d77ce7bf96c4',
  'aa76912b762b5cc9',
  '870430b27c7e7936',
  '1f29eacfc26ff30e',
  '4575b471ad9956be',
  '73b660afd6968596',
  '5bfd0030c8e47b30',
  'e2204ec23b8cfa09',
  '2308183f338b810f',
  'ca0e5fb6fa1c1745',
  'd5c444dcc02936bd',
  '925eab1044558def',
];

export function sampleIn(dir: string): string {
  mkdirSync(dir, { recursive: true });
  const path = join(dir, 'refdata.db');
  writeFileSync(path, gunzipSync(readFileSync(samplePath)));
  return path;
}

export function connect(path: string): Connection {
  return openExisting({ path, cacheKib: 2_048, walLimitBytes: 4 * 1024 * 1024 });
}

interface OldRow {
  readonly id: number;
  readonly nonce: string;
  readonly first: number;
  readonly last: number;
  readonly events: number;
  readonly at: string;
  readonly kept: Buffer | null;
  readonly renderer: number | null;
  readonly name: string;
  readonly scopes: string;
  readonly dictionaries: string | null;
  readonly actions: string | null;
  readonly categories: string | null;
}

export interface Part {
  /** Ids above this one. */
  readonly after: number;
  readonly limit: number;
}

const whole: Part = { after: 0, limit: -1 };

/** What the program of version 4 sends of each delivery; null: it has no body. */
export function bodiesBefore(connection: Connection, part = whole): ReadonlyMap<number, string | null> {
  const rows = connection
    .prepare<[Part], OldRow>(
      `SELECT d.id, d.nonce, d.first_event AS first, d.last_event AS last, d.events, d.occurred_at AS at, b.body AS kept,
         f.renderer, f.name, f.scopes, f.dictionaries, f.actions, f.categories
       FROM webhook_deliveries d LEFT JOIN webhook_bodies b ON b.delivery_id = d.id
       LEFT JOIN webhook_forms f ON f.id = d.form_id
       WHERE d.id > @after ORDER BY d.id LIMIT @limit`,
    )
    .all(part);
  const eventsOf = connection.prepare<[number, number], Event>(
    'SELECT scope, dictionary, category, action, body FROM outbox_events WHERE id BETWEEN ? AND ? ORDER BY id',
  );
  return new Map(rows.map((row) => [row.id, bodyBefore(eventsOf, row)]));
}

interface Event {
  readonly scope: string;
  readonly dictionary: string;
  readonly category: string;
  readonly action: string;
  readonly body: string;
}

type EventsOf = Statement<[number, number], Event>;

function bodyBefore(eventsOf: EventsOf, row: OldRow): string | null {
  try {
    if (row.renderer === null) return null;
    if (row.kept !== null) return inflateSync(row.kept).toString();
    if (row.renderer !== 1) return null;
    const list = (text: string | null): readonly string[] | undefined =>
      text === null ? undefined : (JSON.parse(text) as string[]);
    const [scopes, dictionaries, actions, categories] = [row.scopes, row.dictionaries, row.actions, row.categories].map(
      list,
    );
    const isOne = row.first === row.last && row.events === 1;
    const events = eventsOf
      .all(row.first, row.last)
      .filter(
        ({ scope, dictionary, category, action }) =>
          isOne ||
          ((scopes?.includes(scope) ?? true) &&
            (dictionaries?.includes(dictionary) ?? true) &&
            (categories?.includes(category) ?? true) &&
            (category !== 'dict.record.*' || (actions?.includes(action) ?? true))),
      );
    if (events.length !== row.events) return null;
    const elements = events.map(({ category, body }) => (category === 'dict.record.*' ? element(body) : body));
    const [id, name, at] = [`${row.id}-${row.nonce}`, row.name, row.at].map((text) => JSON.stringify(text));
    return `{"deliveryId":${id},"subscriptionName":${name},"occurredAt":${at},"events":[${elements.join(',')}]}`;
  } catch {
    return null;
  }
}

/** One JSON value at the beginning of a text: strings and numbers unchanged, nesting by a regular expression for each level. */
const scalar = String.raw`"(?:[^"\\]|\\.)*"|[^",:{}[\]]+`;
const nested = [1, 2, 3, 4, 5].reduce(
  (inner) => String.raw`(?:${scalar}|[,:]|\{(?:${inner})*\}|\[(?:${inner})*\])`,
  '(?!)',
);
const member = new RegExp(
  String.raw`("(?:[^"\\]|\\.)*"):((?:${scalar}|\{(?:${nested})*\}|\[(?:${nested})*\]))(?:,|\}$)`,
  'gy',
);

function element(envelope: string): string {
  const found = new Map<string, string>();
  member.lastIndex = 1;
  for (let next = member.exec(envelope); next !== null; next = member.exec(envelope))
    found.set(next[1] ?? '', next[2] ?? '');
  const names = ['schemaVersion', 'eventType', 'dictionary', 'businessKey', 'action', 'version', 'validFrom', 'data'];
  const value = (name: string): string => {
    const text = name === 'eventType' ? '"dictionary.changed"' : found.get(`"${name}"`);
    if (text === undefined) throw new Error('no envelope');
    return text;
  };
  return `{${names.map((name) => `"${name}":${value(name)}`).join(',')}}`;
}

/** The same of version 5. */
export function bodiesAfter(connection: Connection, part = whole): ReadonlyMap<number, string | null> {
  const rows = connection
    .prepare<
      [Part],
      {
        readonly id: number;
        readonly nonce: string;
        readonly name: string;
        readonly at: string;
        readonly body: string | Buffer | null;
      }
    >(
      `SELECT d.id, coalesce(d.nonce, c.nonce) AS nonce, d.subscription_name AS name, c.occurred_at AS at, c.body
       FROM webhook_deliveries d JOIN webhook_contents c ON c.id = d.content_id
       WHERE d.id > @after ORDER BY d.id LIMIT @limit`,
    )
    .all(part);
  return new Map(
    rows.map(({ id, nonce, name, at, body }) => {
      if (body === null) return [id, null];
      const events = typeof body === 'string' ? body : inflateSync(body).toString();
      const [deliveryId, subscription, time] = [`${id}-${nonce}`, name, at].map((text) => JSON.stringify(text));
      return [
        id,
        `{"deliveryId":${deliveryId},"subscriptionName":${subscription},"occurredAt":${time},"events":[${events}]}`,
      ];
    }),
  );
}

/** More deliveries of version 4: transactions of one event each, for each of so many subscriptions with the same filter. */
export function addDeliveries(
  connection: Connection,
  transactions: number,
  subscriptions: number,
  dataBytes = 200,
): void {
  const last = connection.prepare<[], number>('SELECT max(id) FROM outbox_events').pluck().get() ?? 0;
  const event = connection.prepare(
    `INSERT INTO outbox_events (id, tx_time, category, scope, dictionary, business_key, action, body)
     VALUES (?, ?, 'dict.record.*', 'PUBLIC', 'tools', ?, 'created', ?)`,
  );
  const delivery = connection.prepare(
    `INSERT INTO webhook_deliveries (nonce, subscription_id, form_id, first_event, last_event, events, occurred_at, state,
       attempts, attempts_before, due_run_ms) VALUES (?, 1, 1, ?, ?, 1, ?, 'pending', 0, 0, ?)`,
  );
  connection.transaction(() => {
    for (let n = 1; n <= transactions; n++) {
      const id = last + n;
      const at = new Date(1_800_000_000_000 + n).toISOString();
      // Not to be compressed to nothing.
      const text = Array.from(
        { length: Math.ceil(dataBytes / 10) },
        (_, i) => `${(id * 7919 + i * 104_729) % 1e9} `,
      ).join('');
      const names = `"schemaVersion":"1.0.0","eventType":"dictionary.changed","occurredAt":"${at}","txTime":"${at}"`;
      const record = `"dictionary":"tools","businessKey":"k${id}","action":"created","version":1,"validFrom":"${at}"`;
      event.run(id, at, `k${id}`, `{${names},"scope":"PUBLIC",${record},"data":{"n":${id},"text":"${text}"}}`);
      for (let s = 0; s < subscriptions; s++) delivery.run(`${n}-${s}`.padStart(16, '0'), id, id, at, n);
    }
  })();
}
