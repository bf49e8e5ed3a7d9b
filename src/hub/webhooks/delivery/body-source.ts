/** The bodies of deliveries: made of the outbox's events by the delivery's form, or as they were kept for review. */
import { deflateSync, inflateSync } from 'node:zlib';
import type { Connection } from '../../../shared/storage/open.ts';
import type { Action, Category, Scope } from '../../outbox/event.ts';
import { type BodyTemplate, deliveryIdOf, type PendingDelivery } from '../parts.ts';
import { recordCategory } from '../subscriptions/filter.ts';
import { renderBody, type StoredEvent } from './body.ts';

/** What webhook_bodies holds of a body. Bodies repeat the same names: some tenth of the bytes. */
export function deflateBody(body: Buffer): Buffer {
  return deflateSync(body);
}

/** Throws where it is none. */
export function inflateBody(stored: Buffer): Buffer {
  return inflateSync(stored);
}

export interface DeliveryBody {
  readonly subscriptionName: string;
  readonly body: Buffer;
}

/** Forms in memory. A filter of 1,000 long names is some 128 KiB, the usual one less than 1. */
const maxTemplates = 64;

type Range = Pick<PendingDelivery, 'firstEvent' | 'lastEvent'>;
type Lists = Pick<TemplateRow, 'scopes' | 'dictionaries' | 'actions' | 'categories'>;

interface CachedTemplate {
  readonly template: BodyTemplate;
  /** As they are stored. */
  readonly lists: Lists;
}

interface DeliveryRow {
  readonly events: number;
  readonly frozen: Buffer | null;
}

interface TemplateRow {
  readonly id: number;
  readonly subscriptionId: number;
  readonly renderer: number;
  readonly name: string;
  readonly scopes: string;
  readonly dictionaries: string | null;
  readonly actions: string | null;
  readonly categories: string | null;
}

export class BodySource {
  readonly #delivery;
  readonly #template;
  readonly #ids;
  readonly #event;
  readonly #templates = new Map<number, CachedTemplate>();

  constructor(connection: Connection) {
    this.#delivery = connection.prepare<[number], DeliveryRow>(
      `SELECT d.events, b.body AS frozen FROM webhook_deliveries d LEFT JOIN webhook_bodies b ON b.delivery_id = d.id
       WHERE d.id = ?`,
    );
    this.#template = connection.prepare<[number], TemplateRow>(
      `SELECT id, subscription_id AS subscriptionId, renderer, name, scopes, dictionaries, actions, categories
       FROM webhook_forms WHERE id = ?`,
    );
    // The rule of filter.ts once more, since each row that is answered costs some 4 us: of a transaction of 50,000 events
    // that are mostly for others they held the loop for 0.2 s.
    const isListed = (column: string, list: string): string =>
      `(${list} IS NULL OR ${column} IN (SELECT value FROM json_each(${list})))`;
    this.#ids = connection
      .prepare<[Range & Lists], number>(
        `SELECT id FROM outbox_events WHERE id BETWEEN $firstEvent AND $lastEvent
         AND ${isListed('scope', '$scopes')} AND ${isListed('dictionary', '$dictionaries')}
         AND ${isListed('category', '$categories')}
         AND (category <> '${recordCategory}' OR ${isListed('action', '$actions')}) ORDER BY id`,
      )
      .pluck();
    this.#event = connection.prepare<[number], StoredEvent>('SELECT category, body FROM outbox_events WHERE id = ?');
  }

  /**
   * The same bytes each time. undefined: its events, or some of them, are gone. Throws SQLite's own errors, STORAGE_DAMAGED
   * where what is stored is no event, and INTERNAL where a newer lineside has planned it.
   */
  bodyOf(
    delivery: Pick<PendingDelivery, 'id' | 'nonce' | 'templateId' | 'firstEvent' | 'lastEvent' | 'occurredAt'>,
  ): DeliveryBody | undefined {
    const known = this.#known(delivery.templateId);
    const stored = this.#delivery.get(delivery.id);
    if (known === undefined || stored === undefined) return undefined;
    const { template } = known;
    if (stored.frozen !== null) return { subscriptionName: template.name, body: inflateBody(stored.frozen) };
    const { firstEvent, lastEvent } = delivery;
    // Mostly a transaction is one event, which was planned because the filter takes it.
    const isOne = firstEvent === lastEvent && stored.events === 1;
    const events = isOne
      ? this.#events([firstEvent])
      : this.#events(this.#ids.all({ firstEvent, lastEvent, ...known.lists }));
    if (events.length !== stored.events) return undefined;
    const { occurredAt } = delivery;
    const body = renderBody(template, { deliveryId: deliveryIdOf(delivery), occurredAt }, events);
    return { subscriptionName: template.name, body };
  }

  /** undefined: there is none of this id. */
  templateOf(templateId: number): BodyTemplate | undefined {
    return this.#known(templateId)?.template;
  }

  #events(ids: readonly number[]): readonly StoredEvent[] {
    return ids.map((id) => this.#event.get(id)).filter((event) => event !== undefined);
  }

  #known(templateId: number): CachedTemplate | undefined {
    const kept = this.#templates.get(templateId);
    if (kept !== undefined) return kept;
    const row = this.#template.get(templateId);
    if (row === undefined) return undefined;
    const known = cachedTemplate(row);
    if (this.#templates.size >= maxTemplates) this.#templates.clear();
    this.#templates.set(templateId, known);
    return known;
  }
}

function cachedTemplate({ scopes, dictionaries, actions, categories, ...row }: TemplateRow): CachedTemplate {
  const template: BodyTemplate = {
    ...row,
    scopes: JSON.parse(scopes) as Scope[],
    dictionaries: list(dictionaries),
    actions: list(actions) as Action[] | null,
    categories: list(categories) as Category[] | null,
  };
  return { template, lists: { scopes, dictionaries, actions, categories } };
}

function list(stored: string | null): readonly string[] | null {
  return stored === null ? null : (JSON.parse(stored) as string[]);
}
