/**
 * Blocks: runs of log entries with consecutive ids as bytes, the one form in which entries cross to the log's worker, lie in
 * log.db, and come to the hub that ships them. A block is columns (widest first, so each is aligned), then data and note of each
 * entry:
 *
 *   high u32 x n | low u32 x n | dataLength u32 x n | noteLength u32 x n | dir u8 x n | bytes
 *
 * little-endian, n and the first id beside it. Between the threads the dir of an entry whose time its caller gave has the bit
 * `givenTime`; in the file it has not: an earlier version would take it for another direction.
 */
import { inflateRawSync, type ZlibOptions } from 'node:zlib';
import { messageOf } from './errors.ts';

export const columnBytes = 4 * 4 + 1;

export const givenTime = 0x80;

/** A block is not what was written, and SQLite itself found nothing. */
export class DamagedError extends Error {
  readonly code = 'SQLITE_CORRUPT';
}

export interface BlockIndex {
  readonly firstId: number;
  readonly count: number;
  /** In the batch's buffer; a multiple of 4. */
  readonly offset: number;
  readonly length: number;
  /** As the block lies in the file; undefined: its columns. */
  readonly stored?: Pick<StoredBlock, 'codec' | 'given'>;
}

/** A plain object that goes through postMessage, its buffer transferred. */
export interface Batch {
  readonly blocks: readonly BlockIndex[];
  readonly buffer: ArrayBuffer;
}

export interface Columns {
  readonly highs: Uint32Array;
  readonly lows: Uint32Array;
  readonly dataLengths: Uint32Array;
  readonly noteLengths: Uint32Array;
  readonly dirs: Uint8Array;
  readonly bytes: Buffer;
}

export function columnsOf(
  buffer: ArrayBuffer,
  { count, offset, length }: Pick<BlockIndex, 'count' | 'offset' | 'length'>,
): Columns {
  const at = (column: number): number => offset + 4 * column * count;
  return {
    highs: new Uint32Array(buffer, at(0), count),
    lows: new Uint32Array(buffer, at(1), count),
    dataLengths: new Uint32Array(buffer, at(2), count),
    noteLengths: new Uint32Array(buffer, at(3), count),
    dirs: new Uint8Array(buffer, at(4), count),
    bytes: Buffer.from(buffer, offset + columnBytes * count, length - columnBytes * count),
  };
}

/** True when the columns fit the bytes: what every block read from the file must pass. */
export function isSound(columns: Columns): boolean {
  let bytes = 0;
  for (let i = 0; i < columns.dirs.length; i++) bytes += (columns.dataLengths[i] ?? 0) + (columns.noteLengths[i] ?? 0);
  return bytes === columns.bytes.length;
}

/** The body in the file: plain, or deflated if that saves card wear (serial traffic is text or polls more often than not). */
export const plain = 0;
export const deflated = 1;

/** Above any block; a damaged one must not fill the memory. */
const maxBodyBytes = 16 * 1024 * 1024;

export interface StoredBlock {
  readonly first: number;
  readonly entries: number;
  readonly codec: number;
  readonly body: Uint8Array;
  /** Marks of the times that callers gave, a bit an entry; null or empty: none. */
  readonly given: Uint8Array | null;
}

/** Throws DamagedError if the block is not what was written. */
export function columnsIn({ first, entries, codec, body: stored, given }: StoredBlock): {
  readonly body: ArrayBuffer;
  readonly columns: Columns;
} {
  const bytes = decodeBody(codec, stored);
  if (entries * columnBytes > bytes.length) throw new DamagedError(`the block of entry ${first} is too short`);
  const body = ownMemory(bytes);
  const columns = columnsOf(body, { count: entries, offset: 0, length: bytes.length });
  if (!isSound(columns)) throw new DamagedError(`the block of entry ${first} is not whole`);
  if (given !== null && given.length > 0) putGivenBits(columns.dirs, given);
  return { body, columns };
}

/** With `info`, which Node's types lack. */
const unpack = inflateRawSync as unknown as (
  body: Uint8Array,
  options: ZlibOptions & { readonly info: true },
) => { readonly buffer: Buffer; readonly engine: { _outBuffer: Buffer | undefined } };

function decodeBody(codec: number, body: Uint8Array): Uint8Array {
  if (codec === plain) return body;
  try {
    const { buffer, engine } = unpack(body, { maxOutputLength: maxBodyBytes, info: true });
    // V8 collects an engine late, and this with it: 15 MB of what 100 readers cost.
    engine._outBuffer = undefined;
    return buffer;
  } catch (error) {
    throw new DamagedError(`a block cannot be unpacked: ${messageOf(error)}`);
  }
}

/** The bytes at the start of an ArrayBuffer, as the columns' alignment wants them. */
function ownMemory(body: Uint8Array): ArrayBuffer {
  const { buffer, byteLength } = body;
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) return buffer;
  return new Uint8Array(body).buffer;
}

function putGivenBits(dirs: Uint8Array, bits: Uint8Array): void {
  for (const [i, dir] of dirs.entries()) {
    if (((bits[i >> 3] ?? 0) & (1 << (i & 7))) !== 0) dirs[i] = dir | givenTime;
  }
}
