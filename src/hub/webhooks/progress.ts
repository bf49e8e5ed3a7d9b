/**
 * The row webhook_progress: the planner's cursor, and the running time, by which deliveries are scheduled. The wall clock of
 * a device without a battery may jump by years; running time follows the kernel's monotonic clock, also across restarts of
 * the service, and continues after a boot from its last stored value: time switched off does not count.
 */
import { LinesideError } from '../../shared/base/errors.ts';
import type { Connection } from '../../shared/storage/open.ts';
import { lastOutboxId } from '../outbox/transaction.ts';

/** Milliseconds that the service has been running over all its starts. Never decreases. */
export type RunMs = number;

/** A start of the machine. */
export interface Boot {
  readonly id: string;
  /** Milliseconds since the boot, the same for all processes. */
  monoMs(): number;
}

/** Running time at a moment of a boot's clock. */
export interface RunningRow {
  readonly runMs: RunMs;
  readonly bootId: string;
  readonly bootMs: number;
}

export class RunningTime {
  readonly #boot: Boot;
  /** Running time less the boot's clock. */
  readonly #aheadMs: number;
  #last: RunningRow;

  /** Takes the stored row. Throws STORAGE_DAMAGED for an invalid one: every due time would be meaningless. */
  constructor({ runMs, bootId, bootMs }: RunningRow, boot: Boot) {
    if (!isCount(runMs) || !isCount(bootMs)) {
      throw new LinesideError('STORAGE_DAMAGED', `the stored running time is none: ${runMs}, ${bootId}, ${bootMs}`);
    }
    this.#boot = boot;
    const nowMs = boot.monoMs();
    // The clock of one boot never decreases: a lower one is another boot's.
    this.#aheadMs = runMs - (bootId === boot.id && nowMs >= bootMs ? bootMs : nowMs);
    this.#last = { runMs, bootId: boot.id, bootMs: Math.max(0, Math.floor(nowMs)) };
  }

  now(): RunMs {
    return this.row().runMs;
  }

  /** To be stored periodically. */
  row(): RunningRow {
    const nowMs = this.#boot.monoMs();
    const runMs = Math.floor(this.#aheadMs + nowMs);
    if (runMs > this.#last.runMs) this.#last = { runMs, bootId: this.#boot.id, bootMs: Math.floor(nowMs) };
    return this.#last;
  }
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

/** The save methods run inside the caller's transaction. The others throw STORAGE_DAMAGED when the row is missing. */
export class Progress {
  readonly #running;
  readonly #cursor;
  readonly #lastEvent;
  readonly #lastDelivery;
  readonly #saveCursor;
  readonly #saveLastDelivery;
  readonly #saveRunning;

  constructor(connection: Connection) {
    this.#running = connection.prepare<[], RunningRow>(
      'SELECT run_ms AS runMs, boot_id AS bootId, boot_ms AS bootMs FROM webhook_progress',
    );
    this.#cursor = connection.prepare<[], number>('SELECT last_event FROM webhook_progress').pluck();
    this.#lastEvent = connection.prepare<[], number>(`SELECT ${lastOutboxId} FROM progress`).pluck();
    this.#lastDelivery = connection.prepare<[], number>('SELECT last_delivery FROM webhook_progress').pluck();
    this.#saveLastDelivery = connection.prepare<[number]>('UPDATE webhook_progress SET last_delivery = ?');
    this.#saveCursor = connection.prepare<[number]>('UPDATE webhook_progress SET last_event = max(last_event, ?)');
    this.#saveRunning = connection.prepare<[RunningRow]>(
      'UPDATE webhook_progress SET run_ms = @runMs, boot_id = @bootId, boot_ms = @bootMs WHERE run_ms <= @runMs',
    );
  }

  running(): RunningRow {
    return this.#running.get() ?? lost('webhook_progress');
  }

  /** Events up to this one are planned. */
  cursor(): number {
    return this.#cursor.get() ?? lost('webhook_progress');
  }

  /** The newest event that was ever in the outbox. */
  lastEvent(): number {
    return this.#lastEvent.get() ?? lost('progress');
  }

  /** The highest id of a delivery that there ever was. */
  lastDelivery(): number {
    return this.#lastDelivery.get() ?? lost('webhook_progress');
  }

  saveLastDelivery(id: number): void {
    this.#saveLastDelivery.run(id);
  }

  /** The stored cursor never decreases. */
  saveCursor(cursor: number): void {
    this.#saveCursor.run(cursor);
  }

  /** The stored time never decreases. */
  saveRunning(running: RunningTime): void {
    this.#saveRunning.run(running.row());
  }
}

function lost(table: string): never {
  throw new LinesideError('STORAGE_DAMAGED', `refdata.db has lost its row of ${table}`);
}
