/**
 * refdata.db for all of the hub: one connection, on which a change and its outbox rows are one transaction. A transaction is a
 * plain function; only a bundle import, in its worker, holds the write slot for longer, while changes wait in a bounded queue.
 */
import { type Clock, endsWithin } from '../../shared/base/clock.ts';
import { LinesideError, messageOf, systemCode } from '../../shared/base/errors.ts';
import { type Instant, instantOfMs, laterOf } from '../../shared/base/instant.ts';
import type { Logger } from '../../shared/base/logger.ts';
import { BackgroundCheck } from '../../shared/storage/background-check.ts';
import { DatabaseFiles, FILE_LOST } from '../../shared/storage/database-files.ts';
import type { Connection } from '../../shared/storage/open.ts';
import { Budget, type BudgetOptions, limitPages } from './budget.ts';
import { Checkpoints } from './checkpoints.ts';
import type { Author } from './event.ts';
import { storageError } from './storage-errors.ts';
import {
  beginProgress,
  type Change,
  type Committed,
  closing,
  type Requested,
  Transactions,
  tooMany,
  WriteSlot,
  waitLimit,
} from './transaction.ts';

export type { Change } from './transaction.ts';

type Prune = (audit: Audit) => (() => void) | undefined;

/** Adds an audit record to the transaction; `at` is the wall clock's time. */
export type Audit = (at: Instant, actor: string, action: string, subject: string, details: object) => void;

/** The store closes the connection. */
export interface ChangeStoreOptions extends BudgetOptions {
  /** The file was too large for a check before it was opened: it is checked in the background. */
  readonly unchecked?: boolean;
  readonly logger: Logger;
}

/** Throws STORAGE_FULL, STORAGE_FAILED or STORAGE_DAMAGED if a new file cannot be initialised. */
export function openChangeStore(options: ChangeStoreOptions): ChangeStore {
  try {
    return new ChangeStore(options);
  } catch (error) {
    throw storageError(error);
  }
}

/** The owner of an import ends it before the store is closed; this limit is for one that hangs in the disk. */
const closeLimitMs = 5_000;

/** A full disk is reported until a change succeeds; if none is tried, for this long. */
const fullKeptMs = 60_000;

/**
 * How long a transaction waits for another program's lock, which blocks this thread: writes of the sqlite3 shell take less. After
 * one has waited in vain the next ones do not wait until a transaction has succeeded: five waiting writers blocked even the
 * answers to probes for 10 s.
 */
const lockWaitMs = 250;

/** In one transaction: some 10 ms, and an fsync. */
const maxTogether = 64;
/** No change of a transaction is begun later: 64 bulk closes would block the event loop for 20 s. */
const togetherMs = 20;

interface WaitingChange extends Requested {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
}

function settle(change: WaitingChange | undefined, run: () => unknown): void {
  try {
    change?.resolve(run());
  } catch (error) {
    change?.reject(error);
  }
}

function raise(error: unknown): never {
  throw error;
}

function sumOf(all: readonly Committed<unknown>[]): Pick<Committed<unknown>, 'rows' | 'waiting' | 'size'> {
  const sum = (of: (one: Committed<unknown>) => number): number => all.reduce((total, one) => total + of(one), 0);
  return { rows: sum(({ rows }) => rows), waiting: sum(({ waiting }) => waiting), size: sum(({ size }) => size) };
}

export class ChangeStore {
  /** For reading, outside transactions too. Nothing else writes with it. */
  readonly connection: Connection;
  /** Names this file, as long as the file exists. */
  readonly storeId: string;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #transactions: Transactions;
  readonly #budget: Budget;
  readonly #checkpoints: Checkpoints;
  readonly #files: DatabaseFiles;
  readonly #slot = new WriteSlot();
  /** In the order of their calls. */
  #changes: WaitingChange[] = [];
  /** So many of them are not to share a transaction. */
  #alone = 0;
  readonly #audit: Audit = (...record) => this.#transactions.audit(...record);
  readonly #listeners: ((waiting: number | undefined) => void)[] = [];
  #lastTxTime: Instant;
  #lastOutboxId: number;
  /** SQLite's last report of a full disk, and when. */
  #full = '';
  #fullMs = 0;
  #damage = '';
  #prune: Prune | undefined;
  /** The last attempt found nothing to prune. */
  #isPruned = false;
  /** See lockWaitMs. */
  #locked = false;
  #check: BackgroundCheck | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: ChangeStoreOptions) {
    const { connection, maxBytes, unchecked, clock, logger } = options;
    this.connection = connection;
    this.#clock = clock;
    this.#logger = logger;
    limitPages(connection, maxBytes, true);
    this.#waitForLocks(lockWaitMs);
    this.#transactions = new Transactions(connection, clock);
    this.#budget = new Budget(options);
    if (this.#transactions.sql.progress.get() === undefined) this.#transactions.run(() => beginProgress(connection));
    const progress = this.#transactions.sql.progress.get();
    if (progress === undefined) throw new Error('the progress row was not kept');
    this.storeId = progress.storeId;
    this.#files = new DatabaseFiles(connection, this.storeId);
    this.#checkpoints = new Checkpoints(this.#files, `${connection.name}-wal`, logger);
    this.#lastTxTime = progress.lastTxTime;
    this.#lastOutboxId = progress.lastOutboxId;
    if (unchecked !== true) return;
    const onDamage = (found: string): void => this.reportDamage(`the check of refdata.db found: ${found}`);
    this.#check = new BackgroundCheck({ path: connection.name, clock, logger, onDamage });
  }

  /** For reads outside transactions. Throws storageError(), and remembers damage. */
  read<T>(work: () => T): T {
    try {
      return work();
    } catch (thrown) {
      throw this.failure(thrown);
    }
  }

  /** storageError() of a failed read; damage is remembered. */
  failure(thrown: unknown): unknown {
    const error = storageError(thrown);
    if (error instanceof LinesideError && error.code === 'STORAGE_DAMAGED') this.reportDamage(error.message);
    return error;
  }

  /** "Now" for validity: the wall clock, or the last transaction's time if the clock was set back behind it. */
  now(): Instant {
    return laterOf(instantOfMs(this.#clock.wallMs()), this.#lastTxTime);
  }

  /**
   * All or nothing, on the medium when it resolves (synchronous=FULL). Runs at once unless an import holds the write slot.
   * Rejects with STORAGE_FULL (disk or budget), STORAGE_FAILED, STORAGE_DAMAGED, TOO_MANY (too many wait for an import),
   * SHUTTING_DOWN, and with whatever `work` throws, after rolling back.
   */
  commit<T>(author: Author, work: (change: Change) => T): Promise<T> {
    return this.#slot.run(() => this.#change({ author, work }) as T, 'limited');
  }

  /**
   * The same, at the end of this turn of the event loop: changes of one turn share a transaction and its fsync. For records: `work`
   * sees what those before it wrote, and must keep nothing of it outside of the transaction, whose commit may fail. A refusal
   * is answered after the commit too: a change before may be the reason for it.
   */
  commitShared<T>(author: Author, work: (change: Change) => T): Promise<T> {
    if (this.#closing !== undefined) return Promise.reject(closing());
    if (this.#changes.length >= waitLimit) return Promise.reject(tooMany());
    if (this.#changes.length === 0) this.#commitSoon();
    return new Promise((resolve, reject) => {
      this.#changes.push({ author, work, resolve: (result) => resolve(result as T), reject });
    });
  }

  #commitSoon(): void {
    setImmediate(() => {
      this.#slot.run(() => this.#commitChanges()).catch(() => undefined);
    });
  }

  #commitChanges(): void {
    const changes = this.#changes.splice(0, this.#alone > 0 ? 1 : maxTogether);
    if (this.#changes.length > 0) this.#commitSoon();
    this.#alone = Math.max(0, this.#alone - 1);
    const [first] = changes;
    if (changes.length > 1) this.#commitTogether(changes);
    else if (first !== undefined) settle(first, () => this.#change(first));
  }

  #commitTogether(changes: readonly WaitingChange[]): void {
    try {
      const done = this.#guarded(() => {
        this.#budget.check(() => this.#makeRoom());
        const untilMs = this.#clock.monoMs() + togetherMs;
        return this.#onDisk(() => this.#transactions.together(changes, untilMs));
      });
      if (done === undefined) {
        // Nothing was written. One of them may be what the disk has no room for: each is tried in a turn of its own.
        this.#alone = changes.length;
        return this.#putBack(changes);
      }
      this.#unlocked();
      const committed = done.filter((one) => 'txTime' in one);
      const last = committed.at(-1);
      if (last !== undefined) this.#note({ ...last, ...sumOf(committed) });
      for (const [n, one] of done.entries()) {
        settle(changes[n], () => ('txTime' in one ? one.result : this.#guarded(() => raise(one.thrown))));
      }
      this.#putBack(changes.slice(done.length));
    } catch (error) {
      for (const change of changes) settle(change, () => raise(error));
    }
  }

  #putBack(changes: readonly WaitingChange[]): void {
    if (this.#changes.length === 0 && changes.length > 0) this.#commitSoon();
    this.#changes.unshift(...changes);
  }

  #change({ author, work }: Requested): unknown {
    const committed = this.#guarded(() => {
      this.#budget.check(() => this.#makeRoom());
      return this.#onDisk(() => this.#transactions.change(author, work));
    });
    this.#unlocked();
    this.#note(committed);
    return committed.result;
  }

  /** Fails if refdata.db is no longer the file at its path, before or after `work`. */
  #onDisk<T>(work: () => T): T {
    this.#files.verify();
    const result = work();
    this.#files.verify();
    return result;
  }

  #note({ txTime, lastOutboxId, rows, waiting, size }: Committed<unknown>): void {
    this.#lastTxTime = txTime;
    this.#lastOutboxId = lastOutboxId;
    this.#full = '';
    this.#budget.spent(size);
    this.#checkpoints.committed(size);
    if (rows > 0) this.#notify(waiting);
  }

  /**
   * For a hub without a broker: `prune` removes a slice of the oldest events when changes would be refused because of
   * outbox.max_bytes. It returns what to do after the commit; undefined: no event may be removed.
   */
  makeRoomBy(prune: Prune): void {
    this.#prune = prune;
  }

  /** Within the write slot. */
  #makeRoom(): boolean {
    const prune = this.#prune;
    if (prune === undefined) return false;
    const pruned = this.#transactions.run(() => prune(this.#audit));
    pruned?.();
    this.#isPruned = pruned === undefined;
    return !this.#isPruned;
  }

  /**
   * For bookkeeping, which is no change: no stamp, no event, and no check of the budget, so that rows can be marked and removed
   * when changes are refused. `promised`: a caller is answered that it is done, so it is refused like a change if refdata.db is
   * no longer the file at its path; other bookkeeping continues, so that acknowledged rows are still sent. Rejects as commit().
   */
  maintain<T>(work: (audit: Audit) => T, promised?: 'promised'): Promise<T> {
    return this.#slot.run(() => {
      const write = (): T => this.#transactions.run(() => work(this.#audit));
      const result = this.#guarded(() => (promised ? this.#onDisk(write) : write()));
      this.#unlocked();
      this.#checkpoints.maintained();
      return result;
    });
  }

  /** Holds the write slot while `work` runs: for the import worker, which has a connection of its own. */
  hold<T>(work: () => Promise<T>): Promise<T> {
    return this.#slot.hold(async () => {
      try {
        this.#guarded(() => this.#files.verify());
        // Room for the import, whose own connection cannot prune.
        while (this.#budget.isNearlyReached && this.#guarded(() => this.#makeRoom())) await new Promise(setImmediate);
        const result = await work();
        this.#guarded(() => this.#files.verify());
        return result;
      } finally {
        this.#reread();
      }
    });
  }

  /** Another connection has written. */
  #reread(): void {
    let waiting: number | undefined;
    try {
      this.#guarded(() => {
        const progress = this.#transactions.sql.progress.get();
        waiting = this.#transactions.sql.waitingAfter.get(this.#lastOutboxId) ?? 0;
        this.#lastTxTime = progress?.lastTxTime ?? this.#lastTxTime;
        this.#lastOutboxId = progress?.lastOutboxId ?? this.#lastOutboxId;
      });
    } catch {
      // The next change meets the same failure and reports it.
    }
    this.#budget.measureSoon();
    this.#notify(waiting);
  }

  /** Throws storageError(), and remembers damage, a full disk and a lock. */
  #guarded<T>(work: () => T): T {
    try {
      return work();
    } catch (thrown) {
      const error = storageError(thrown);
      if (/^SQLITE_(BUSY|LOCKED)/.test(systemCode(thrown)) && !this.#locked) {
        this.#locked = true;
        this.#waitForLocks(0);
      }
      if (error instanceof LinesideError) {
        if (error.code === 'STORAGE_DAMAGED' || systemCode(thrown) === FILE_LOST) this.reportDamage(error.message);
        if (error.code === 'STORAGE_FULL' && thrown !== error) {
          this.#full = messageOf(error);
          this.#fullMs = this.#clock.monoMs();
        }
      }
      throw error;
    }
  }

  /**
   * Called after each commit that added outbox rows and after hold(), with how many of them wait for a topic; undefined: they
   * could not be counted.
   */
  onCommitted(listener: (waiting: number | undefined) => void): void {
    this.#listeners.push(listener);
  }

  #unlocked(): void {
    if (!this.#locked) return;
    this.#locked = false;
    this.#waitForLocks(lockWaitMs);
  }

  #waitForLocks(ms: number): void {
    this.connection.pragma(`busy_timeout = ${ms}`);
  }

  #notify(waiting: number | undefined): void {
    for (const listener of this.#listeners) listener(waiting);
  }

  /** `full` and `damage` are reasons, '' when all is well. */
  health() {
    if (this.#clock.monoMs() - this.#fullMs > fullKeptMs) this.#full = '';
    try {
      return this.#guarded(() => {
        // During an import its worker checkpoints.
        if (!this.#slot.isBusy) this.#files.verify();
        return {
          full: this.#lack() || this.#full,
          damage: this.#damage,
          usedBytes: this.#budget.usedBytes(),
          waitingChanges: this.#changes.length + this.#slot.waiting,
        };
      });
    } catch (error) {
      return { full: this.#full, damage: this.#damage || messageOf(error), usedBytes: 0, waitingChanges: 0 };
    }
  }

  /** Events that can be pruned leave room for changes. */
  #lack(): string {
    const lack = this.#budget.lack();
    return this.#prune !== undefined && !this.#isPruned && this.#budget.isReached ? '' : lack;
  }

  /** Remembered until the next start. */
  reportDamage(found: string): void {
    if (this.#damage === '') this.#logger.error('refdata.db is damaged or lost', { found });
    this.#damage ||= found;
  }

  /** Refuses waiting changes, waits for an import for a few seconds, closes the file. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    for (const change of this.#changes.splice(0)) change.reject(closing());
    await this.#check?.close();
    await endsWithin(this.#clock, closeLimitMs, this.#slot.close());
    this.#checkpoints.close();
    this.#files.close();
  }
}
