/**
 * Version 5 of refdata.db: what deliveries carry is stored beside them. Until then a delivery named events of the outbox, which
 * were rendered for each attempt and had to stay in the outbox. The rules by which they were rendered are frozen here.
 */
import { inflateSync } from 'node:zlib';
import { LinesideError, messageOf, systemCode } from '../shared/base/errors.ts';
import type { Batch, Estimate, Move } from '../shared/storage/migrate.ts';
import type { Connection } from '../shared/storage/open.ts';
import { storedBody, wholeElementSql } from './webhooks/delivery/contents.ts';

const begin = `
-- Ids of deliveries are never used twice.
ALTER TABLE webhook_progress ADD COLUMN last_delivery INTEGER NOT NULL DEFAULT 0;
-- What deliveries carry: the events of a transaction that a filter takes, made once and shared by their deliveries.
CREATE TABLE webhook_contents (
  -- Of the first of its deliveries. All are between the first and the last; others may be, too.
  id INTEGER PRIMARY KEY,
  last_delivery INTEGER NOT NULL,
  -- 16 hex digits of chance: deliveryId is "<id>-<nonce>", unique also when a backup takes ids back.
  nonce TEXT NOT NULL,
  -- When it was planned.
  occurred_at TEXT NOT NULL,
  -- JSON list: of its events.
  scopes TEXT NOT NULL,
  events INTEGER NOT NULL,
  -- Elements with commas between: JSON, or as a BLOB deflated. NULL: not kept any more.
  body
);

DROP INDEX webhook_due;
DROP INDEX webhook_review;
ALTER TABLE webhook_deliveries RENAME TO webhook_deliveries_4;
UPDATE webhook_progress SET last_delivery = seq FROM sqlite_sequence WHERE name = 'webhook_deliveries_4';
CREATE TABLE webhook_deliveries (
  id INTEGER PRIMARY KEY,
  -- NULL: that of its contents. An older version gave each its own.
  nonce TEXT,
  subscription_id INTEGER NOT NULL,
  -- When it was planned.
  subscription_name TEXT NOT NULL,
  content_id INTEGER NOT NULL,
  -- pending, retrying, delivered, rejected, failed
  state TEXT NOT NULL,
  -- Attempts made in all, and those made when it was last sent again by hand: the schedule counts from there.
  attempts INTEGER NOT NULL,
  attempts_before INTEGER NOT NULL,
  due_run_ms INTEGER NOT NULL,
  -- NULL while it waits.
  ended_at TEXT,
  ended_run_ms INTEGER
);
-- Never attempted, in the order in which they were planned: led by the subscription, each delivery of an event would be on a page
-- of its own (200 subscriptions: 780 KB written for each event, 81 KB so).
CREATE INDEX webhook_new ON webhook_deliveries (id, subscription_id) WHERE state = 'pending' AND attempts = 0;
-- To be sent again.
CREATE INDEX webhook_again ON webhook_deliveries (subscription_id, due_run_ms, id)
  WHERE state IN ('pending', 'retrying') AND attempts > 0;
CREATE INDEX webhook_review ON webhook_deliveries (state, id) WHERE state IN ('rejected', 'failed');

-- While rows are moved: the contents that later deliveries may share.
CREATE TABLE webhook_moved_contents (
  first_event INTEGER NOT NULL,
  last_event INTEGER NOT NULL,
  occurred_at TEXT NOT NULL,
  -- The first template with the same filter.
  template_id INTEGER NOT NULL,
  content_id INTEGER NOT NULL,
  PRIMARY KEY (first_event, last_event, occurred_at, template_id)
) WITHOUT ROWID;
`;

const end = `
DROP TABLE webhook_moved_contents;
DROP TABLE webhook_deliveries_4;
DROP TABLE webhook_bodies;
DROP TABLE webhook_forms;
ALTER TABLE webhook_subscriptions DROP COLUMN form_id;
-- progress is written by a transaction only if it adds no event (a page less for each change): the newest event has both values.
CREATE TRIGGER newest_outbox_event_gone AFTER DELETE ON outbox_events
  WHEN NOT EXISTS (SELECT 1 FROM outbox_events WHERE id > OLD.id) BEGIN
    UPDATE progress SET last_outbox_id = max(last_outbox_id, OLD.id), last_tx_time = max(last_tx_time, OLD.tx_time); END;
`;

const estimatedRows = 2_000;
const batchBytes = 4 * 1024 * 1024;
/** In memory; a template with a filter of 1,000 long names has some 128 KiB. */
const maxTemplates = 256;

/** JSON deflates to three quarters at worst (base64), and a row fills at least half of its page. */
const growthOfBody = 1.5;
/** Of a delivery, its content and their indexes, besides the body. */
const rowBytes = 256;
/** Write-ahead log, catalogue, pages that are partly used. */
const reserveBytes = 32 * 1024 * 1024;

interface Position {
  readonly id: number;
  readonly templateId: number;
  readonly firstEvent: number;
  readonly lastEvent: number;
  readonly occurredAt: string;
}

interface OldDelivery extends Position {
  readonly nonce: string;
  readonly subscriptionId: number;
  readonly events: number;
}

interface Filter {
  readonly scopes: string;
  readonly dictionaries: string | null;
  readonly actions: string | null;
  readonly categories: string | null;
}

interface Template extends Filter {
  readonly renderer: number;
  readonly name: string;
  /** The first with the same renderer and filter. */
  readonly firstId: number;
}

/** null: it is not kept. */
type Body = string | Buffer | null;

const gone: Template = {
  renderer: 0,
  name: '',
  firstId: 0,
  scopes: '[]',
  dictionaries: null,
  actions: null,
  categories: null,
};

/** `batchRows`: moved in a transaction, 0.2 s or 6 MiB of write-ahead log at most. */
export function contentsMigration(batchRows = 2_000) {
  const batches = (connection: Connection): (() => Batch) => {
    const mover = new Mover(connection);
    return () => mover.batch(batchRows);
  };
  return { sql: begin, breaksOlder: true, move: { estimate, batches, end } satisfies Move } as const;
}

/** The key by which deliveries share their content. */
function keyOf({ firstEvent, lastEvent, occurredAt }: Position, { firstId }: Template) {
  return { firstEvent, lastEvent, occurredAt, templateId: firstId };
}

/** Of each content, all events of its range, whether the filter takes them or not, and its kept body. */
function estimate(connection: Connection, alive: () => void): Estimate {
  const tables = ['webhook_deliveries_4', 'webhook_deliveries'];
  const exists = connection.prepare<[string], number>("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?");
  const table = tables.find((name) => exists.get(name) !== undefined);
  if (table === undefined) return { rows: 0, bytes: 0 };
  const templateOf = templatesOf(connection);
  const page = connection.prepare<[number, number], Position & { readonly keptBytes: number | null }>(
    `SELECT d.id, form_id AS templateId, first_event AS firstEvent, last_event AS lastEvent, occurred_at AS occurredAt,
       octet_length(b.body) AS keptBytes
     FROM ${table} d LEFT JOIN webhook_bodies b ON b.delivery_id = d.id WHERE d.id > ? ORDER BY d.id LIMIT ?`,
  );
  const eventBytes = connection
    .prepare<[number, number], number | null>(
      'SELECT sum(octet_length(body)) FROM outbox_events WHERE id BETWEEN ? AND ?',
    )
    .pluck();
  let [rows, bytes, after, firstEvent] = [0, 0, 0, 0];
  const seen = new Set<string>();
  for (let found = page.all(after, estimatedRows); found.length > 0; found = page.all(after, estimatedRows)) {
    alive();
    for (const delivery of found) {
      // The first event never falls as the id rises: earlier keys do not come again.
      if (delivery.firstEvent !== firstEvent) seen.clear();
      ({ id: after, firstEvent } = delivery);
      rows += 1;
      bytes += delivery.keptBytes ?? 0;
      const key = JSON.stringify(keyOf(delivery, templateOf(delivery.templateId)));
      if (seen.has(key)) continue;
      seen.add(key);
      bytes += eventBytes.get(firstEvent, delivery.lastEvent) ?? 0;
    }
  }
  return { rows, bytes: Math.ceil(bytes * growthOfBody) + rows * rowBytes + reserveBytes };
}

function templatesOf(connection: Connection): (id: number) => Template {
  const cached = new Map<number, Template>();
  const row = connection.prepare<[number], Template>(
    `SELECT renderer, name, scopes, dictionaries, actions, categories, (SELECT min(id) FROM webhook_forms s
       WHERE s.renderer = f.renderer AND s.scopes = f.scopes AND s.dictionaries IS f.dictionaries
       AND s.actions IS f.actions AND s.categories IS f.categories) AS firstId
     FROM webhook_forms f WHERE id = ?`,
  );
  return (id) => {
    const template = cached.get(id) ?? row.get(id) ?? gone;
    if (cached.size >= maxTemplates) cached.clear();
    cached.set(id, template);
    return template;
  };
}

/** In a transaction. */
class Mover {
  readonly #sql;
  readonly #templateOf: (id: number) => Template;
  #faults: string[] = [];
  #bytes = 0;

  constructor(connection: Connection) {
    this.#sql = statements(connection);
    this.#templateOf = templatesOf(connection);
  }

  batch(batchRows: number): Batch {
    const { page, insert, removeDeliveries, removeBodies, removeContents } = this.#sql;
    let [rows, last, firstEvent] = [0, 0, 0];
    this.#bytes = 0;
    this.#faults = [];
    for (const delivery of page.all(batchRows)) {
      const template = this.#templateOf(delivery.templateId);
      insert.run({ id: delivery.id, name: template.name, contentId: this.#contentOf(delivery, template) });
      rows += 1;
      ({ id: last, firstEvent } = delivery);
      if (this.#bytes >= batchBytes) break;
    }
    removeDeliveries.run(last);
    removeBodies.run(last);
    removeContents.run(firstEvent);
    return { rows, faults: this.#faults };
  }

  #contentOf(delivery: OldDelivery, template: Template): number {
    const { find, insertContent, extend, addBody, share } = this.#sql;
    const key = keyOf(delivery, template);
    const { id, nonce, occurredAt, events } = delivery;
    const shared = find.get(key);
    if (shared !== undefined) extend.run(id, shared.id);
    if (shared?.isKept === 1) return shared.id;
    const body = this.#bodyOf(delivery, template);
    if (shared !== undefined) {
      // The events are gone, and another delivery of them had its body kept.
      if (body !== null) addBody.run(body, shared.id);
      return shared.id;
    }
    insertContent.run({ id, nonce, occurredAt, scopes: template.scopes, events, body });
    share.run({ ...key, contentId: id });
    return id;
  }

  /** null: not there any more, or not to be made: a fault in one delivery does not keep the others. */
  #bodyOf(delivery: OldDelivery, template: Template): Body {
    if (template === gone) return null;
    try {
      const elements = this.#keptElements(delivery, template) ?? this.#rendered(delivery, template);
      this.#bytes += elements?.length ?? 0;
      return elements === undefined ? null : storedBody(elements);
    } catch (error) {
      // A filter that is not JSON is the delivery's own fault, a disk that fails is not.
      const code = systemCode(error);
      if (code.startsWith('SQLITE_') && code !== 'SQLITE_ERROR') throw error;
      this.#faults.push(`${delivery.id}-${delivery.nonce}: ${messageOf(error)}`);
      return null;
    }
  }

  #keptElements({ id, nonce, occurredAt }: OldDelivery, { name }: Template): string | undefined {
    const kept = this.#sql.kept.get(id);
    if (kept === undefined) return undefined;
    const whole = inflateSync(kept).toString();
    const [deliveryId, subscription, at] = [`${id}-${nonce}`, name, occurredAt].map((text) => JSON.stringify(text));
    const head = `{"deliveryId":${deliveryId},"subscriptionName":${subscription},"occurredAt":${at},"events":[`;
    if (whole.startsWith(head) && whole.endsWith(']}')) return whole.slice(head.length, -2);
    throw new LinesideError('STORAGE_DAMAGED', 'its kept body is not its own');
  }

  #rendered({ firstEvent, lastEvent, events }: OldDelivery, template: Template): string | undefined {
    const { scopes, dictionaries, actions, categories } = template;
    if (template.renderer !== 1) throw new LinesideError('INTERNAL', `there is no renderer ${template.renderer}`);
    const isOne = firstEvent === lastEvent && events === 1;
    const filter = { firstEvent, lastEvent, scopes, dictionaries, actions, categories };
    const ids = isOne ? [firstEvent] : this.#sql.eventIds.all(filter);
    const elements = ids.map((id) => this.#element(id)).filter((element) => element !== undefined);
    return elements.length === events ? elements.join(',') : undefined;
  }

  /** undefined: the event is gone. */
  #element(id: number): string | undefined {
    const element = this.#sql.element.get(id);
    if (element === null) throw new LinesideError('STORAGE_DAMAGED', `outbox event ${id} is damaged`);
    return element;
  }
}

function statements(connection: Connection) {
  const isListed = (column: string, list: string): string =>
    `(${list} IS NULL OR ${column} IN (SELECT value FROM json_each(${list})))`;
  const sameKey = `m.first_event = @firstEvent AND m.last_event = @lastEvent AND m.occurred_at = @occurredAt
    AND m.template_id = @templateId`;
  return {
    page: connection.prepare<[number], OldDelivery>(
      `SELECT id, nonce, subscription_id AS subscriptionId, form_id AS templateId, first_event AS firstEvent,
         last_event AS lastEvent, events, occurred_at AS occurredAt FROM webhook_deliveries_4 ORDER BY id LIMIT ?`,
    ),
    insert: connection.prepare<[{ readonly id: number; readonly name: string; readonly contentId: number }]>(
      `INSERT INTO webhook_deliveries (id, nonce, subscription_id, subscription_name, content_id, state, attempts,
         attempts_before, due_run_ms, ended_at, ended_run_ms)
       SELECT id, nonce, subscription_id, @name, @contentId, state, attempts, attempts_before, due_run_ms, ended_at,
         ended_run_ms FROM webhook_deliveries_4 WHERE id = @id`,
    ),
    kept: connection.prepare<[number], Buffer>('SELECT body FROM webhook_bodies WHERE delivery_id = ?').pluck(),
    eventIds: connection
      .prepare<[Filter & Pick<Position, 'firstEvent' | 'lastEvent'>], number>(
        `SELECT id FROM outbox_events WHERE id BETWEEN $firstEvent AND $lastEvent
         AND ${isListed('scope', '$scopes')} AND ${isListed('dictionary', '$dictionaries')}
         AND ${isListed('category', '$categories')}
         AND (category <> 'dict.record.*' OR ${isListed('action', '$actions')}) ORDER BY id`,
      )
      .pluck(),
    element: connection
      .prepare<[number], string | null>(`SELECT ${wholeElementSql} FROM outbox_events e WHERE e.id = ?`)
      .pluck(),
    find: connection.prepare<[ReturnType<typeof keyOf>], { readonly id: number; readonly isKept: 0 | 1 }>(
      `SELECT c.id, c.body IS NOT NULL AS isKept FROM webhook_moved_contents m JOIN webhook_contents c ON c.id = m.content_id
       WHERE ${sameKey}`,
    ),
    insertContent: connection.prepare<
      [Pick<OldDelivery, 'id' | 'nonce' | 'occurredAt' | 'events'> & Pick<Filter, 'scopes'> & { readonly body: Body }]
    >(
      `INSERT INTO webhook_contents (id, last_delivery, nonce, occurred_at, scopes, events, body)
       VALUES (@id, @id, @nonce, @occurredAt, @scopes, @events, @body)`,
    ),
    extend: connection.prepare<[number, number]>('UPDATE webhook_contents SET last_delivery = ? WHERE id = ?'),
    addBody: connection.prepare<[string | Buffer, number]>('UPDATE webhook_contents SET body = ? WHERE id = ?'),
    share: connection.prepare<[ReturnType<typeof keyOf> & { readonly contentId: number }]>(
      `INSERT INTO webhook_moved_contents (first_event, last_event, occurred_at, template_id, content_id)
       VALUES (@firstEvent, @lastEvent, @occurredAt, @templateId, @contentId)`,
    ),
    removeDeliveries: connection.prepare<[number]>('DELETE FROM webhook_deliveries_4 WHERE id <= ?'),
    removeBodies: connection.prepare<[number]>('DELETE FROM webhook_bodies WHERE delivery_id <= ?'),
    removeContents: connection.prepare<[number]>('DELETE FROM webhook_moved_contents WHERE first_event < ?'),
  };
}
