/** What the HTTP interface shows and does of the outbox, the audit and the alerts. */
import type { Alert } from '../../shared/base/alerts.ts';
import type { Instant } from '../../shared/base/instant.ts';
import type { Action, JsonObject, Scope } from './event.ts';

export type { Alert } from '../../shared/base/alerts.ts';

export interface Page<T> {
  readonly items: readonly T[];
  /** Opaque; undefined: this was the last page. */
  readonly nextCursor: string | undefined;
}

export interface PageRequest {
  /** 1 to 1,000. */
  readonly limit: number;
  readonly cursor: string | undefined;
}

export interface OutboxStatus {
  /** Rows that are still to be acknowledged by the broker. */
  readonly waiting: number;
  readonly oldest: { readonly id: number; readonly txTime: Instant; readonly ageSeconds: number } | undefined;
  readonly inFlight: number;
  readonly inFlightBytes: number;
  readonly publishedTotal: number;
  readonly refusedTotal: number;
  readonly unreachedTotal: number;
  /** Oldest events that were removed unpublished, since the start: no broker is configured and outbox.max_bytes was reached. */
  readonly prunedTotal: number;
  readonly deadLetters: number;
  /** Keys whose first waiting row was refused; what comes after it waits. At most 100 are listed; the count is of all. */
  readonly blockedKeys: readonly BlockedKey[];
  readonly blockedKeyCount: number;
  readonly broker: BrokerView;
}

export interface BlockedKey {
  readonly topic: string;
  /** "<dictionary>:<businessKey>" */
  readonly key: string;
  readonly outboxId: number;
  readonly attempts: number;
  readonly reason: string;
  readonly nextAttemptInSeconds: number;
}

export interface BrokerView {
  /** false: kafka.bootstrap is empty. Rows wait. */
  readonly configured: boolean;
  readonly connected: boolean;
  readonly reason: string;
  readonly forSeconds: number;
  /** Times since the start that the client was recreated after a fatal error. */
  readonly producersReplaced: number;
  readonly topics: readonly { readonly name: string; readonly partitions: number; readonly lacks: readonly string[] }[];
}

export interface DeadLetter {
  /** The outbox row's. */
  readonly id: number;
  readonly diedAt: Instant;
  readonly attempts: number;
  readonly reason: string;
  readonly topic: string;
  readonly scope: Scope;
  readonly dictionary: string;
  readonly businessKey: string;
  readonly action: Action;
  readonly txTime: Instant;
  /** The envelope as it would have been sent. */
  readonly envelope: JsonObject;
}

export interface AuditRecord {
  readonly id: number;
  readonly at: Instant;
  readonly actor: string;
  /** "outbox.dlq", "outbox.requeue", "outbox.discard", "dictionary.created", ... */
  readonly action: string;
  readonly subject: string;
  readonly details: JsonObject;
}

export interface OutboxAdmin {
  status(): OutboxStatus;
  deadLetters(page: PageRequest): Page<DeadLetter>;
  /** Back among the waiting rows, with no attempts. NOT_FOUND: no such dead letter. Audited as "outbox.requeue". */
  requeue(id: number, by: string, reason: string): Promise<void>;
  /** Discarded permanently; the change itself stays. NOT_FOUND. Audited as "outbox.discard". */
  discard(id: number, by: string, reason: string): Promise<void>;
  audit(action: string | undefined, page: PageRequest): Page<AuditRecord>;
  alerts(): readonly Alert[];
}
