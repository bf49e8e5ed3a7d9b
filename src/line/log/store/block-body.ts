/**
 * How a block's body lies in the file: its columns without the marks of given times, deflated where that saves card wear (serial
 * traffic is text or polls more often than not).
 */
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { messageOf } from '../../../shared/base/errors.ts';
import { DamagedError } from '../failures.ts';
import { type Columns, columnsOf, givenTime, isSound } from '../packed.ts';

const plain = 0;
const deflated = 1;

/** Smaller bodies fit beside others on a page: nothing to save. */
const worthwhileBytes = 256;
/** Keeps what is compressed only when it saves a tenth. */
const worthwhileRatio = 0.9;
/** Above any block; a damaged one must not fill the memory. */
const maxBodyBytes = 16 * 1024 * 1024;

export function encodeBody(body: Uint8Array, compress: boolean): { codec: number; body: Uint8Array } {
  if (!compress || body.length < worthwhileBytes) return { codec: plain, body };
  const smaller = deflateRawSync(body, { level: 1 });
  return smaller.length <= body.length * worthwhileRatio ? { codec: deflated, body: smaller } : { codec: plain, body };
}

function decodeBody(codec: number, body: Buffer): Buffer {
  if (codec === plain) return body;
  try {
    return inflateRawSync(body, { maxOutputLength: maxBodyBytes });
  } catch (error) {
    throw new DamagedError(`a block cannot be unpacked: ${messageOf(error)}`);
  }
}

export interface BlockRow {
  first: number;
  entries: number;
  codec: number;
  body: Buffer;
}

/** Throws where the block is not what was written. */
export function columnsIn({ first, entries, codec, body: stored }: BlockRow): { body: ArrayBuffer; columns: Columns } {
  const bytes = decodeBody(codec, stored);
  if (entries * 17 > bytes.length) throw new DamagedError(`the block of entry ${first} is too short`);
  const body = ownMemory(bytes);
  const columns = columnsOf(body, { firstId: first, count: entries, offset: 0, length: bytes.length });
  if (!isSound(columns)) throw new DamagedError(`the block of entry ${first} is not whole`);
  return { body, columns };
}

/** The bytes at the start of an ArrayBuffer, as the columns' alignment wants them. */
function ownMemory(body: Buffer): ArrayBuffer {
  const { buffer, byteLength } = body;
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) return buffer;
  return new Uint8Array(body).buffer;
}

/** The mark of given times leaves the block and becomes a row of its own: a bit an entry; undefined where there is none. */
export function takeGivenBits(dirs: Uint8Array): Uint8Array | undefined {
  let bits: Uint8Array | undefined;
  for (const [i, dir] of dirs.entries()) {
    if ((dir & givenTime) === 0) continue;
    bits ??= new Uint8Array(Math.ceil(dirs.length / 8));
    bits[i >> 3] = (bits[i >> 3] ?? 0) | (1 << (i & 7));
    dirs[i] = dir & ~givenTime;
  }
  return bits;
}

export function putGivenBits(dirs: Uint8Array, bits: Uint8Array): void {
  for (const [i, dir] of dirs.entries()) {
    if (((bits[i >> 3] ?? 0) & (1 << (i & 7))) !== 0) dirs[i] = dir | givenTime;
  }
}
