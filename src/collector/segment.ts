/**
 * The collector's directories and files. A file is a mark, then records, each the length and CRC-32 of an encoded UpstreamBatch and the
 * batch. Only ever appended to, so what a crash leaves unfinished is at the end.
 */
import { createHash } from 'node:crypto';
import { type FileHandle, readdir } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import type Long from 'long';
import { MAX_BATCH_BYTES } from './limits.ts';

/** A name in a directory has at most 255 bytes. */
const MAX_NAME_BYTES = 200;

/**
 * The name of a directory for the id of a device or a log, whatever is in the id: percent-encoded, as far as it is not plain; by its hash where that becomes too long. Never "." or "..", never with a
 * slash, never the same for two ids.
 */
export function directoryName(id: string): string {
  const name = id.replace(/[^A-Za-z0-9._-]|^\./gu, percent);
  return name.length <= MAX_NAME_BYTES ? name : `~${createHash('sha256').update(id).digest('hex')}`;
}

function percent(char: string): string {
  return Array.from(Buffer.from(char), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('');
}

const SUFFIX = '.batches';
/** 2^64 has so many. */
export const DIGITS = 20;

export function segmentName(position: Long): string {
  return `${position.toString().padStart(DIGITS, '0')}${SUFFIX}`;
}

export async function segmentNames(dir: string): Promise<string[]> {
  const pattern = /^\d{20}\.batches$/;
  return (await readdir(dir)).filter((name) => pattern.test(name)).sort();
}

/** "lineside collector, format 1" */
export const MARK = Buffer.from('LSCOLL1\n');
/** Length and CRC, little-endian, 4 bytes each. */
export const RECORD_HEAD_BYTES = 8;
/** A system call for each record would be slow with small ones. */
const READ_BYTES = 1024 * 1024;

export function encodeRecord(batch: Uint8Array): Buffer {
  const record = Buffer.allocUnsafe(RECORD_HEAD_BYTES + batch.length);
  record.writeUInt32LE(batch.length, 0);
  record.writeUInt32LE(crc32(batch), 4);
  record.set(batch, RECORD_HEAD_BYTES);
  return record;
}

type Ending =
  | 'whole'
  /** The last record was not written to its end, or it is zeros: a crash. */
  | 'torn'
  /** A record is damaged, and more follows it. */
  | 'damaged';

export interface Tail {
  /** Where the last good record ends; 0: not even the mark is there. */
  readonly validBytes: number;
  readonly ending: Ending;
}

/** Every good record in order; a batch is valid until the next one is requested. */
export async function* readSegment(file: FileHandle): AsyncGenerator<Uint8Array, Tail> {
  const input = new Input(file);
  const mark = await input.take(MARK.length);
  if (mark === undefined) return { validBytes: 0, ending: input.isAtEnd ? 'whole' : 'torn' };
  if (!mark.equals(MARK)) return { validBytes: 0, ending: mark.every((byte) => byte === 0) ? 'torn' : 'damaged' };
  let validBytes = MARK.length;
  for (;;) {
    const head = await input.take(RECORD_HEAD_BYTES);
    if (head === undefined) return { validBytes, ending: input.isAtEnd ? 'whole' : 'torn' };
    const length = head.readUInt32LE(0);
    const sum = head.readUInt32LE(4);
    const batch = length === 0 || length > MAX_BATCH_BYTES ? undefined : await input.take(length);
    if (batch === undefined || crc32(batch) !== sum) {
      return { validBytes, ending: await brokenEnding(input, length, sum, batch !== undefined) };
    }
    yield batch;
    validBytes += RECORD_HEAD_BYTES + length;
  }
}

/** A record is broken: torn if it is the last one, else damaged. */
async function brokenEnding(input: Input, length: number, sum: number, isRead: boolean): Promise<Ending> {
  if (isRead) return (await input.some()) === undefined ? 'torn' : 'damaged';
  if (length > 0) return length <= MAX_BATCH_BYTES ? 'torn' : 'damaged';
  // A file system that knew the new size before the content: zeros to the end.
  let isZero = sum === 0;
  for (let part = await input.some(); isZero && part !== undefined; part = await input.some()) {
    isZero = part.every((byte) => byte === 0);
  }
  return isZero ? 'torn' : 'damaged';
}

class Input {
  readonly #file: FileHandle;
  #buffer = Buffer.allocUnsafe(READ_BYTES);
  #from = 0;
  #to = 0;
  #position = 0;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  /** Nothing is left, after a take() that found too little. */
  get isAtEnd(): boolean {
    return this.#from === this.#to;
  }

  /** The next bytes, until the next call; undefined: there are not so many. */
  async take(bytes: number): Promise<Buffer | undefined> {
    while (this.#to - this.#from < bytes) {
      if (!(await this.#fill(bytes))) return undefined;
    }
    const taken = this.#buffer.subarray(this.#from, this.#from + bytes);
    this.#from += bytes;
    return taken;
  }

  /** Some of what is left; undefined: nothing. */
  async some(): Promise<Buffer | undefined> {
    if (this.isAtEnd && !(await this.#fill(1))) return undefined;
    const taken = this.#buffer.subarray(this.#from, this.#to);
    this.#from = this.#to;
    return taken;
  }

  /** Makes room for so many bytes and reads more; false at the end of the file. */
  async #fill(bytes: number): Promise<boolean> {
    const into = bytes > this.#buffer.length ? Buffer.allocUnsafe(bytes + READ_BYTES) : this.#buffer;
    this.#buffer.copy(into, 0, this.#from, this.#to);
    this.#to -= this.#from;
    this.#from = 0;
    this.#buffer = into;
    const { bytesRead } = await this.#file.read(into, this.#to, into.length - this.#to, this.#position);
    this.#to += bytesRead;
    this.#position += bytesRead;
    return bytesRead > 0;
  }
}
