/**
 * The row webhook_progress: the planner's cursor, and the running time, which deliveries are scheduled by: how long the
 * service has been running, over all its starts. The wall clock of a device
 * without a battery may jump by years; this continues by the kernel's monotonic clock as long as the machine is up, whatever
 * process asks, and across a boot from where it was stored last: time switched off does not count.
 */
import { LinesideError } from '../../shared/base/errors.ts';
import type { Connection } from '../../shared/storage/open.ts';

/** Milliseconds that the service has been running, over all its starts: never steps back, and no clock moves it. */
export type RunMs = number;

/** The machine's start. */
export interface Boot {
  /** Another one after each start of the machine. */
  readonly id: string;
  /** Milliseconds since then, the same for all processes. */
  monoMs(): number;
}

/** Running time, and the boot and its clock at which that was so. */
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

  /** `row`: as stored last. Throws STORAGE_DAMAGED where it was never stored: every due time would be meaningless. */
  constructor({ runMs, bootId, bootMs }: RunningRow, boot: Boot) {
    if (!isCount(runMs) || !isCount(bootMs)) {
      throw new LinesideError('STORAGE_DAMAGED', `the stored running time is none: ${runMs}, ${bootId}, ${bootMs}`);
    }
    this.#boot = boot;
    const nowMs = boot.monoMs();
    // The clock of the same boot does not step back; one that has is not the one that was stored.
    this.#aheadMs = runMs - (bootId === boot.id && nowMs >= bootMs ? bootMs : nowMs);
    this.#last = { runMs, bootId: boot.id, bootMs: Math.max(0, Math.floor(nowMs)) };
  }

  /** Whole milliseconds; never less than before. */
  now(): RunMs {
    return this.row().runMs;
  }

  /** To be stored now and then: after a boot it continues from there. */
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

/** What saves runs inside the transaction of the part that commits. */
export class Progress {
  readonly #running;
  readonly #cursor;
  readonly #lastEvent;
  readonly #saveCursor;
  readonly #saveRunning;

  constructor(connection: Connection) {
    this.#running = connection.prepare<[], RunningRow>(
      'SELECT run_ms AS runMs, boot_id AS bootId, boot_ms AS bootMs FROM webhook_progress',
    );
    this.#cursor = connection.prepare<[], number>('SELECT last_event FROM webhook_progress').pluck();
    this.#lastEvent = connection.prepare<[], number>('SELECT last_outbox_id FROM progress').pluck();
    this.#saveCursor = connection.prepare<[number]>('UPDATE webhook_progress SET last_event = max(last_event, ?)');
    this.#saveRunning = connection.prepare<[RunningRow]>(
      'UPDATE webhook_progress SET run_ms = @runMs, boot_id = @bootId, boot_ms = @bootMs WHERE run_ms <= @runMs',
    );
  }

  /** As it is stored, like the others. They throw STORAGE_DAMAGED where the row is gone. */
  running(): RunningRow {
    return this.#running.get() ?? lost('webhook_progress');
  }

  /** Events up to this one are planned. */
  cursor(): number {
    return this.#cursor.get() ?? lost('webhook_progress');
  }

  /** The newest event there ever was in the outbox. */
  lastEvent(): number {
    return this.#lastEvent.get() ?? lost('progress');
  }

  /** It never steps back. */
  saveCursor(cursor: number): void {
    this.#saveCursor.run(cursor);
  }

  /** A time before the stored one is not taken. */
  saveRunning(running: RunningTime): void {
    this.#saveRunning.run(running.row());
  }
}

function lost(table: string): never {
  throw new LinesideError('STORAGE_DAMAGED', `refdata.db has lost its row of ${table}`);
}
