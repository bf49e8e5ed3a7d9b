/** The operator's side of the outbox: status, dead letters, audit, alerts. */
import { type Alert, Alerts, type Rule } from '../../shared/base/alerts.ts';
import type { Clock } from '../../shared/base/clock.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { usOfInstant } from '../../shared/base/instant.ts';
import type { DeadLetter as Answered, AuditRecord, OutboxStatus, WaitingEvent } from '../../shared/gen/http.ts';
import type { Connection } from '../../shared/storage/open.ts';
import type { Broker } from '../kafka/face.ts';
import type { ChangeStore } from './change-store.ts';
import type { JsonObject, Scope } from './event.ts';
import { cursorAfter, type Page, type PageRequest, type PageShape, pageOf, positionOf } from './paging.ts';
import type { Publisher } from './publisher/publisher.ts';
import { withBody } from './storage-errors.ts';

export type { AuditRecord, OutboxStatus, WaitingEvent };
/** With its envelope as it would have been sent. */
export type DeadLetter = Answered & { readonly envelope: JsonObject };
type BlockedKey = OutboxStatus['blockedKeys'][number];

/** Of a dictionary, and of one of its records. */
export interface EventQuery extends PageRequest {
  readonly dictionary?: string | undefined;
  readonly businessKey?: string | undefined;
}

type WaitingRow = Omit<WaitingEvent, 'topic' | 'waitsFor' | 'reason' | 'nextAttemptInSeconds'> & {
  readonly lastError: string;
  /** Of the first deferred event of its key; null: it is behind that one, or is not deferred. */
  readonly dueMs: number | null;
  readonly refused: 0 | 1 | null;
  /** The first deferred event of its key; null: there is none. */
  readonly head: number | null;
};
type DeadRow = Omit<DeadLetter, 'topic' | 'envelope'> & { readonly body: string | null };
type AuditRow = Omit<AuditRecord, 'details'> & { readonly details: string };

interface AdminOptions {
  readonly store: ChangeStore;
  readonly publisher: Publisher;
  /** undefined: none is configured. */
  readonly broker: Broker | undefined;
  readonly topicOf: (scope: Scope) => string;
  readonly clock: Clock;
}

/** Rows read for one page of a filtered list, some 10 ms. */
const pageRows = 10_000;
/** Blocked keys that a status lists. */
const listedKeys = 100;

/** What the HTTP interface uses of it. */
export type OutboxAdmin = Pick<Admin, keyof Admin>;

export class Admin {
  readonly #o: AdminOptions;
  readonly #sql: ReturnType<typeof statements>;
  readonly #alerts = new Alerts(outboxRules);

  constructor(options: AdminOptions) {
    this.#o = options;
    this.#sql = statements(options.store.connection);
  }

  status(): OutboxStatus {
    return this.#o.store.read(() => {
      const { publisher, topicOf, clock } = this.#o;
      const blocked = publisher.blocked(listedKeys);
      const blockedKeys = blocked.first.map(
        ({ scope, key, id, attempts, reason, dueMs }): BlockedKey => ({
          topic: topicOf(scope),
          key,
          outboxId: id,
          attempts,
          reason,
          nextAttemptInSeconds: Math.max(0, Math.ceil((dueMs - clock.monoMs()) / 1000)),
        }),
      );
      return {
        ...publisher.status(),
        oldest: this.#oldest(),
        deadLetters: this.#sql.countDead.get() ?? 0,
        blockedKeys,
        blockedKeyCount: blocked.count,
        broker: this.#broker(),
      };
    });
  }

  /** The wall clock may have been set back since: the age is never below 0. */
  #oldest(): OutboxStatus['oldest'] {
    const oldest = this.#o.publisher.oldest();
    if (oldest === undefined) return undefined;
    const age = this.#o.clock.wallMs() / 1000 - Number(usOfInstant(oldest.txTime)) / 1e6;
    return { ...oldest, ageSeconds: Math.max(0, Math.floor(age)) };
  }

  #broker(): OutboxStatus['broker'] {
    const state = this.#o.broker?.state();
    if (state === undefined) {
      const none = { configured: false, connected: false, forSeconds: 0, producersReplaced: 0, topics: [] };
      return { ...none, reason: 'kafka.bootstrap is empty' };
    }
    const { connected, reason, forMs, producersReplaced, topics } = state;
    return { configured: true, connected, reason, forSeconds: Math.floor(forMs / 1000), producersReplaced, topics };
  }

  /** Events that the broker has not acknowledged, oldest first. With a filter a page may be short, or empty, before the last. */
  waitingEvents(query: EventQuery): Page<WaitingEvent> {
    return this.#listed('waiting', this.#sql.waiting, query, {
      show: (row) => this.#waitingEvent(row),
      sizeOf: ({ lastError }) => lastError.length,
    });
  }

  #waitingEvent({ lastError, dueMs, refused, head, ...row }: WaitingRow): WaitingEvent {
    const { topicOf, publisher, clock } = this.#o;
    const why = (waitsFor: WaitingEvent['waitsFor'], reason: string, nextAttemptInSeconds: number | null = null) => ({
      ...row,
      topic: topicOf(row.scope),
      waitsFor,
      reason,
      nextAttemptInSeconds,
    });
    const { connected, reason } = this.#broker();
    if (!connected) return why('broker', reason || 'not connected');
    if (dueMs !== null) {
      const inSeconds = Math.max(0, Math.ceil((dueMs - clock.monoMs()) / 1_000));
      return why('retry', refused === 1 ? lastError : 'it did not reach the broker', inSeconds);
    }
    if (head !== null) return why('earlier', `event ${head} of the same record is sent first`);
    if (publisher.isClosed(row.scope)) return why('topic', 'the broker refuses too many records of this topic');
    return why('turn', 'it is in flight, or is sent soon');
  }

  /** Oldest first; likewise. STORAGE_DAMAGED: the version of one is lost; it can be discarded. */
  deadLetters(query: EventQuery): Page<DeadLetter> {
    return this.#listed('dead-letters', this.#sql.dead, query, {
      show: (found) => {
        const { body, ...row } = withBody(found);
        return { ...row, topic: this.#o.topicOf(row.scope), envelope: JSON.parse(body) };
      },
      sizeOf: ({ body }) => body?.length ?? 0,
    });
  }

  #listed<R extends { readonly id: number }, T>(
    name: string,
    sql: EventList<R>,
    query: EventQuery,
    shape: Omit<PageShape<R, T>, 'cursorOf'>,
  ): Page<T> {
    const [after] = positionOf(name, query, [0]);
    const { dictionary = null, businessKey = null, limit } = query;
    const cursorOf = ({ id }: { readonly id: number }): string => cursorAfter(name, id);
    return this.#o.store.read(() => {
      const end = sql.end.get(after, pageRows - 1);
      const upTo = end ?? Number.MAX_SAFE_INTEGER;
      const rows = sql.rows.iterate({ dictionary, businessKey, after, upTo, limit: limit + 1 });
      const { items, nextCursor } = pageOf(rows, query, { ...shape, cursorOf });
      return { items, nextCursor: nextCursor ?? (end === undefined ? undefined : cursorOf({ id: end })) };
    });
  }

  /** It waits again, with no attempts. NOT_FOUND. Audited as "outbox.requeue". */
  async requeue(id: number, by: string, reason: string): Promise<void> {
    const { publisher } = this.#o;
    await this.#settle(id, by, reason, 'outbox.requeue', (scope, key) => {
      this.#sql.wait.run(id);
      publisher.requeue(id, scope, key);
    });
    publisher.requeued();
  }

  /** The change itself stays. NOT_FOUND. Audited as "outbox.discard". */
  async discard(id: number, by: string, reason: string): Promise<void> {
    await this.#settle(id, by, reason, 'outbox.discard', () => {});
  }

  #settle(
    id: number,
    by: string,
    reason: string,
    action: string,
    work: (scope: Scope, key: string) => void,
  ): Promise<void> {
    const { store } = this.#o;
    return store.maintain((audit) => {
      const row = this.#sql.deadOne.get(id);
      if (row === undefined) {
        throw new LinesideError('NOT_FOUND', `there is no dead letter ${id}`, {
          hint: 'It may have been requeued or discarded already: see the audit.',
        });
      }
      this.#sql.removeDead.run(id);
      const { scope, dictionary, businessKey, attempts } = row;
      const key = `${dictionary}:${businessKey}`;
      work(scope, key);
      audit(store.now(), by, action, key, { outboxId: id, attempts, reason });
    }, 'promised');
  }

  /** Newest first. */
  audit(action: string | undefined, page: PageRequest): Page<AuditRecord> {
    const [before] = positionOf('audit', page, [Number.MAX_SAFE_INTEGER]);
    const { audit, auditOf } = this.#sql;
    return this.#o.store.read(() => {
      const limit = page.limit + 1;
      return pageOf(
        action === undefined ? audit.iterate(before, limit) : auditOf.iterate(before, action, limit),
        page,
        {
          show: ({ details, ...record }): AuditRecord => ({ ...record, details: JSON.parse(details) }),
          sizeOf: ({ details }) => details.length,
          cursorOf: ({ id }) => cursorAfter('audit', id),
        },
      );
    });
  }

  alerts(): readonly Alert[] {
    const { store, publisher, broker, clock } = this.#o;
    const { damage, full } = store.health();
    const state = broker?.state();
    const topics = state?.topics ?? [];
    const healthReport = {
      // Without a broker events wait until one is configured: that is no lag.
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
      return this.#o.store.read(() => this.#sql.countDead.get() ?? 0);
    } catch {
      return 0;
    }
  }
}

function statements(connection: Connection) {
  const dead = `SELECT outbox_id AS id, died_at AS diedAt, dead_letters.attempts, reason, scope, dictionary,
    business_key AS businessKey, action, tx_time AS txTime, body FROM dead_letters CROSS JOIN events ON id = outbox_id`;
  // CROSS JOIN: in the order of the waiting events, without sorting.
  const waiting = `SELECT e.id, tx_time AS txTime, e.scope, dictionary, business_key AS businessKey, action, attempts,
    last_error AS lastError, due_ms AS dueMs, refused,
    CASE WHEN d.id IS NULL THEN NULL ELSE (SELECT min(id) FROM outbox_deferred WHERE scope = d.scope AND key = d.key) END AS head
    FROM outbox_waiting CROSS JOIN outbox_events e ON e.id = outbox_waiting.id LEFT JOIN outbox_deferred d ON d.id = e.id`;
  const audit = 'SELECT id, at, actor, action, subject, details FROM audit WHERE id < ?';
  return {
    countDead: connection.prepare<[], number>('SELECT count(*) FROM dead_letters').pluck(),
    waiting: eventList<WaitingRow>(connection, 'outbox_waiting', 'id', waiting),
    dead: eventList<DeadRow>(connection, 'dead_letters', 'outbox_id', dead),
    deadOne: connection.prepare<[number], DeadRow>(`${dead} WHERE outbox_id = ?`),
    removeDead: connection.prepare<[number]>('DELETE FROM dead_letters WHERE outbox_id = ?'),
    wait: connection.prepare<[number]>("INSERT INTO outbox_waiting (id, attempts, last_error) VALUES (?, 0, '')"),
    audit: connection.prepare<[number, number], AuditRow>(`${audit} ORDER BY id DESC LIMIT ?`),
    auditOf: connection.prepare<[number, string, number], AuditRow>(`${audit} AND action = ? ORDER BY id DESC LIMIT ?`),
  };
}

type EventList<R> = ReturnType<typeof eventList<R>>;

/** `end`: the id at an offset from another id; `rows`: those up to it that the filter takes. */
function eventList<R>(connection: Connection, table: string, id: string, select: string) {
  interface Wanted {
    readonly dictionary: string | null;
    readonly businessKey: string | null;
    readonly after: number;
    readonly upTo: number;
    readonly limit: number;
  }
  return {
    end: connection
      .prepare<[number, number], number>(`SELECT ${id} FROM ${table} WHERE ${id} > ? ORDER BY ${id} LIMIT 1 OFFSET ?`)
      .pluck(),
    rows: connection.prepare<[Wanted], R>(
      `${select} WHERE ${table}.${id} > $after AND ${table}.${id} <= $upTo AND ($dictionary IS NULL OR dictionary = $dictionary)
       AND ($businessKey IS NULL OR business_key = $businessKey) ORDER BY ${table}.${id} LIMIT $limit`,
    ),
  };
}

/** For the alerts. Strings are reasons, '' when all is well. */
export interface HealthReport {
  /** Rows that a configured broker has not acknowledged. */
  readonly waiting: number;
  readonly deadLetters: number;
  readonly damage: string;
  readonly full: string;
  /** Each topic with what it lacks. */
  readonly topicsLacking: readonly string[];
  readonly brokerUnreachable: string;
}

/** By the specification. */
const lagRows = 100;
/** A box on a mobile link is disconnected for minutes every day. */
const brokerUnreachableS = 3_600;

export const outboxRules: readonly Rule<HealthReport>[] = [
  {
    name: 'RefdataOutboxLagHigh',
    severity: 'warning',
    value: ({ waiting }) => (waiting > lagRows ? waiting : 0),
    summary: ({ waiting }) => `${waiting} events wait in the outbox, more than ${lagRows}`,
    expr: `lineside_outbox_waiting > ${lagRows} and lineside_kafka_configured == 1`,
    title: 'VALUE events wait in the outbox of BOX',
    means: `More than ${lagRows} events wait for the configured broker. They are safe on the device and are sent in order.`,
    remedy:
      '`lineside outbox` shows the cause: the broker is unreachable, or records are blocked, each with its reason.',
  },
  {
    name: 'RefdataOutboxDLQNonEmpty',
    severity: 'critical',
    value: ({ deadLetters }) => deadLetters,
    summary: ({ deadLetters }) => `${deadLetters} events could not be published and are dead letters`,
    expr: 'lineside_outbox_dead_letters > 0',
    title: 'VALUE events of BOX could not be published',
    means: 'The broker refused events permanently.',
    remedy:
      '`lineside outbox dead-letters list` shows the reasons (too large, no right). Fix the cause, then requeue or discard each.',
  },
  {
    name: 'RefdataStoreDamaged',
    severity: 'critical',
    value: ({ damage }) => (damage === '' ? 0 : 1),
    summary: ({ damage }) => damage,
    expr: 'lineside_refdata_damaged == 1',
    title: 'refdata.db of BOX is damaged',
    means: 'refdata.db is damaged: changes are refused and nothing is sent. The serial line continues to work.',
    remedy: 'Restore a backup with `lineside restore`. `lineside alerts` and /readyz show what was found.',
  },
  {
    name: 'RefdataStoreFull',
    severity: 'critical',
    value: ({ full }) => (full === '' ? 0 : 1),
    summary: ({ full }) => `changes are refused: ${full}`,
    expr: 'lineside_refdata_full == 1',
    title: 'BOX refuses changes for lack of space',
    means:
      'Changes are refused with status 507: outbox.max_bytes is used up, or the disk has less than outbox.min_free_bytes free. Committed changes are safe.',
    remedy:
      'Space is freed when the broker and the subscribers take the waiting events. Remove other files from the disk, or raise outbox.max_bytes.',
  },
  {
    name: 'RefdataBrokerTopicsLacking',
    severity: 'warning',
    value: ({ topicsLacking }) => topicsLacking.length,
    summary: ({ topicsLacking }) => topicsLacking.join('; '),
    expr: 'lineside_kafka_topics_lacking > 0',
    title: 'VALUE topics of the broker of BOX are not as requested',
    means: 'A topic of the broker is missing, has too few partitions, or has another retention. Events may wait.',
    remedy:
      "`lineside outbox` shows what each topic lacks. The broker's administrator must correct it; lineside does not.",
  },
  {
    name: 'KafkaNotConnected',
    severity: 'warning',
    forS: brokerUnreachableS,
    value: ({ brokerUnreachable }) => Number(brokerUnreachable !== ''),
    summary: ({ brokerUnreachable }) =>
      `there is no connection to the broker: ${brokerUnreachable}; events wait, nothing is lost`,
    expr: 'lineside_kafka_configured == 1 and lineside_kafka_connected == 0',
    title: 'BOX has had no connection to its broker for an hour',
    means:
      'There has been no connection to the configured broker for an hour. Events and the serial log wait in order; nothing is lost and no attempts are used up.',
    remedy: '`lineside outbox` shows the cause: no route, name not found, certificate, password.',
  },
];
