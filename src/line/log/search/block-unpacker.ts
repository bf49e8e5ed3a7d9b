/** Unpacks many small blocks at a quarter of what Node's own call costs for each. */
import { constants, createInflateRaw } from 'node:zlib';
import { columnBytes, columnsIn, deflated, givenTime } from '../../../shared/base/log-block.ts';
import { fromHalves, type Uint64 } from '../entry.ts';
import type { QueuedBlock } from './store-reader.ts';

/** What Node's stream of zlib works with: no public interface, so a new Node needs a look here (Node is pinned, and the tests read each block). */
interface Engine {
  readonly _handle: {
    reset(): void;
    writeSync(
      flush: number,
      from: Uint8Array,
      at: number,
      length: number,
      to: Uint8Array,
      toAt: number,
      room: number,
    ): void;
  };
  /** Room left in the output, and input left, after a write. */
  readonly _writeState: Uint32Array;
}

/** Above the usual blocks; a larger one goes the usual way. */
const roomBytes = 128 * 1024;

/** The entries of a block by their places in it, without an object for each column: a slow line leaves a block for each entry. */
export class BlockEntries {
  readonly count: number;
  /** The columns of four bytes, one after the other (log-block.ts). */
  readonly #words: Uint32Array;
  readonly #dirs: Uint8Array;
  readonly #dirsAt: number;

  constructor(count: number, words: Uint32Array, dirs: Uint8Array, dirsAt: number) {
    this.count = count;
    this.#words = words;
    this.#dirs = dirs;
    this.#dirsAt = dirsAt;
  }

  dir(i: number): number {
    return this.#octet(i) & ~givenTime;
  }

  isGiven(i: number): boolean {
    return (this.#octet(i) & givenTime) !== 0;
  }

  high(i: number): number {
    return this.#words[i] ?? 0;
  }

  low(i: number): number {
    return this.#words[this.count + i] ?? 0;
  }

  stampedMs(i: number): Uint64 {
    return fromHalves(this.high(i), this.low(i));
  }

  dataLength(i: number): number {
    return this.#words[2 * this.count + i] ?? 0;
  }

  noteLength(i: number): number {
    return this.#words[3 * this.count + i] ?? 0;
  }

  /** Their bytes fill the block. */
  isSound(bytes: number): boolean {
    let sum = 0;
    for (let at = 2 * this.count; at < 4 * this.count; at++) sum += this.#words[at] ?? 0;
    return sum === bytes;
  }

  #octet(i: number): number {
    return this.#dirs[this.#dirsAt + i] ?? 0;
  }
}

/** Until the next block is unpacked. */
export interface Unpacked {
  readonly entries: BlockEntries;
  readonly bytes: Buffer;
  /** Where data and notes begin in the bytes. */
  readonly from: number;
}

export class BlockUnpacker {
  readonly #engine = createInflateRaw() as unknown as Engine;
  readonly #room = Buffer.allocUnsafeSlow(roomBytes);
  readonly #words = new Uint32Array(this.#room.buffer);
  #isFailed = false;

  constructor() {
    const onerror = (): void => {
      this.#isFailed = true;
    };
    Object.assign(this.#engine._handle, { onerror });
  }

  /** Throws DamagedError. */
  unpack(block: QueuedBlock): Unpacked {
    const unpacked = this.#unpacked(block);
    if (unpacked !== undefined) return unpacked;
    const { body, columns } = columnsIn({ ...block, body: block.bodies.subarray(block.from, block.to) });
    const words = new Uint32Array(body, 0, 4 * block.entries);
    return { entries: new BlockEntries(block.entries, words, columns.dirs, 0), bytes: columns.bytes, from: 0 };
  }

  /** undefined: not a plain case, or damaged. */
  #unpacked({ entries: count, codec, bodies, from: bodyFrom, to, given }: QueuedBlock): Unpacked | undefined {
    if (codec !== deflated || given !== null) return undefined;
    const { _handle: handle, _writeState: state } = this.#engine;
    this.#isFailed = false;
    handle.reset();
    handle.writeSync(constants.Z_FINISH, bodies, bodyFrom, to - bodyFrom, this.#room, 0, roomBytes);
    const [roomLeft = 0, inputLeft = 0] = state;
    const from = count * columnBytes;
    const bytes = roomBytes - roomLeft - from;
    if (this.#isFailed || roomLeft === 0 || inputLeft > 0 || bytes < 0) return undefined;
    const entries = new BlockEntries(count, this.#words, this.#room, 4 * 4 * count);
    return entries.isSound(bytes) ? { entries, bytes: this.#room, from } : undefined;
  }
}
