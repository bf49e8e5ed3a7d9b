/** The bodies of deliveries: made of the outbox's events by the delivery's form, or as they were kept for review. */
import { deflateSync, inflateSync } from 'node:zlib';
import type { Connection } from '../../shared/storage/open.ts';
import type { Action, Category, Scope } from '../outbox/event.ts';
import { renderBody, type StoredEvent } from './body.ts';
import { recordCategory } from './filter.ts';
import { type Due, deliveryIdOf, type Form } from './parts.ts';

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
const maxForms = 64;

type Range = Pick<Due, 'firstEvent' | 'lastEvent'>;
type Lists = Pick<FormRow, 'scopes' | 'dictionaries' | 'actions' | 'categories'>;

interface KnownForm {
  readonly form: Form;
  /** As they are stored. */
  readonly lists: Lists;
}

interface DeliveryRow {
  readonly events: number;
  readonly frozen: Buffer | null;
}

interface FormRow {
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
  readonly #form;
  readonly #ids;
  readonly #event;
  readonly #forms = new Map<number, KnownForm>();

  constructor(connection: Connection) {
    this.#delivery = connection.prepare<[number], DeliveryRow>(
      `SELECT d.events, b.body AS frozen FROM webhook_deliveries d LEFT JOIN webhook_bodies b ON b.delivery_id = d.id
       WHERE d.id = ?`,
    );
    this.#form = connection.prepare<[number], FormRow>(
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
    due: Pick<Due, 'id' | 'nonce' | 'formId' | 'firstEvent' | 'lastEvent' | 'occurredAt'>,
  ): DeliveryBody | undefined {
    const known = this.#known(due.formId);
    const delivery = this.#delivery.get(due.id);
    if (known === undefined || delivery === undefined) return undefined;
    const { form } = known;
    if (delivery.frozen !== null) return { subscriptionName: form.name, body: inflateBody(delivery.frozen) };
    const { firstEvent, lastEvent } = due;
    // Mostly a transaction is one event, which was planned because the filter takes it.
    const isOne = firstEvent === lastEvent && delivery.events === 1;
    const events = isOne
      ? this.#events([firstEvent])
      : this.#events(this.#ids.all({ firstEvent, lastEvent, ...known.lists }));
    if (events.length !== delivery.events) return undefined;
    const { occurredAt } = due;
    const body = renderBody(form, { deliveryId: deliveryIdOf(due), occurredAt }, events);
    return { subscriptionName: form.name, body };
  }

  /** undefined: there is none of this id. */
  formOf(formId: number): Form | undefined {
    return this.#known(formId)?.form;
  }

  #events(ids: readonly number[]): readonly StoredEvent[] {
    return ids.map((id) => this.#event.get(id)).filter((event) => event !== undefined);
  }

  #known(formId: number): KnownForm | undefined {
    const kept = this.#forms.get(formId);
    if (kept !== undefined) return kept;
    const row = this.#form.get(formId);
    if (row === undefined) return undefined;
    const known = knownForm(row);
    if (this.#forms.size >= maxForms) this.#forms.clear();
    this.#forms.set(formId, known);
    return known;
  }
}

function knownForm({ scopes, dictionaries, actions, categories, ...row }: FormRow): KnownForm {
  const form: Form = {
    ...row,
    scopes: JSON.parse(scopes) as Scope[],
    dictionaries: list(dictionaries),
    actions: list(actions) as Action[] | null,
    categories: list(categories) as Category[] | null,
  };
  return { form, lists: { scopes, dictionaries, actions, categories } };
}

function list(stored: string | null): readonly string[] | null {
  return stored === null ? null : (JSON.parse(stored) as string[]);
}
