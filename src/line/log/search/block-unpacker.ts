/** Unpacks many small blocks at a quarter of what Node's own call costs for each. */
import { constants, createInflateRaw } from 'node:zlib';
import {
  type Columns,
  columnBytes,
  columnsIn,
  columnsOf,
  deflated,
  isSound,
  type StoredBlock,
} from '../../../shared/base/log-block.ts';

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

export class BlockUnpacker {
  readonly #engine = createInflateRaw() as unknown as Engine;
  readonly #room = new Uint8Array(roomBytes);
  #isFailed = false;

  constructor() {
    const onerror = (): void => {
      this.#isFailed = true;
    };
    Object.assign(this.#engine._handle, { onerror });
  }

  /** Throws DamagedError. */
  columns(block: StoredBlock): Columns {
    return this.#unpacked(block) ?? columnsIn(block).columns;
  }

  /** undefined: not a plain case, or damaged. */
  #unpacked({ entries, codec, body, given }: StoredBlock): Columns | undefined {
    if (codec !== deflated || (given !== null && given.length > 0)) return undefined;
    const { _handle: handle, _writeState: state } = this.#engine;
    this.#isFailed = false;
    handle.reset();
    handle.writeSync(constants.Z_FINISH, body, 0, body.length, this.#room, 0, roomBytes);
    const [roomLeft = 0, inputLeft = 0] = state;
    const length = roomBytes - roomLeft;
    if (this.#isFailed || roomLeft === 0 || inputLeft > 0 || entries * columnBytes > length) return undefined;
    const columns = columnsOf(this.#room.buffer.slice(0, length), { count: entries, offset: 0, length });
    return isSound(columns) ? columns : undefined;
  }
}
