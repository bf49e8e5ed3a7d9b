/**
 * What waits, as the dispatcher reads it: one delivery at a time when it is taken, however many there are. Whose turn it is
 * it does not know. What cannot be read is tried again later, for each subscription by itself.
 */
import { LinesideError, messageOf } from '../base/errors.ts';
import type { Logger } from '../base/logger.ts';
import type { ChangeStore } from '../outbox/change-store.ts';
import { storageError } from '../outbox/storage-errors.ts';
import { type Bodies, madeBody } from './body-made.ts';
import { Looks } from './dispatch-looks.ts';
import type { DispatchRows } from './dispatch-rows.ts';
import { Served } from './dispatch-served.ts';
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
  /** Its body cannot be made, and why. */
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

export class Backlog {
  readonly #o: BacklogOptions;
  readonly #served: Served;
  readonly #looks = new Looks();
  #stale = true;
  /** The file could not be read, and that was said. */
  #unreadable = false;
  #oldestDueSeconds = 0;

  constructor(options: BacklogOptions) {
    this.#o = options;
    this.#served = new Served(options.book, options.rows);
  }

  /** All is looked at anew: the subscriptions may have changed. */
  lookAgain(): void {
    this.#stale = true;
    this.#looks.all();
  }

  /** Something of it waits since now. */
  lookAt(id: number, runMs: RunMs = 0): void {
    this.#looks.notLaterThan(id, runMs);
  }

  /** undefined: it has not changed since. */
  change(): Change | undefined {
    if (!this.#stale) return undefined;
    const before = this.#served.ids;
    this.#stale = this.#tried(() => this.#served.refresh()) === undefined;
    const { ids } = this.#served;
    const left = before.filter((id) => this.#served.byId(id) === undefined);
    const doubtful = this.#looks.keep(ids).filter((id) => this.#tried(() => ({ is: this.#o.rows.hasRetry(id) }))?.is);
    return { ids, left, doubtful };
  }

  /** False: it could not be read what may be sent. Then nothing is, until that is looked at again. */
  get isKnown(): boolean {
    return !this.#stale;
  }

  serves(due: Due): boolean {
    return this.#served.serves(due);
  }

  isDue(id: number, runMs: RunMs): boolean {
    return this.#looks.isDue(id, runMs);
  }

  /** When something becomes due that is not yet; Infinity: never. */
  nextAfter(runMs: RunMs): RunMs {
    return this.#looks.nextAfter(runMs);
  }

  /** What is due first and not in hand. undefined: nothing is due now. */
  take(id: number, runMs: RunMs, inHand: readonly number[]): Taken | undefined {
    try {
      const due = this.#o.rows.next(id, inHand, this.#served.closedForms(id));
      this.#looks.from(id, due?.dueRunMs ?? Number.POSITIVE_INFINITY);
      const taken = due === undefined || due.dueRunMs > runMs ? undefined : this.#made(due, runMs);
      this.#unreadable = false;
      return taken;
    } catch (error) {
      this.#looks.failed(id, runMs);
      this.couldNotRead(error);
      return undefined;
    }
  }

  #made(due: Due, runMs: RunMs): Taken | undefined {
    const { store, book, bodies } = this.#o;
    const id = due.subscriptionId;
    const known = this.#served.byId(id);
    const secrets = book.secrets(id, runMs);
    if (known === undefined || 'unreadable' in secrets) {
      this.#looks.from(id, runMs + unreadableSecretMs);
      return undefined;
    }
    const made = madeBody(bodies, store.connection, due);
    if ('lacking' in made) return { due, ...made };
    return { due, known, secrets, message: { deliveryId: deliveryIdOf(due), ...made } };
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

  #tried<T extends {}>(read: () => T): T | undefined {
    try {
      return read();
    } catch (error) {
      this.couldNotRead(error);
      return undefined;
    }
  }
}
