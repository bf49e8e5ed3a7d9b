/**
 * A pseudo-terminal of this machine that programs use as a serial port. Linux keeps of their settings the speed and the flow
 * control alone: it drops parity, 7 data bits, break and the modem lines.
 */
import { closeSync, constants, openSync } from 'node:fs';
import { ReadStream } from 'node:tty';
import { type Clock, pause } from '../../shared/base/clock.ts';
import { ioctl, ioctlValue, openMaster, writeSome } from '../../shared/base/libc.ts';
import { holdersOf } from '../../shared/base/processes.ts';
import {
  BOTHER,
  CBAUD,
  CRTSCTS,
  decodeTermios,
  encodeTermios,
  IXOFF,
  IXON,
  TCFLSH,
  TCGETS2,
  TCIFLUSH,
  TCSETS2,
  TERMIOS_BYTES,
  type Termios,
} from '../../shared/base/termios.ts';

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

export class SerialPty {
  /** "/dev/pts/7". */
  readonly path: string;
  readonly #clock: Clock;
  readonly #master: number;
  readonly #slave: number;
  readonly #stream: ReadStream;
  readonly #closed = new AbortController();
  /** Monotonic time of the last look that found no program; undefined: one has it open. */
  #unusedAtMs: number | undefined;

  /** `take`: what the program writes. */
  constructor(settings: PtySettings, clock: Clock, take: (bytes: Buffer) => void) {
    const { master, slavePath } = openMaster(FLAGS);
    this.path = slavePath;
    this.#clock = clock;
    this.#master = master;
    // While a slave is open the program may close the port and open it again.
    this.#slave = openSync(slavePath, FLAGS);
    this.#setRaw(settings);
    this.#stream = new ReadStream(master);
    this.#stream.on('error', () => {});
    this.#stream.on('data', (bytes: Buffer) => {
      this.#unusedAtMs = undefined;
      take(bytes);
    });
  }

  /** As the program has set them. */
  settings(): PtySettings {
    const { iflag, cflag, ospeed: baudRate } = this.#termios();
    const software = (iflag & (IXON | IXOFF)) === 0 ? 0 : 2;
    return { baudRate, flowControl: (cflag & CRTSCTS) === 0 ? software : 1 };
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
      const taken = writeSome(this.#master, bytes.subarray(at));
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

  /** As far as this user may see: a program of another user counts as none. */
  async #isUnused(): Promise<boolean> {
    const { holders } = await holdersOf('/proc', this.path);
    this.#unusedAtMs = holders.length === 0 ? this.#clock.monoMs() : undefined;
    return holders.length === 0;
  }

  async #stillUnused(): Promise<boolean> {
    if (this.#unusedAtMs === undefined) return false;
    return this.#clock.monoMs() - this.#unusedAtMs < UNUSED_LOOK_MS || (await this.#isUnused());
  }

  #dropInput(): void {
    if (!this.#closed.signal.aborted) ioctlValue(this.#slave, 'TCFLSH', TCFLSH, TCIFLUSH);
  }

  #termios(): Termios {
    const termios = Buffer.alloc(TERMIOS_BYTES);
    ioctl(this.#slave, 'TCGETS2', TCGETS2, termios);
    return decodeTermios(termios);
  }

  /** With the port's own speed and flow control: the program's next ones are a change only if they differ. */
  #setRaw({ baudRate, flowControl }: PtySettings): void {
    const former = this.#termios();
    const iflag = flowControl === 2 ? IXON | IXOFF : 0;
    const rtsCts = flowControl === 1 ? CRTSCTS : 0;
    const cflag = ((former.cflag & ~CBAUD) | BOTHER | rtsCts) >>> 0;
    const termios = { ...former, iflag, oflag: 0, cflag, lflag: 0, ispeed: baudRate, ospeed: baudRate };
    ioctl(this.#slave, 'TCSETS2', TCSETS2, encodeTermios(termios));
  }
}
