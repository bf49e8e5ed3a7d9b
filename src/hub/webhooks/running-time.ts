/**
 * How long the service has been running, over all its starts: what deliveries are scheduled by. The wall clock of a device
 * without a battery may jump by years; this goes on by the kernel's monotonic clock as long as the machine is up, whatever
 * process asks, and across a boot from where it was stored last: time switched off does not count.
 */
import { LinesideError } from '../../shared/base/errors.ts';
import type { Connection } from '../../shared/storage/open.ts';
import type { RunMs } from './parts.ts';

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

export interface RunningTime {
  /** Whole milliseconds; never less than before. */
  now(): RunMs;
  /** To be stored now and then: after a boot it goes on from there. */
  row(): RunningRow;
}

export interface RunningTimeOptions {
  /** As stored last (storedRunning). */
  readonly row: RunningRow;
  readonly boot: Boot;
}

/** Throws STORAGE_DAMAGED where the row is none that was ever stored: every due time would be meaningless. */
export function createRunningTime({ row, boot }: RunningTimeOptions): RunningTime {
  if (!isCount(row.runMs) || !isCount(row.bootMs)) {
    const { runMs, bootId, bootMs } = row;
    throw new LinesideError('STORAGE_DAMAGED', `the stored running time is none: ${runMs}, ${bootId}, ${bootMs}`);
  }
  return new Running(row, boot);
}

class Running implements RunningTime {
  readonly #boot: Boot;
  /** Running time less the boot's clock. */
  readonly #aheadMs: number;
  #last: RunningRow;

  constructor({ runMs, bootId, bootMs }: RunningRow, boot: Boot) {
    this.#boot = boot;
    const nowMs = boot.monoMs();
    // The clock of the same boot does not step back; one that has is not the one that was stored.
    this.#aheadMs = runMs - (bootId === boot.id && nowMs >= bootMs ? bootMs : nowMs);
    this.#last = { runMs, bootId: boot.id, bootMs: Math.max(0, Math.floor(nowMs)) };
  }

  now(): RunMs {
    return this.row().runMs;
  }

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

/** Throws STORAGE_DAMAGED where the row is gone. */
export function storedRunning(connection: Connection): RunningRow {
  const row = connection
    .prepare<[], RunningRow>('SELECT run_ms AS runMs, boot_id AS bootId, boot_ms AS bootMs FROM webhook_progress')
    .get();
  if (row === undefined) throw new LinesideError('STORAGE_DAMAGED', 'refdata.db has lost its row of webhook_progress');
  return row;
}

/** What stores the running time, inside the transaction of the part that commits. A time before the stored one is not taken. */
export function saveRunning(connection: Connection): (running: RunningTime) => void {
  const save = connection.prepare<[RunMs, string, number, RunMs]>(
    'UPDATE webhook_progress SET run_ms = ?, boot_id = ?, boot_ms = ? WHERE run_ms <= ?',
  );
  return (running) => {
    const { runMs, bootId, bootMs } = running.row();
    save.run(runMs, bootId, bootMs, runMs);
  };
}
