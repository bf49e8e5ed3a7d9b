/** A pseudo-terminal of this machine that programs use as a serial port. */
import { closeSync, constants, openSync } from 'node:fs';
import { ReadStream } from 'node:tty';
import { type Clock, pause } from '../../shared/base/clock.ts';

const FLAGS = constants.O_RDWR | constants.O_NOCTTY | constants.O_NONBLOCK;
/** Between two attempts to hand over what the program does not read. */
const FIRST_RETRY_MS = 1;
const MAX_RETRY_MS = 64;
/** Between two looks whether a program has opened it, while bytes are dropped. */
const UNUSED_LOOK_MS = 250;

/** Numbers of FlowControl. */
export interface PtySettings {
  readonly baudRate: number;
  readonly flowControl: number;
}

/** The calls of this system. */
export interface Terminals {
  /** A master that does not block, and the path of its slave. */
  open(): { readonly master: number; readonly slavePath: string };
  /** The bytes that it took: 0 when it takes none now. */
  write(master: number, bytes: Uint8Array): number;
  settings(slave: number): PtySettings;
  setRaw(slave: number, settings: PtySettings): void;
  /** What no program has read yet. */
  dropInput(slave: number): void;
  /** No other process has it open, as far as this user may see: a program of another user counts as none. */
  isUnused(slavePath: string): Promise<boolean>;
}

export class SerialPty {
  /** "/dev/pts/7". */
  readonly path: string;
  readonly #terminals: Terminals;
  readonly #clock: Clock;
  readonly #master: number;
  readonly #slave: number;
  readonly #stream: ReadStream;
  readonly #closed = new AbortController();
  /** Monotonic time of the last look that found no program; undefined: one has it open. */
  #unusedAtMs: number | undefined;

  /** `take`: what the program writes. */
  constructor(terminals: Terminals, settings: PtySettings, clock: Clock, take: (bytes: Buffer) => void) {
    const { master, slavePath } = terminals.open();
    this.#terminals = terminals;
    this.path = slavePath;
    this.#clock = clock;
    this.#master = master;
    // While a slave is open the program may close the port and open it again.
    this.#slave = openSync(slavePath, FLAGS);
    // With the port's own speed and flow control: the program's next ones are a change only if they differ.
    terminals.setRaw(this.#slave, settings);
    this.#stream = new ReadStream(master);
    this.#stream.on('error', () => {});
    this.#stream.on('data', (bytes: Buffer) => {
      this.#unusedAtMs = undefined;
      take(bytes);
    });
  }

  /** As the program has set them. */
  settings(): PtySettings {
    return this.#terminals.settings(this.#slave);
  }

  pauseReading(): void {
    this.#stream.pause();
  }

  resumeReading(): void {
    this.#stream.resume();
  }

  /**
   * Resolves when the terminal has taken it: the program reads, or the port was closed. While no program has it open, bytes are dropped,
   * as a serial port does.
   */
  async write(bytes: Uint8Array): Promise<void> {
    if (await this.#stillUnused()) return;
    let retryMs = FIRST_RETRY_MS;
    for (let at = 0; at < bytes.length && !this.#closed.signal.aborted; ) {
      const taken = this.#terminals.write(this.#master, bytes.subarray(at));
      at += taken;
      if (taken > 0) retryMs = FIRST_RETRY_MS;
      else {
        if (retryMs === MAX_RETRY_MS && (await this.#isUnused())) return this.#dropInput();
        await pause(this.#clock, retryMs, this.#closed.signal);
        retryMs = Math.min(MAX_RETRY_MS, retryMs * 2);
      }
    }
  }

  /** The program sees a hang-up. */
  close(): void {
    if (this.#closed.signal.aborted) return;
    this.#closed.abort();
    closeSync(this.#slave);
    this.#stream.destroy();
  }

  async #isUnused(): Promise<boolean> {
    const isUnused = await this.#terminals.isUnused(this.path);
    this.#unusedAtMs = isUnused ? this.#clock.monoMs() : undefined;
    return isUnused;
  }

  async #stillUnused(): Promise<boolean> {
    if (this.#unusedAtMs === undefined) return false;
    return this.#clock.monoMs() - this.#unusedAtMs < UNUSED_LOOK_MS || (await this.#isUnused());
  }

  #dropInput(): void {
    if (!this.#closed.signal.aborted) this.#terminals.dropInput(this.#slave);
  }
}
