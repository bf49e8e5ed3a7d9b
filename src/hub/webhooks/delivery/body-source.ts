/**
 * The bodies of deliveries: rendered from the outbox's events by the delivery's body template, or kept. A fault in one
 * delivery must not stop the others.
 */
import { deflateSync, inflateSync } from 'node:zlib';
import { messageOf, systemCode } from '../../../shared/base/errors.ts';
import type { Connection } from '../../../shared/storage/open.ts';
import type { Filter } from '../face.ts';
import { type FilterColumns, filterColumns, filterIn, recordCategory } from '../subscriptions/filter.ts';
import { type BodyTemplate, renderBody, renderer, type StoredEvent } from './body.ts';
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
