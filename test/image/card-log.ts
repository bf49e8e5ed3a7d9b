/**
 * The log of a card's writes that QEMU's blklogwrites driver keeps: every write in its order, and the flushes between
 * them. Its format is that of the kernel's dm-log-writes: a superblock, then entries, each a sector followed by its data.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

const SUPER_MAGIC = 0x6a736677736872n;
const FLUSH = 1n;
const FUA = 2n;
const DISCARD = 4n;
const MARK = 8n;
const ENTRY_BYTES = 32;

export interface CardWrite {
  /** Bytes into the card. */
  readonly offset: number;
  readonly length: number;
  /** Where its data is in the log; undefined: discarded, or nothing but a flush. */
  readonly dataAt: number | undefined;
  /** All that was written before is on the medium, and with `fua` this too. */
  readonly flush: boolean;
  readonly fua: boolean;
}

export class CardLog {
  readonly #fd: number;
  readonly #sectorBytes: number;
  readonly #bytes: number;

  constructor(path: string) {
    this.#fd = openSync(path, 'r');
    this.#bytes = fstatSync(this.#fd).size;
    const head = this.#at(0, ENTRY_BYTES);
    if (head?.readBigUInt64LE(0) !== SUPER_MAGIC) throw new Error(`${path} is no log of writes`);
    this.#sectorBytes = head.readUInt32LE(24);
  }

  /** The superblock's count lags behind where QEMU was killed, so the log is read to its last whole entry. */
  *writes(): Generator<CardWrite> {
    let at = this.#sectorBytes;
    for (;;) {
      const head = this.#at(at, ENTRY_BYTES);
      if (head === undefined) return;
      const flags = head.readBigUInt64LE(16);
      const length = Number(head.readBigUInt64LE(8)) * this.#sectorBytes;
      const dataLength = Number(head.readBigUInt64LE(24));
      if (flags === 0n && length === 0) return;
      const dataAt = at + this.#sectorBytes;
      const hasData = (flags & (DISCARD | MARK)) === 0n && length > 0;
      const next = dataAt + (hasData ? length : Math.ceil(dataLength / this.#sectorBytes) * this.#sectorBytes);
      if (next > this.#bytes) return;
      yield {
        offset: Number(head.readBigUInt64LE(0)) * this.#sectorBytes,
        length,
        dataAt: hasData ? dataAt : undefined,
        flush: (flags & FLUSH) !== 0n,
        fua: (flags & FUA) !== 0n,
      };
      at = next;
    }
  }

  data({ dataAt, length }: CardWrite): Buffer {
    const found = dataAt === undefined ? undefined : this.#at(dataAt, length);
    if (found === undefined) throw new Error('a write without data');
    return found;
  }

  close(): void {
    closeSync(this.#fd);
  }

  /** undefined: the log ends before. */
  #at(offset: number, length: number): Buffer | undefined {
    const buffer = Buffer.alloc(length);
    return readSync(this.#fd, buffer, 0, length, offset) === length ? buffer : undefined;
  }
}
