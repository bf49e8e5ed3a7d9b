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

/** The save functions run inside the caller's transaction. The others throw STORAGE_DAMAGED when the row is missing. */
export class Progress {
  readonly running: () => RunningRow;
  /** Events up to this one are planned. */
  readonly cursor: () => number;
  /** The newest event that was ever in the outbox. */
  readonly lastEvent: () => number;
  /** The highest id of a delivery that there ever was. */
  readonly lastDelivery: () => number;
  readonly saveLastDelivery: (id: number) => void;
  /** The stored cursor never decreases. */
  readonly saveCursor: (cursor: number) => void;
  readonly #saveRunning: (row: RunningRow) => void;

  constructor(connection: Connection) {
    const numberIn = (table: string, column: string): (() => number) => {
      const statement = connection.prepare<[], number>(`SELECT ${column} FROM ${table}`).pluck();
      return () => statement.get() ?? lost(table);
    };
    const saving = (change: string): ((value: number | RunningRow) => void) => {
      const statement = connection.prepare<[number | RunningRow]>(`UPDATE webhook_progress SET ${change}`);
      return (value) => void statement.run(value);
    };
    const running = connection.prepare<[], RunningRow>(
      'SELECT run_ms AS runMs, boot_id AS bootId, boot_ms AS bootMs FROM webhook_progress',
    );
    this.running = () => running.get() ?? lost('webhook_progress');
    this.cursor = numberIn('webhook_progress', 'last_event');
    this.lastEvent = numberIn('progress', lastOutboxId);
    this.lastDelivery = numberIn('webhook_progress', 'last_delivery');
    this.saveLastDelivery = saving('last_delivery = ?');
    this.saveCursor = saving('last_event = max(last_event, ?)');
    this.#saveRunning = saving('run_ms = @runMs, boot_id = @bootId, boot_ms = @bootMs WHERE run_ms <= @runMs');
  }

  /** The stored time never decreases. */
  saveRunning(running: RunningTime): void {
    this.#saveRunning(running.row());
  }
}

function lost(table: string): never {
  throw new LinesideError('STORAGE_DAMAGED', `refdata.db has lost its row of ${table}`);
}
