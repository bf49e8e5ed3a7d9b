/**
 * The bodies of deliveries: rendered from the outbox's events by the delivery's body template, or kept. A fault in one
 * delivery must not stop the others. Renderer 1 must never change: a delivery has the same bytes on every attempt, also
 * after an update. Another form of body needs another renderer.
 */
import { deflateSync, inflateSync } from 'node:zlib';
import { LinesideError, messageOf, systemCode } from '../../../shared/base/errors.ts';
import type { Instant } from '../../../shared/base/instant.ts';
import type { Connection } from '../../../shared/storage/open.ts';
import type { Filter } from '../face.ts';
import { type FilterColumns, filterColumns, filterIn, recordCategory } from '../subscriptions/filter.ts';
import { deliveryIdOf, type PendingDelivery } from './delivery-rows.ts';

export interface DeliveryBody {
  readonly subscriptionName: string;
  readonly body: Buffer;
}

export interface NoBody {
  readonly unavailable: string;
}

/** In memory. A filter of 1,000 long names has some 128 KiB, the usual one less than 1. */
const maxTemplates = 64;

type BodyKey = Pick<PendingDelivery, 'id' | 'nonce' | 'templateId' | 'firstEvent' | 'lastEvent' | 'occurredAt'>;

interface CachedTemplate {
  readonly template: BodyTemplate;
  readonly columns: FilterColumns;
}

interface TemplateRow extends FilterColumns {
  readonly id: number;
  readonly subscriptionId: number;
  readonly renderer: number;
  readonly name: string;
}

interface DeliveryRow {
  readonly events: number;
  readonly kept: Buffer | null;
}

/** `scopes` may be fewer than the subscription's. */
type Named = Filter & { readonly name: string };

export class BodySource {
  readonly #connection: Connection;
  readonly #sql: ReturnType<typeof statements>;
  readonly #cached = new Map<number, CachedTemplate>();

  constructor(connection: Connection) {
    this.#connection = connection;
    this.#sql = statements(connection);
  }

  /** The same bytes each time, or the reason why there is no body. Throws when refdata.db cannot be read at the moment. */
  bodyOf(delivery: BodyKey): DeliveryBody | NoBody {
    try {
      return this.#bodyOf(delivery) ?? { unavailable: 'the events of this delivery are not kept any more' };
    } catch (error) {
      if (systemCode(error).startsWith('SQLITE_') || !this.#connection.open) throw error;
      return { unavailable: `the body of this delivery cannot be made: ${messageOf(error)}` };
    }
  }

  /** undefined: at least one of its events was removed. */
  #bodyOf(delivery: BodyKey): DeliveryBody | undefined {
    const cached = this.#template(delivery.templateId);
    const stored = this.#sql.delivery.get(delivery.id);
    if (cached === undefined || stored === undefined) return undefined;
    const { template, columns } = cached;
    if (stored.kept !== null) return { subscriptionName: template.name, body: inflateSync(stored.kept) };
    const { firstEvent, lastEvent, occurredAt } = delivery;
    // Most transactions have one event, which was planned because the filter takes it.
    const isOne = firstEvent === lastEvent && stored.events === 1;
    const ids = isOne ? [firstEvent] : this.#sql.eventIds.all({ firstEvent, lastEvent, ...columns });
    const events = ids.map((id) => this.#sql.event.get(id)).filter((event) => event !== undefined);
    if (events.length !== stored.events) return undefined;
    const body = renderBody(template, { deliveryId: deliveryIdOf(delivery), occurredAt }, events);
    return { subscriptionName: template.name, body };
  }

  /** In a transaction: keeps the body, so that the outbox may remove its events. Answers its bytes; 0: it has none, or was kept before. */
  keep(delivery: BodyKey): number {
    if (this.isKept(delivery.id)) return 0;
    const made = this.bodyOf(delivery);
    if ('unavailable' in made) return 0;
    // Bodies repeat the same names: deflated, they have about a tenth of the bytes.
    this.#sql.keep.run(delivery.id, deflateSync(made.body));
    return made.body.length;
  }

  isKept(deliveryId: number): boolean {
    return this.#sql.isKept.get(deliveryId) !== undefined;
  }

  templateOf(templateId: number): BodyTemplate | undefined {
    return this.#template(templateId)?.template;
  }

  hasTemplate(id: number): boolean {
    return this.#sql.template.get(id) !== undefined;
  }

  /** In a transaction; answers its id. */
  insertTemplate(subscriptionId: number, template: Named): number {
    return Number(this.#sql.insertTemplate.run(keyOf(subscriptionId, template)).lastInsertRowid);
  }

  /** In a transaction. The id of an equal template, which is made when there is none. */
  templateFor(subscriptionId: number, template: Named): number {
    return this.#sql.findTemplate.get(keyOf(subscriptionId, template)) ?? this.insertTemplate(subscriptionId, template);
  }

  #template(id: number): CachedTemplate | undefined {
    const kept = this.#cached.get(id);
    if (kept !== undefined) return kept;
    const row = this.#sql.template.get(id);
    if (row === undefined) return undefined;
    const { scopes, dictionaries, actions, categories } = row;
    const cached = {
      template: { ...row, ...filterIn(row, `body template ${id}`) },
      columns: { scopes, dictionaries, actions, categories },
    };
    if (this.#cached.size >= maxTemplates) this.#cached.clear();
    this.#cached.set(id, cached);
    return cached;
  }
}

function keyOf(subscriptionId: number, template: Named): Omit<TemplateRow, 'id'> {
  return { subscriptionId, renderer, name: template.name, ...filterColumns(template) };
}

function statements(connection: Connection) {
  // The rule of filter.ts in SQL: each row that is read costs some 4 us, and a transaction of 50,000 events that are mostly
  // for others would block the event loop for 0.2 s.
  const isListed = (column: string, list: string): string =>
    `(${list} IS NULL OR ${column} IN (SELECT value FROM json_each(${list})))`;
  return {
    delivery: connection.prepare<[number], DeliveryRow>(
      `SELECT d.events, b.body AS kept FROM webhook_deliveries d LEFT JOIN webhook_bodies b ON b.delivery_id = d.id
       WHERE d.id = ?`,
    ),
    eventIds: connection
      .prepare<[Pick<BodyKey, 'firstEvent' | 'lastEvent'> & FilterColumns], number>(
        `SELECT id FROM outbox_events WHERE id BETWEEN $firstEvent AND $lastEvent
         AND ${isListed('scope', '$scopes')} AND ${isListed('dictionary', '$dictionaries')}
         AND ${isListed('category', '$categories')}
         AND (category <> '${recordCategory}' OR ${isListed('action', '$actions')}) ORDER BY id`,
      )
      .pluck(),
    event: connection.prepare<[number], StoredEvent>('SELECT category, body FROM outbox_events WHERE id = ?'),
    isKept: connection.prepare<[number], number>('SELECT 1 FROM webhook_bodies WHERE delivery_id = ?').pluck(),
    keep: connection.prepare<[number, Buffer]>('INSERT INTO webhook_bodies (delivery_id, body) VALUES (?, ?)'),
    template: connection.prepare<[number], TemplateRow>(
      `SELECT id, subscription_id AS subscriptionId, renderer, name, scopes, dictionaries, actions, categories
       FROM webhook_forms WHERE id = ?`,
    ),
    findTemplate: connection
      .prepare<[Omit<TemplateRow, 'id'>], number>(
        `SELECT id FROM webhook_forms WHERE subscription_id = @subscriptionId AND renderer = @renderer AND name = @name
         AND scopes = @scopes AND dictionaries IS @dictionaries AND actions IS @actions AND categories IS @categories
         ORDER BY id LIMIT 1`,
      )
      .pluck(),
    insertTemplate: connection.prepare<[Omit<TemplateRow, 'id'>]>(
      `INSERT INTO webhook_forms (subscription_id, renderer, name, scopes, dictionaries, actions, categories)
       VALUES (@subscriptionId, @renderer, @name, @scopes, @dictionaries, @actions, @categories)`,
    ),
  };
}

/** Of new body templates. */
const renderer = 1;

export interface BodyTemplate extends Filter {
  readonly id: number;
  readonly subscriptionId: number;
  readonly renderer: number;
  readonly name: string;
}

export interface StoredEvent {
  readonly category: string;
  /** An envelope of the outbox. */
  readonly body: string;
}

/** `events`: those the template's filters take, in the order of their ids. Throws STORAGE_DAMAGED, or INTERNAL for another renderer. */
export function renderBody(
  template: BodyTemplate,
  { deliveryId, occurredAt }: { readonly deliveryId: string; readonly occurredAt: Instant },
  events: Iterable<StoredEvent>,
): Buffer {
  if (template.renderer !== renderer) {
    throw new LinesideError(
      'INTERNAL',
      `a delivery asks for renderer ${template.renderer}, this program has ${renderer}`,
      {
        hint: 'It was made by a newer lineside: install that version.',
      },
    );
  }
  const elements: string[] = [];
  for (const { category, body } of events) elements.push(category === recordCategory ? recordElement(body) : body);
  const [id, name, at] = [deliveryId, template.name, occurredAt].map((text) => JSON.stringify(text));
  return Buffer.from(
    `{"deliveryId":${id},"subscriptionName":${name},"occurredAt":${at},"events":[${elements.join(',')}]}`,
  );
}

/** In this order; undefined: copied from the envelope. Webhooks have one type of record event, for bulk imports too. */
const recordFields: readonly (readonly [name: string, text: string | undefined])[] = [
  ['schemaVersion', undefined],
  ['eventType', '"dictionary.changed"'],
  ['dictionary', undefined],
  ['businessKey', undefined],
  ['action', undefined],
  ['version', undefined],
  ['validFrom', undefined],
  ['data', undefined],
];
const wanted: ReadonlySet<string> = new Set(recordFields.map(([name]) => name));

/** Copies the values' JSON from the envelope unchanged: parsing could alter numbers. */
function recordElement(envelope: string): string {
  const found = membersOf(envelope);
  const members = recordFields.map(([name, text]) => `"${name}":${text ?? found.get(name) ?? damaged()}`);
  return `{${members.join(',')}}`;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN = 0x7b;
const CLOSE = 0x7d;

/** Expects JSON.stringify's output without spaces; answers the JSON of the wanted members. */
function membersOf(text: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  if (text.charCodeAt(0) !== OPEN) damaged();
  for (let at = 1; found.size < wanted.size; at += 1) {
    const nameEnd = stringEnd(text, at);
    if (text.charCodeAt(nameEnd) !== COLON) damaged();
    const end = valueEnd(text, nameEnd + 1);
    const name = text.slice(at + 1, nameEnd - 1);
    if (wanted.has(name)) found.set(name, text.slice(nameEnd + 1, end));
    if (text.charCodeAt(end) !== COMMA) break;
    at = end;
  }
  return found;
}

/** Index after the value that begins at `from`. */
function valueEnd(text: string, from: number): number {
  let depth = 0;
  for (let at = from; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = stringEnd(text, at) - 1;
    else if (code === OPEN || code === OPEN_LIST) depth += 1;
    else if (code === CLOSE || code === CLOSE_LIST) {
      if (depth === 0) return at;
      depth -= 1;
    } else if (code === COMMA && depth === 0) return at;
  }
  return damaged();
}

/** Index after the closing quote of the string that begins at `from`. */
function stringEnd(text: string, from: number): number {
  if (text.charCodeAt(from) !== QUOTE) damaged();
  for (let at = from + 1; ; at += 1) {
    at = text.indexOf('"', at);
    if (at < 0) damaged();
    let escapes = 0;
    while (text.charCodeAt(at - 1 - escapes) === BACKSLASH) escapes += 1;
    if (escapes % 2 === 0) return at + 1;
  }
}

function damaged(): never {
  throw new LinesideError('STORAGE_DAMAGED', 'a stored outbox event is no envelope');
}
