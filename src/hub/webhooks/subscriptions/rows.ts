/** The SQL of subscriptions. Writes run inside the transaction of the change. */
import type { Instant } from '../../../shared/base/instant.ts';
import type { Connection } from '../../../shared/storage/open.ts';
import type { RunMs } from '../progress.ts';
import { type FilterColumns, filterColumns, filterIn, type Subscription } from './subscription.ts';

export interface StoredSubscription {
  readonly subscription: Subscription;
  readonly createdAt: Instant;
  readonly updatedAt: Instant;
  /** Sealed. */
  readonly secret: Buffer;
  readonly previous: Buffer | null;
  readonly previousUntil: RunMs | null;
}

interface Row
  extends FilterColumns,
    Omit<Subscription, keyof FilterColumns | 'active'>,
    Omit<StoredSubscription, 'subscription'> {
  readonly active: number;
}

const select = `SELECT id, name, url, consumer, scopes, dictionaries, actions, categories, active, version,
  created_at AS createdAt, updated_at AS updatedAt, after_event AS afterEvent, secret,
  previous_secret AS previous, previous_until_run_ms AS previousUntil FROM webhook_subscriptions WHERE deleted = 0`;

export class SubscriptionRows {
  readonly sql: ReturnType<typeof statements>;

  constructor(connection: Connection) {
    this.sql = statements(connection);
  }

  /** In the order of their ids. */
  all(): readonly StoredSubscription[] {
    return this.sql.all.all().map(storedOf);
  }

  one(id: number): StoredSubscription | undefined {
    const row = this.sql.one.get(id);
    return row === undefined ? undefined : storedOf(row);
  }

  /** Creates a row that update() must fill; answers its id, which seals the secret. */
  insert(consumer: string, createdAt: Instant): number {
    return Number(this.sql.insert.run(consumer, createdAt).lastInsertRowid);
  }

  update({ subscription, updatedAt, secret, previous, previousUntil }: StoredSubscription): void {
    const columns = { ...subscription, ...filterColumns(subscription), active: subscription.active ? 1 : 0 };
    this.sql.update.run({ ...columns, updatedAt, secret, previous, previousUntil });
  }
}

function statements(connection: Connection) {
  return {
    all: connection.prepare<[], Row>(`${select} ORDER BY id`),
    one: connection.prepare<[number], Row>(`${select} AND id = ?`),
    count: connection.prepare<[], number>('SELECT count(*) FROM webhook_subscriptions WHERE deleted = 0').pluck(),
    idOf: connection
      .prepare<[string], number>('SELECT id FROM webhook_subscriptions WHERE deleted = 0 AND name = ? ORDER BY id')
      .pluck(),
    /** Names of more than one subscription. */
    sameNames: connection.prepare<[], { readonly name: string; readonly ids: string }>(
      `SELECT name, group_concat(id, ' ' ORDER BY id) AS ids FROM webhook_subscriptions WHERE deleted = 0
       GROUP BY name HAVING count(*) > 1 ORDER BY name`,
    ),
    insert: connection.prepare<[string, Instant]>(
      `INSERT INTO webhook_subscriptions (name, url, consumer, scopes, active, version, created_at, updated_at,
         after_event, secret) VALUES ('', '', ?, '[]', 0, 0, ?, '', 0, x'')`,
    ),
    update: connection.prepare<[Omit<Row, 'consumer' | 'createdAt'>]>(
      `UPDATE webhook_subscriptions SET name = @name, url = @url, scopes = @scopes, dictionaries = @dictionaries,
         actions = @actions, categories = @categories, active = @active, version = @version, updated_at = @updatedAt,
         after_event = @afterEvent, secret = @secret, previous_secret = @previous,
         previous_until_run_ms = @previousUntil WHERE id = @id`,
    ),
    /** Retention removes the row with its deliveries; the secrets are erased at once. */
    remove: connection.prepare<[Instant, number]>(
      `UPDATE webhook_subscriptions SET deleted = 1, updated_at = ?, secret = x'', previous_secret = NULL,
         previous_until_run_ms = NULL WHERE id = ?`,
    ),
  };
}

function storedOf({ createdAt, updatedAt, secret, previous, previousUntil, ...row }: Row): StoredSubscription {
  const subscription = { ...row, ...filterIn(row, `subscription ${row.id}`), active: row.active === 1 };
  return { subscription, createdAt, updatedAt, secret, previous, previousUntil };
}
