/** The SQL of the planner: events after its cursor, the deliveries they become, and the cursor itself. */
import { LinesideError } from '../../shared/base/errors.ts';
import type { Instant } from '../../shared/base/instant.ts';
import type { Connection } from '../../shared/storage/open.ts';
import { renderer } from './body.ts';
import type { Filter } from './face.ts';
import type { EventHead, Form, Planned, RunMs } from './parts.ts';

/** What one transaction's deliveries have in common. */
export interface PlannedAt {
  readonly occurredAt: Instant;
  readonly dueRunMs: RunMs;
}

type FormKey = [number, number, string, string, string | null, string | null, string | null];

export class PlannerRows {
  readonly #heads;
  readonly #cursor;
  readonly #lastEvent;
  readonly #insert;
  readonly #hasForm;
  readonly #findForm;
  readonly #insertForm;
  readonly #saveCursor;

  constructor(connection: Connection) {
    this.#heads = connection.prepare<[number, number], EventHead>(
      `SELECT id, tx_time AS txTime, scope, dictionary, category, action, octet_length(body) AS bytes
       FROM outbox_events WHERE id > ? ORDER BY id LIMIT ?`,
    );
    this.#cursor = connection.prepare<[], number>('SELECT last_event FROM webhook_progress').pluck();
    this.#lastEvent = connection.prepare<[], number>('SELECT last_outbox_id FROM progress').pluck();
    this.#insert = connection.prepare<[string, number, number, number, number, number, Instant, RunMs]>(
      `INSERT INTO webhook_deliveries (nonce, subscription_id, form_id, first_event, last_event, events, occurred_at,
         state, attempts, attempts_before, due_run_ms) VALUES (?, ?, ?, ?, ?, ?, ?, 'pending', 0, 0, ?)`,
    );
    this.#hasForm = connection.prepare<[number], number>('SELECT 1 FROM webhook_forms WHERE id = ?').pluck();
    this.#findForm = connection
      .prepare<FormKey, number>(
        `SELECT id FROM webhook_forms WHERE subscription_id = ? AND renderer = ? AND name = ? AND scopes = ?
         AND dictionaries IS ? AND actions IS ? AND categories IS ? ORDER BY id LIMIT 1`,
      )
      .pluck();
    this.#insertForm = connection.prepare<FormKey>(
      `INSERT INTO webhook_forms (subscription_id, renderer, name, scopes, dictionaries, actions, categories)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#saveCursor = connection.prepare<[number]>('UPDATE webhook_progress SET last_event = max(last_event, ?)');
  }

  /** In the order of their ids; fewer than `limit`: there are no more. */
  heads(after: number, limit: number): readonly EventHead[] {
    return this.#heads.all(after, limit);
  }

  /** As it is stored. Throws STORAGE_DAMAGED where the row is gone. */
  cursor(): number {
    return this.#cursor.get() ?? lost('webhook_progress');
  }

  /** The newest event there ever was. */
  lastEvent(): number {
    return this.#lastEvent.get() ?? lost('progress');
  }

  /** It never steps back. */
  saveCursor(cursor: number): void {
    this.#saveCursor.run(cursor);
  }

  insert(planned: Planned, nonce: string, { occurredAt, dueRunMs }: PlannedAt): void {
    const { subscriptionId, formId, firstEvent, lastEvent, events } = planned;
    this.#insert.run(nonce, subscriptionId, formId, firstEvent, lastEvent, events, occurredAt, dueRunMs);
  }

  hasForm(id: number): boolean {
    return this.#hasForm.get(id) !== undefined;
  }

  /** One that is just so, where there is none yet a new one. The table is small: no index is needed. */
  formFor(form: Filter & Pick<Form, 'subscriptionId' | 'name'>): number {
    const { subscriptionId, name, scopes, dictionaries, actions, categories } = form;
    const key: FormKey = [
      subscriptionId,
      renderer,
      name,
      JSON.stringify(scopes),
      listText(dictionaries),
      listText(actions),
      listText(categories),
    ];
    return this.#findForm.get(...key) ?? Number(this.#insertForm.run(...key).lastInsertRowid);
  }
}

function listText(list: readonly string[] | null): string | null {
  return list === null ? null : JSON.stringify(list);
}

function lost(table: string): never {
  throw new LinesideError('STORAGE_DAMAGED', `refdata.db has lost its row of ${table}`);
}
