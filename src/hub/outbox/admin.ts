/** The outbox as the people see it who look after it: how it stands, its dead letters, the audit, the alerts. */
import { Alerts } from '../../shared/base/alerts.ts';
import type { Clock } from '../../shared/base/clock.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { type Instant, usOfInstant } from '../../shared/base/instant.ts';
import type { Connection } from '../../shared/storage/open.ts';
import type { Broker } from '../kafka/face.ts';
import { outboxRules } from './alerts.ts';
import type { ChangeStore } from './change-store.ts';
import type { Action, Scope } from './event.ts';
import type {
  Alert,
  AuditRecord,
  BlockedKey,
  BrokerView,
  DeadLetter,
  OutboxAdmin,
  OutboxStatus,
  Page,
  PageRequest,
} from './face.ts';
import type { Publisher } from './publisher/publisher.ts';
import { storageError } from './storage-errors.ts';

export interface OutboxAdminOptions {
  readonly store: ChangeStore;
  readonly publisher: Publisher;
  /** undefined: none is configured. */
  readonly broker: Broker | undefined;
  readonly topicOf: (scope: Scope) => string;
  readonly clock: Clock;
}

/** Blocked keys that a status lists. */
const listedKeys = 100;

export function createOutboxAdmin(options: OutboxAdminOptions): OutboxAdmin {
  return new Admin(options);
}

class Admin implements OutboxAdmin {
  readonly #o: OutboxAdminOptions;
  readonly #rows: AdminRows;
  readonly #alerts = new Alerts(outboxRules);

  constructor(options: OutboxAdminOptions) {
    this.#o = options;
    this.#rows = new AdminRows(options.store.connection);
  }

  status(): OutboxStatus {
    return this.#read(() => {
      const { blocked, ...figures } = this.#o.publisher.status();
      const blockedKeys = blocked.slice(0, listedKeys).map(
        ({ topic, key, id, attempts, reason, retryInMs }): BlockedKey => ({
          topic,
          key,
          outboxId: id,
          attempts,
          reason,
          nextAttemptInSeconds: Math.ceil(retryInMs / 1000),
        }),
      );
      return {
        ...figures,
        oldest: this.#oldest(),
        deadLetters: this.#rows.countDead(),
        blockedKeys,
        blockedKeyCount: blocked.length,
        broker: this.#broker(),
      };
    });
  }

  /** By the wall clock, which may have been set since: never below 0. */
  #oldest(): OutboxStatus['oldest'] {
    const oldest = this.#o.publisher.oldest();
    if (oldest === undefined) return undefined;
    const age = this.#o.clock.wallMs() / 1000 - Number(usOfInstant(oldest.txTime)) / 1e6;
    return { ...oldest, ageSeconds: Math.max(0, Math.floor(age)) };
  }

  #broker(): BrokerView {
    const state = this.#o.broker?.state();
    if (state === undefined) {
      const none = { configured: false, connected: false, forSeconds: 0, producersReplaced: 0, topics: [] };
      return { ...none, reason: 'kafka.bootstrap is empty' };
    }
    const { connected, reason, forMs, producersReplaced, topics } = state;
    return { configured: true, connected, reason, forSeconds: Math.floor(forMs / 1000), producersReplaced, topics };
  }

  deadLetters({ limit, cursor }: PageRequest): Page<DeadLetter> {
    const after = numberOf(cursor, 0);
    return this.#read(() => pageOf(this.#rows.dead(after, limit + 1), limit, (row) => this.#deadLetter(row)));
  }

  #deadLetter({ body, ...row }: DeadRow): DeadLetter {
    return { ...row, topic: this.#o.topicOf(row.scope), envelope: JSON.parse(body) };
  }

  async requeue(id: number, by: string, reason: string): Promise<void> {
    const row = await this.#settle(id, by, reason, 'outbox.requeue', () => this.#rows.waitAgain(id));
    this.#o.publisher.requeued(id, row.scope);
  }

  async discard(id: number, by: string, reason: string): Promise<void> {
    await this.#settle(id, by, reason, 'outbox.discard', () => {});
  }

  #settle(id: number, by: string, reason: string, action: string, work: () => void): Promise<DeadRow> {
    const { store } = this.#o;
    return store.maintain((audit) => {
      const row = this.#rows.deadOne(id);
      if (row === undefined) {
        throw new LinesideError('NOT_FOUND', `there is no dead letter ${id}`, {
          hint: 'It may have been requeued or discarded already: see the audit.',
        });
      }
      this.#rows.bury(id);
      work();
      const { dictionary, businessKey, attempts } = row;
      audit(store.now(), by, action, `${dictionary}:${businessKey}`, { outboxId: id, attempts, reason });
      return row;
    }, 'promised');
  }

  audit(action: string | undefined, { limit, cursor }: PageRequest): Page<AuditRecord> {
    const before = numberOf(cursor, Number.MAX_SAFE_INTEGER);
    return this.#read(() => pageOf(this.#rows.audit(action, before, limit + 1), limit, auditRecord));
  }

  alerts(): readonly Alert[] {
    const { store, publisher, broker, clock } = this.#o;
    const { damage, full } = store.health();
    const state = broker?.state();
    const topics = state?.topics ?? [];
    const healthReport = {
      // Without a broker events wait for it to be configured: that is no lag.
      waiting: broker === undefined ? 0 : publisher.waiting,
      deadLetters: this.#countDead(),
      damage,
      full,
      topicsLacking: topics
        .filter(({ lacks }) => lacks.length > 0)
        .map(({ name, lacks }) => `${name}: ${lacks.join(', ')}`),
      brokerUnreachable: state === undefined || state.connected ? '' : state.reason || 'not connected',
    };
    return this.#alerts.look(healthReport, clock.monoMs());
  }

  /** Alerts are shown also when the file cannot be read. */
  #countDead(): number {
    try {
      return this.#read(() => this.#rows.countDead());
    } catch {
      return 0;
    }
  }

  #read<T>(work: () => T): T {
    try {
      return work();
    } catch (thrown) {
      const error = storageError(thrown);
      if (error instanceof LinesideError && error.code === 'STORAGE_DAMAGED') this.#o.store.reportDamage(error.message);
      throw error;
    }
  }
}

function auditRecord({ details, ...record }: AuditRow): AuditRecord {
  return { ...record, details: JSON.parse(details) };
}

/** `rows` are one more than the limit where another page follows. The cursor is the last id shown. */
function pageOf<R extends { readonly id: number }, T>(rows: readonly R[], limit: number, show: (row: R) => T): Page<T> {
  const shown = rows.slice(0, limit);
  const last = rows.length > limit ? shown.at(-1) : undefined;
  return { items: shown.map(show), nextCursor: last === undefined ? undefined : String(last.id) };
}

function numberOf(cursor: string | undefined, beginning: number): number {
  if (cursor === undefined) return beginning;
  const id = Number(cursor);
  if (/^\d{1,16}$/.test(cursor) && Number.isSafeInteger(id)) return id;
  throw new LinesideError('INVALID_ARGUMENT', 'the cursor is none of this list', {
    hint: 'Use nextCursor of the page before as it is.',
  });
}

// The SQL of dead letters and audit records, for those who look after the outbox.

interface DeadRow {
  readonly id: number;
  readonly diedAt: Instant;
  readonly attempts: number;
  readonly reason: string;
  readonly scope: Scope;
  readonly dictionary: string;
  readonly businessKey: string;
  readonly action: Action;
  readonly txTime: Instant;
  readonly body: string;
}

interface AuditRow {
  readonly id: number;
  readonly at: Instant;
  readonly actor: string;
  readonly action: string;
  readonly subject: string;
  readonly details: string;
}

const deadColumns = `outbox_id AS id, died_at AS diedAt, dead_letters.attempts, reason, scope, dictionary,
  business_key AS businessKey, action, tx_time AS txTime, body FROM dead_letters JOIN outbox_events ON id = outbox_id`;

class AdminRows {
  readonly #count;
  readonly #dead;
  readonly #deadOne;
  readonly #bury;
  readonly #requeue;
  readonly #audit;
  readonly #auditOf;

  constructor(connection: Connection) {
    this.#count = connection.prepare<[], number>('SELECT count(*) FROM dead_letters').pluck();
    this.#dead = connection.prepare<[number, number], DeadRow>(
      `SELECT ${deadColumns} WHERE outbox_id > ? ORDER BY outbox_id LIMIT ?`,
    );
    this.#deadOne = connection.prepare<[number], DeadRow>(`SELECT ${deadColumns} WHERE outbox_id = ?`);
    this.#bury = connection.prepare<[number]>('DELETE FROM dead_letters WHERE outbox_id = ?');
    this.#requeue = connection.prepare<[number]>(
      "INSERT INTO outbox_waiting (id, attempts, last_error) VALUES (?, 0, '')",
    );
    const audit = 'SELECT id, at, actor, action, subject, details FROM audit WHERE id < ?';
    this.#audit = connection.prepare<[number, number], AuditRow>(`${audit} ORDER BY id DESC LIMIT ?`);
    this.#auditOf = connection.prepare<[number, string, number], AuditRow>(
      `${audit} AND action = ? ORDER BY id DESC LIMIT ?`,
    );
  }

  countDead(): number {
    return this.#count.get() ?? 0;
  }

  /** Oldest first. */
  dead(after: number, limit: number): readonly DeadRow[] {
    return this.#dead.all(after, limit);
  }

  deadOne(id: number): DeadRow | undefined {
    return this.#deadOne.get(id);
  }

  bury(id: number): void {
    this.#bury.run(id);
  }

  waitAgain(id: number): void {
    this.#requeue.run(id);
  }

  /** Newest first. */
  audit(action: string | undefined, before: number, limit: number): readonly AuditRow[] {
    return action === undefined ? this.#audit.all(before, limit) : this.#auditOf.all(before, action, limit);
  }
}
