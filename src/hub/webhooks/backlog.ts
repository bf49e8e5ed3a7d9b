/**
 * What waits, as the dispatcher reads it: one delivery at a time when it is taken, however many there are. Whose turn it is
 * it does not know. What cannot be read is tried again later, for each subscription by itself.
 */
import { LinesideError, messageOf } from '../../shared/base/errors.ts';
import type { Logger } from '../../shared/base/logger.ts';
import type { ChangeStore } from '../outbox/change-store.ts';
import { storageError } from '../outbox/storage-errors.ts';
import { type Bodies, madeBody } from './body-made.ts';
import type { DispatchRows } from './dispatch-rows.ts';
import { NextDueCache } from './next-due-cache.ts';
import {
  type Due,
  deliveryIdOf,
  type Known,
  type Message,
  type RunMs,
  type Secrets,
  type SubscriptionBook,
} from './parts.ts';

export interface BacklogOptions {
  readonly store: ChangeStore;
  readonly rows: DispatchRows;
  readonly book: SubscriptionBook;
  readonly bodies: Bodies;
  readonly logger: Logger;
}

export type Taken =
  | { readonly due: Due; readonly known: Known; readonly secrets: Secrets; readonly message: Message }
  /** It cannot be sent, and why. */
  | { readonly due: Due; readonly lacking: string };

export interface Change {
  /** To whom anything is sent from now on, ascending. */
  readonly ids: readonly number[];
  /** Nothing is sent to them any more. */
  readonly left: readonly number[];
  /** New among them, and what they have waiting was tried in vain before. */
  readonly doubtful: readonly number[];
}

/** The book blocks a subscription whose secret cannot be read; where it has not said so, it is asked again after so long. */
const unreadableSecretMs = 60_000;
/** Deliveries read at a time, of each subscription: to read one passes over all in hand, which is half of what a delivery costs. */
const readAhead = 16;

export class Backlog {
  readonly #o: BacklogOptions;
  /** To whom anything is sent. */
  #served = new Map<number, Known>();
  readonly #nextDue = new NextDueCache();
  /** Read and not taken yet. */
  readonly #ahead = new Map<number, readonly Due[]>();
  #stale = true;
  /** The file could not be read, and that was said. */
  #unreadable = false;
  #oldestDueSeconds = 0;

  constructor(options: BacklogOptions) {
    this.#o = options;
  }

  /** All is looked at again: the subscriptions may have changed. */
  lookAgain(): void {
    this.#stale = true;
    this.#ahead.clear();
    this.#nextDue.all();
  }

  /** Something of it waits since now. */
  lookAt(id: number, runMs: RunMs = 0): void {
    this.#nextDue.notLaterThan(id, runMs);
  }

  /** undefined: it has not changed since. */
  change(): Change | undefined {
    if (!this.#stale) return undefined;
    this.#stale = false;
    const { book, rows } = this.#o;
    const before = [...this.#served.keys()];
    const served = book.all().filter((known) => known.active && book.blocked(known) === '');
    this.#served = new Map(served.map((known) => [known.id, known]));
    const ids = served.map(({ id }) => id);
    const left = before.filter((id) => !this.#served.has(id));
    const doubtful = this.#nextDue.keep(ids).filter((id) => this.#tried(() => rows.hasRetry(id)) === true);
    return { ids, left, doubtful };
  }

  /** Whether what is under way may still be. */
  serves(due: Due): boolean {
    const known = this.#served.get(due.subscriptionId);
    return known !== undefined && (this.#tried(() => this.#closedTo(known, due)) ?? '') === '';
  }

  isDue(id: number, runMs: RunMs): boolean {
    return this.#nextDue.isDue(id, runMs);
  }

  /** When something becomes due that is not yet; Infinity: never. */
  nextAfter(runMs: RunMs): RunMs {
    return this.#nextDue.nextAfter(runMs);
  }

  /** What is due first and not in hand. undefined: nothing is due now. */
  take(id: number, runMs: RunMs, inHand: readonly number[]): Taken | undefined {
    try {
      const due = this.#first(id, runMs, inHand);
      this.#nextDue.from(id, due?.dueRunMs ?? Number.POSITIVE_INFINITY);
      const taken = due === undefined || due.dueRunMs > runMs ? undefined : this.#made(due, runMs);
      this.#nextDue.succeeded(id);
      this.#unreadable = false;
      return taken;
    } catch (error) {
      this.#nextDue.failed(id, runMs);
      this.couldNotRead(error);
      return undefined;
    }
  }

  /** What is due first, also when that is not yet. Those that are due already and were read with it are taken next. */
  #first(id: number, runMs: RunMs, inHand: readonly number[]): Due | undefined {
    const [next, ...others] = this.#ahead.get(id) ?? this.#o.rows.next(id, inHand, readAhead);
    const due = others.filter(({ dueRunMs }) => dueRunMs <= runMs);
    if (due.length > 0) this.#ahead.set(id, due);
    else this.#ahead.delete(id);
    return next;
  }

  #made(due: Due, runMs: RunMs): Taken | undefined {
    const { store, book, bodies } = this.#o;
    const id = due.subscriptionId;
    const known = this.#served.get(id);
    const secrets = book.secrets(id, runMs);
    if (known === undefined || 'unreadable' in secrets) {
      this.#nextDue.from(id, runMs + unreadableSecretMs);
      return undefined;
    }
    const closed = this.#closedTo(known, due);
    const made = closed === '' ? madeBody(bodies, store.connection, due) : { lacking: closed };
    if ('lacking' in made) return { due, ...made };
    return { due, known, secrets, message: { deliveryId: deliveryIdOf(due), ...made } };
  }

  /**
   * '' where it may have what was planned. A subscription is blocked while all its scopes are closed to its consumer; where
   * some are, or were taken from it (its URL may have been changed with them), what was planned before still holds them.
   */
  #closedTo(known: Known, { formId }: Due): string {
    const scopes = this.#o.bodies.formOf(formId)?.scopes ?? [];
    const open = this.#o.book.openScopes(known);
    const closed = scopes.filter((scope) => !open.includes(scope));
    if (closed.length === 0) return '';
    return `it was planned with ${closed.join(' and ')}, not in its scopes or not open to its consumer any more`;
  }

  /** Of the active ones, also while something else keeps them from being sent. Where it cannot be read: as before. */
  oldestDueSeconds(runMs: RunMs): number {
    const { book, rows } = this.#o;
    const oldest = this.#tried(() =>
      book
        .all()
        .reduce((least, { id, active }) => (active ? Math.min(least, rows.earliestDue(id) ?? least) : least), runMs),
    );
    if (oldest !== undefined) this.#oldestDueSeconds = (runMs - oldest) / 1_000;
    return this.#oldestDueSeconds;
  }

  /** Said once, until it can be read again; damage is the store's to know. */
  couldNotRead(thrown: unknown): void {
    const { store, logger } = this.#o;
    const error = storageError(thrown);
    if (error instanceof LinesideError && error.code === 'STORAGE_DAMAGED') store.reportDamage(error.message);
    if (!this.#unreadable) logger.warn('webhook deliveries could not be read', { error: messageOf(error) });
    this.#unreadable = true;
  }

  #tried<T>(read: () => T): T | undefined {
    try {
      return read();
    } catch (error) {
      this.couldNotRead(error);
      return undefined;
    }
  }
}
