/** The SQL of the planner: events after its cursor, the deliveries they become, and the cursor itself. */
import { LinesideError } from '../../../shared/base/errors.ts';
import type { Instant } from '../../../shared/base/instant.ts';
import type { Connection } from '../../../shared/storage/open.ts';
import type { Filter } from '../face.ts';
import type { BodyTemplate, EventHead, Planned, RunMs } from '../parts.ts';
import { renderer } from './body.ts';

/** What one transaction's deliveries have in common. */
export interface PlannedAt {
  readonly occurredAt: Instant;
  readonly dueRunMs: RunMs;
}

type TemplateKey = [number, number, string, string, string | null, string | null, string | null];

export class PlannerRows {
  readonly #heads;
  readonly #cursor;
  readonly #lastEvent;
  readonly #insert;
  readonly #hasTemplate;
  readonly #findTemplate;
  readonly #insertTemplate;
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
    this.#hasTemplate = connection.prepare<[number], number>('SELECT 1 FROM webhook_forms WHERE id = ?').pluck();
    this.#findTemplate = connection
      .prepare<TemplateKey, number>(
        `SELECT id FROM webhook_forms WHERE subscription_id = ? AND renderer = ? AND name = ? AND scopes = ?
         AND dictionaries IS ? AND actions IS ? AND categories IS ? ORDER BY id LIMIT 1`,
      )
      .pluck();
    this.#insertTemplate = connection.prepare<TemplateKey>(
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
    const { subscriptionId, templateId, firstEvent, lastEvent, events } = planned;
    this.#insert.run(nonce, subscriptionId, templateId, firstEvent, lastEvent, events, occurredAt, dueRunMs);
  }

  hasTemplate(id: number): boolean {
    return this.#hasTemplate.get(id) !== undefined;
  }

  /** One that is just so, where there is none yet a new one. The table is small: no index is needed. */
  templateFor(template: Filter & Pick<BodyTemplate, 'subscriptionId' | 'name'>): number {
    const { subscriptionId, name, scopes, dictionaries, actions, categories } = template;
    const key: TemplateKey = [
      subscriptionId,
      renderer,
      name,
      JSON.stringify(scopes),
      listText(dictionaries),
      listText(actions),
      listText(categories),
    ];
    return this.#findTemplate.get(...key) ?? Number(this.#insertTemplate.run(...key).lastInsertRowid);
  }
}

function listText(list: readonly string[] | null): string | null {
  return list === null ? null : JSON.stringify(list);
}

function lost(table: string): never {
  throw new LinesideError('STORAGE_DAMAGED', `refdata.db has lost its row of ${table}`);
}
