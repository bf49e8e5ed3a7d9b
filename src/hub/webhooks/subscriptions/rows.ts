/** The SQL of subscriptions and their forms. What writes runs inside the transaction that changes a subscription. */
import { LinesideError } from '../../../shared/base/errors.ts';
import type { Instant } from '../../../shared/base/instant.ts';
import type { Connection } from '../../../shared/storage/open.ts';
import type { Action, Category, Scope } from '../../outbox/event.ts';
import type { Filter } from '../face.ts';
import type { RunMs, Subscription } from '../parts.ts';

/** All of a subscription's row. */
export interface Entry {
  readonly subscription: Subscription;
  readonly createdAt: Instant;
  readonly updatedAt: Instant;
  /** Sealed. */
  readonly secret: Buffer;
  readonly previous: Buffer | null;
  readonly previousUntil: RunMs | null;
}

/** The renderer of body.ts that deliveries planned now are made by. */
const renderer = 1;

/** A filter as it is stored. */
interface FilterRow {
  readonly scopes: string;
  readonly dictionaries: string | null;
  readonly actions: string | null;
  readonly categories: string | null;
}

interface Row extends FilterRow {
  readonly id: number;
  readonly name: string;
  readonly url: string;
  readonly consumer: string;
  readonly active: number;
  readonly version: number;
  readonly createdAt: Instant;
  readonly updatedAt: Instant;
  readonly templateId: number;
  readonly afterEvent: number;
  readonly secret: Buffer;
  readonly previous: Buffer | null;
  readonly previousUntil: RunMs | null;
}

const select = `SELECT id, name, url, consumer, scopes, dictionaries, actions, categories, active, version,
  created_at AS createdAt, updated_at AS updatedAt, form_id AS templateId, after_event AS afterEvent, secret,
  previous_secret AS previous, previous_until_run_ms AS previousUntil FROM webhook_subscriptions WHERE deleted = 0`;

export class SubscriptionRows {
  readonly #all;
  readonly #one;
  readonly #count;
  readonly #idOf;
  readonly #sameNames;
  readonly #insert;
  readonly #update;
  readonly #remove;
  readonly #insertTemplate;
  readonly #lastEvent;
  readonly #saveCursor;

  constructor(connection: Connection) {
    this.#all = connection.prepare<[], Row>(`${select} ORDER BY id`);
    this.#one = connection.prepare<[number], Row>(`${select} AND id = ?`);
    this.#count = connection
      .prepare<[], number>('SELECT count(*) FROM webhook_subscriptions WHERE deleted = 0')
      .pluck();
    this.#idOf = connection
      .prepare<[string], number>('SELECT id FROM webhook_subscriptions WHERE deleted = 0 AND name = ? ORDER BY id')
      .pluck();
    this.#sameNames = connection.prepare<[], { name: string; ids: string }>(
      `SELECT name, group_concat(id, ' ' ORDER BY id) AS ids FROM webhook_subscriptions WHERE deleted = 0
       GROUP BY name HAVING count(*) > 1 ORDER BY name`,
    );
    this.#insert = connection.prepare<[string, Instant]>(
      `INSERT INTO webhook_subscriptions (name, url, consumer, scopes, active, version, created_at, updated_at, form_id,
         after_event, secret) VALUES ('', '', ?, '[]', 0, 0, ?, '', 0, 0, x'')`,
    );
    this.#update = connection.prepare<[Omit<Row, 'consumer' | 'createdAt'>]>(
      `UPDATE webhook_subscriptions SET name = @name, url = @url, scopes = @scopes, dictionaries = @dictionaries,
         actions = @actions, categories = @categories, active = @active, version = @version, updated_at = @updatedAt,
         form_id = @templateId, after_event = @afterEvent, secret = @secret, previous_secret = @previous,
         previous_until_run_ms = @previousUntil WHERE id = @id`,
    );
    this.#remove = connection.prepare<[Instant, number]>(
      `UPDATE webhook_subscriptions SET deleted = 1, updated_at = ?, secret = x'', previous_secret = NULL,
         previous_until_run_ms = NULL WHERE id = ?`,
    );
    this.#insertTemplate = connection.prepare<
      [number, number, string, string, string | null, string | null, string | null]
    >(
      `INSERT INTO webhook_forms (subscription_id, renderer, name, scopes, dictionaries, actions, categories)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#lastEvent = connection.prepare<[], number>('SELECT last_outbox_id FROM progress').pluck();
    this.#saveCursor = connection.prepare<[number]>('UPDATE webhook_progress SET last_event = max(last_event, ?)');
  }

  /** In the order of their ids. */
  all(): readonly Entry[] {
    return this.#all.all().map(entryOf);
  }

  one(id: number): Entry | undefined {
    const row = this.#one.get(id);
    return row === undefined ? undefined : entryOf(row);
  }

  count(): number {
    return this.#count.get() ?? 0;
  }

  /** Of the first of this name; undefined: the name is free. */
  idOf(name: string): number | undefined {
    return this.#idOf.get(name);
  }

  /** Names that more than one has, with their ids. */
  sameNames(): readonly { readonly name: string; readonly ids: string }[] {
    return this.#sameNames.all();
  }

  /** A row that is still to be filled in by update(); answers its id. */
  insert(consumer: string, createdAt: Instant): number {
    return Number(this.#insert.run(consumer, createdAt).lastInsertRowid);
  }

  update({ subscription, updatedAt, secret, previous, previousUntil }: Entry): void {
    const { id, name, url, active, version, templateId, afterEvent } = subscription;
    const ofKnown = {
      id,
      name,
      url,
      active: active ? 1 : 0,
      version,
      templateId,
      afterEvent,
      ...filterRow(subscription),
    };
    this.#update.run({ ...ofKnown, updatedAt, secret, previous, previousUntil });
  }

  /** It is hidden, and its secrets are gone; the row stays as long as there are deliveries of it. */
  remove(id: number, at: Instant): void {
    this.#remove.run(at, id);
  }

  /** What deliveries of this subscription are made by from now on; answers its id. */
  insertTemplate(subscriptionId: number, name: string, filter: Filter): number {
    const { scopes, dictionaries, actions, categories } = filterRow(filter);
    return Number(
      this.#insertTemplate.run(subscriptionId, renderer, name, scopes, dictionaries, actions, categories)
        .lastInsertRowid,
    );
  }

  /** The outbox's newest event. */
  lastEvent(): number {
    return this.#lastEvent.get() ?? 0;
  }

  /** Events up to this one are planned by what the subscriptions were. */
  saveCursor(event: number): void {
    this.#saveCursor.run(event);
  }
}

function filterRow({ scopes, dictionaries, actions, categories }: Filter): FilterRow {
  const list = (items: readonly string[] | null): string | null => (items === null ? null : JSON.stringify(items));
  return {
    scopes: JSON.stringify(scopes),
    dictionaries: list(dictionaries),
    actions: list(actions),
    categories: list(categories),
  };
}

function entryOf({ createdAt, updatedAt, secret, previous, previousUntil, ...row }: Row): Entry {
  const subscription: Subscription = {
    ...row,
    active: row.active === 1,
    scopes: listIn(row, row.scopes) as Scope[],
    dictionaries: row.dictionaries === null ? null : listIn(row, row.dictionaries),
    actions: row.actions === null ? null : (listIn(row, row.actions) as Action[]),
    categories: row.categories === null ? null : (listIn(row, row.categories) as Category[]),
  };
  return { subscription, createdAt, updatedAt, secret, previous, previousUntil };
}

function listIn({ id }: Pick<Row, 'id'>, stored: string): string[] {
  try {
    return JSON.parse(stored) as string[];
  } catch (cause) {
    throw new LinesideError('STORAGE_DAMAGED', `refdata.db is damaged: a filter of the subscription ${id} is no list`, {
      cause,
    });
  }
}
