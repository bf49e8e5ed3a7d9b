/** Line errors at their place in the received bytes, out of the marks that the kernel puts between them (PARMRK). Pure. */
import { lineside } from '../../shared/proto/services.ts';
import type { KernelCounters, LineError } from './line.ts';

const { Fault } = lineside.v1.LineError;

const MARK = 0xff;

/**
 * With PARMRK the byte FF is read as FF FF, and a byte x that came with a parity or framing error as FF 00 x; so is a break, as NUL
 * (termios(3)). Which of them it was only the driver's counters show. A mark may be cut between two reads.
 */
export class LineErrorDecoder {
  readonly #counters: () => KernelCounters | undefined;
  #counted: KernelCounters | undefined;
  /** Bytes of a mark that have been read: none, FF, or FF 00. */
  #begun: 0 | 1 | 2 = 0;
  #suspects = { parity: 0, frame: 0, brk: 0 };

  /** `counters`: as they are now; undefined at first: the driver has none, it is not asked again. */
  constructor(counters: () => KernelCounters | undefined) {
    this.#counters = counters;
    this.#counted = counters();
  }

  /** The bytes as they would have been read without marks, and their errors. */
  decode(read: Uint8Array): { readonly bytes: Uint8Array; readonly errors: readonly LineError[] } {
    const errors: LineError[] = this.#count();
    if (this.#begun === 0 && !read.includes(MARK)) return { bytes: read, errors };
    // One more: the FF of the read before.
    const bytes = Buffer.allocUnsafeSlow(read.length + 1);
    let length = 0;
    for (const byte of read) {
      if (this.#begun === 2) note(errors, this.#kindOf(byte), length);
      else if (this.#begun === 0 && byte === MARK) {
        this.#begun = 1;
        continue;
      } else if (this.#begun === 1 && byte === 0) {
        this.#begun = 2;
        continue;
      } else if (this.#begun === 1 && byte !== MARK) bytes[length++] = MARK;
      this.#begun = 0;
      bytes[length++] = byte;
    }
    return { bytes: bytes.subarray(0, length), errors };
  }

  /** The driver counts when it takes a byte from the hardware: never later than the byte is read, but maybe some reads earlier. */
  #count(): LineError[] {
    const before = this.#counted;
    const now = before && this.#counters();
    if (before === undefined || now === undefined) return [];
    this.#counted = now;
    const since = (name: keyof KernelCounters): number => (now[name] - before[name]) >>> 0;
    const moved = { parity: since('parity'), frame: since('frame'), brk: since('brk') };
    if (moved.parity + moved.frame + moved.brk > 0) this.#suspects = moved;
    const count = since('overrun') + since('bufOverrun');
    return count === 0 ? [] : [{ kind: Fault.OVERRUN, offset: 0, count }];
  }

  #kindOf(byte: number): lineside.v1.LineError.Fault {
    const { parity, frame, brk } = this.#suspects;
    if (byte === 0 && (brk > 0 || parity + frame === 0)) return Fault.BREAK;
    if (parity > 0 === frame > 0) return Fault.PARITY_OR_FRAMING;
    return parity > 0 ? Fault.PARITY : Fault.FRAMING;
  }
}

/** Neighbours of one kind are one error: at a wrong speed nearly every byte has it. */
function note(errors: LineError[], kind: LineError['kind'], offset: number): void {
  const last = errors.at(-1);
  if (last?.kind === kind && last.offset + last.count === offset) last.count += 1;
  else errors.push({ kind, offset, count: 1 });
}

/** Whether these bytes can have been read with PARMRK; without it, bytes that contain FF hardly ever look so. */
export function isMarked(bytes: Uint8Array): boolean {
  for (let at = bytes.indexOf(MARK); at >= 0; at = bytes.indexOf(MARK, at)) {
    const next = bytes[at + 1];
    if (next !== MARK && next !== 0) return false;
    at += next === MARK ? 2 : 3;
  }
  return true;
}
