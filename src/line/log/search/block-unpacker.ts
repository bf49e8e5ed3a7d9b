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

/** A block by the places of its entries in it: an object for each of its columns would be garbage after each block. */
export class UnpackedBlock {
  count = 0;
  /** Has data and notes of the entries from `from` on. */
  bytes: Buffer = Buffer.alloc(0);
  from = 0;
  /** The columns of four bytes, one after the other (log-block.ts). */
  #words: Uint32Array = new Uint32Array();
  #dirs: Uint8Array = new Uint8Array();
  #dirsAt = 0;

  setColumns(count: number, words: Uint32Array, dirs: Uint8Array, dirsAt: number): void {
    this.count = count;
    this.#words = words;
    this.#dirs = dirs;
    this.#dirsAt = dirsAt;
  }

  setBytes(bytes: Buffer, from: number): void {
    this.bytes = bytes;
    this.from = from;
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

export class BlockUnpacker {
  readonly #engine = createInflateRaw() as unknown as Engine;
  readonly #room = Buffer.allocUnsafeSlow(roomBytes);
  readonly #words = new Uint32Array(this.#room.buffer);
  readonly #block = new UnpackedBlock();
  #isFailed = false;

  constructor() {
    const onerror = (): void => {
      this.#isFailed = true;
    };
    Object.assign(this.#engine._handle, { onerror });
  }

  /** Until the next block is unpacked. Throws DamagedError. */
  unpack(block: QueuedBlock): UnpackedBlock {
    if (this.#isUnpacked(block)) return this.#block;
    const { body, columns } = columnsIn({ ...block, body: block.bodies.subarray(block.from, block.to) });
    this.#block.setColumns(block.entries, new Uint32Array(body, 0, 4 * block.entries), columns.dirs, 0);
    this.#block.setBytes(columns.bytes, 0);
    return this.#block;
  }

  /** False: not a plain case, or damaged. */
  #isUnpacked({ entries: count, codec, bodies, from: bodyFrom, to, given }: QueuedBlock): boolean {
    if (codec !== deflated || (given?.length ?? 0) > 0) return false;
    const { _handle: handle, _writeState: state } = this.#engine;
    this.#isFailed = false;
    handle.reset();
    handle.writeSync(constants.Z_FINISH, bodies, bodyFrom, to - bodyFrom, this.#room, 0, roomBytes);
    const roomLeft = state[0] ?? 0;
    const inputLeft = state[1] ?? 0;
    const from = count * columnBytes;
    const bytes = roomBytes - roomLeft - from;
    if (this.#isFailed || roomLeft === 0 || inputLeft > 0 || bytes < 0) return false;
    this.#block.setColumns(count, this.#words, this.#room, 4 * 4 * count);
    this.#block.setBytes(this.#room, from);
    return this.#block.isSound(bytes);
  }
}
