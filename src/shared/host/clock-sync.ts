/**
 * Whether the wall clock is known to be right. systemd-timesyncd says so by a file in /run, which an unprivileged
 * process may read (asking the kernel would need a system call that the units forbid). The file is looked for once a
 * second, from memory, until it is there: no reader has to know sooner, and a directory that is not there yet needs no
 * case of its own.
 *
 * The clock of a boot is CLOCK_MONOTONIC (process.hrtime): time sync slews it with the wall clock, so that the two differ
 * by a constant until an operator sets the clock. It does not count suspends, which no Raspberry Pi has; where a machine is
 * suspended before its time is known, what was stamped before is corrected by so much too little.
 */
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Clock, Timer } from '../base/clock.ts';
import { readText } from '../base/files.ts';

export type ClockState = 'synced' | 'unsynced' | 'unknown';

export type ClockSync = ReturnType<typeof createClockSync>;

export interface ClockSyncOptions {
  /** '': not known. */
  readonly file: string;
  readonly clock: Clock;
  /** Milliseconds of CLOCK_MONOTONIC, which a restart of the process does not touch. */
  readonly bootMs?: () => number;
  readonly bootIdFile?: string;
}

const lookMs = 1_000;

export function createClockSync(options: ClockSyncOptions) {
  const { file, clock, bootMs = kernelBootMs, bootIdFile = '/proc/sys/kernel/random/boot_id' } = options;
  const calls: (() => void)[] = [];
  let now = clockState(file);
  let timer: Timer | undefined;
  const arm = (): void => {
    if (file === '' || now === 'synced') return;
    timer = clock.timer(lookMs, () => {
      const found = clockState(file);
      const changed = found !== now;
      now = found;
      arm();
      if (changed) for (const call of calls) call();
    });
  };
  arm();
  return {
    /** Identifies this boot of the machine; '' where the kernel does not say. */
    bootId: readText(bootIdFile).trim(),
    /** Once 'synced' it stays so: a clock that was set is not forgotten when time sync is stopped. 'unknown': there is none. */
    state: (): ClockState => now,
    /** Milliseconds of the monotonic clock of this boot. */
    bootMs,
    /** Wall clock minus the monotonic clock of this boot, milliseconds. */
    offsetMs: () => clock.wallMs() - bootMs(),
    onChange: (call: () => void) => void calls.push(call),
    stop: () => timer?.cancel(),
  };
}

/** What the file says now. The directory belongs to the running time sync. */
export function clockState(file: string): ClockState {
  if (file === '') return 'unknown';
  if (existsSync(file)) return 'synced';
  return existsSync(dirname(file)) ? 'unsynced' : 'unknown';
}

function kernelBootMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1_000 + nanoseconds / 1e6;
}
