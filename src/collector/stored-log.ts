/**
 * One log of one device on the collector's disk: files of records, named after the position at which each begins. Where the
 * log continues is read from the stored records, never kept beside them.
 */
import { type FileHandle, mkdir, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import Long from 'long';
import { LinesideError, messageOf, systemCode } from '../shared/base/errors.ts';
import type { Logger } from '../shared/base/logger.ts';
import { lineside } from '../shared/proto/services.ts';
import { glance } from './batch-check.ts';
import { MAX_UNSYNCED_BYTES, SEGMENT_BYTES } from './limits.ts';
import { DIGITS, encodeRecord, MARK, readSegment, segmentName, segmentNames, type Tail } from './segment.ts';

export type Disk = typeof realDisk;

/** The calls that fail if the disk is full or broken. */
export const realDisk = {
  open: (path: string, flags: string): Promise<FileHandle> => open(path, flags, 0o640),
  async write(file: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
    for (let done = 0; done < bytes.length; ) {
      done += (await file.write(bytes, done, bytes.length - done, position + done)).bytesWritten;
    }
  },
  sync: (file: FileHandle): Promise<void> => file.sync(),
  truncate: (file: FileHandle, size: number): Promise<void> => file.truncate(size),
};

/** Corrections and open ends of a batch: kept even if its ids are stored already. */
function extrasOf({ gaps, clockCorrections }: lineside.v1.UpstreamBatch): string {
  const openEnded = gaps.filter((gap) => gap.openEnded);
  if (clockCorrections.length === 0 && openEnded.length === 0) return '';
  return JSON.stringify([clockCorrections, openEnded]);
}

export class StoredLog {
  readonly #dir: string;
  readonly #disk: Disk;
  readonly #segmentBytes: number;
  /** undefined: there is no file yet, or it has to be read again after a failure. */
  #file: FileHandle | undefined;
  #size = 0;
  #durableSize = 0;
  /** Where the file that is written to began. */
  #fileFrom = Long.UZERO;
  #position = Long.UZERO;
  /** The last ones stored: a repeated batch has the same. */
  #extras = '';
  /** One operation at a time. */
  #busy: Promise<unknown> = Promise.resolve();
  /** A write or a flush failed: what is stored has to be read again, by another object. */
  isLost = false;

  /** Reads the last file and cuts off an unfinished record. A log that is not stored yet is empty. */
  static async open(dir: string, logger: Logger, disk = realDisk, segmentBytes = SEGMENT_BYTES): Promise<StoredLog> {
    const log = new StoredLog(dir, disk, segmentBytes);
    try {
      await log.#find(logger);
    } catch (error) {
      await log.#drop();
      throw storageError(`cannot read ${dir}`, error);
    }
    return log;
  }

  private constructor(dir: string, disk: Disk, segmentBytes: number) {
    this.#dir = dir;
    this.#disk = disk;
    this.#segmentBytes = segmentBytes;
  }

  /** Appends the batch unless all of it is stored already. On the disk after sync(). If it rejects, nothing was stored. */
  append(encoded: Uint8Array, batch: lineside.v1.UpstreamBatch): Promise<void> {
    return this.#alone(async () => {
      if (batch.afterId.greaterThan(this.#position)) throw new AheadOfPosition(batch.afterId, this.#position);
      const extras = extrasOf(batch);
      const isKnown = !batch.throughId.greaterThan(this.#position);
      if (isKnown && (extras === '' || extras === this.#extras)) return;
      await this.#write(encodeRecord(encoded));
      if (!isKnown) this.#position = batch.throughId;
      if (extras !== '') this.#extras = extras;
      if (this.#size - this.#durableSize >= MAX_UNSYNCED_BYTES) await this.#sync();
    });
  }

  /** Flushes; answers the position up to which the log is on the disk. */
  sync(): Promise<Long> {
    return this.#alone(async () => {
      await this.#sync();
      return this.#position;
    });
  }

  async close(): Promise<void> {
    await this.#alone(async () => {
      try {
        if (!this.isLost) await this.#sync();
      } finally {
        await this.#drop();
      }
    });
  }

  #alone<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#busy.then(() => {
      if (this.isLost) throw new LinesideError('STORAGE_FAILED', 'the log is checked again after a failure: try again');
      return work();
    });
    this.#busy = done.catch(() => undefined);
    return done;
  }

  async #find(logger: Logger): Promise<void> {
    const names = await segmentNames(this.#dir).catch((error: unknown) => {
      if (systemCode(error) === 'ENOENT') return [];
      throw error;
    });
    const last = names.at(-1);
    if (last === undefined) return;
    const path = join(this.#dir, last);
    this.#file = await this.#disk.open(path, 'r+');
    this.#fileFrom = Long.fromString(last.slice(0, DIGITS), true);
    this.#position = this.#fileFrom;
    const records = readSegment(this.#file);
    let record = await records.next();
    for (; record.done !== true; record = await records.next()) {
      const { throughId, mayHaveExtras } = glance(record.value);
      if (throughId.greaterThan(this.#position)) this.#position = throughId;
      if (mayHaveExtras) this.#extras = extrasOf(lineside.v1.UpstreamBatch.decode(record.value)) || this.#extras;
    }
    await this.#repair(path, record.value, logger);
    // What a crash left in the page cache is on the disk before any box is answered.
    await this.#disk.sync(this.#file);
    await this.#syncDirectories();
    this.#durableSize = this.#size;
  }

  async #repair(path: string, { validBytes, ending }: Tail, logger: Logger): Promise<void> {
    const file = this.#file;
    if (file === undefined) return;
    const { size } = await file.stat();
    this.#size = validBytes;
    if (ending === 'damaged') await this.#setAside(path, file, validBytes, size, logger);
    if (ending === 'torn')
      logger.info('truncated an incomplete record after a crash', { file: path, bytes: size - validBytes });
    if (size > validBytes) await this.#disk.truncate(file, validBytes);
  }

  /** Good records may stand behind a damaged one: the box sends them again if it can, and the only copy is never deleted. */
  async #setAside(path: string, file: FileHandle, from: number, to: number, logger: Logger): Promise<void> {
    const aside = `${path}.damaged-at-${from}`;
    const copy = await this.#disk.open(aside, 'w');
    try {
      const part = Buffer.allocUnsafe(64 * 1024);
      for (let at = from; at < to; ) {
        const { bytesRead } = await file.read(part, 0, Math.min(part.length, to - at), at);
        if (bytesRead === 0) break;
        await this.#disk.write(copy, part.subarray(0, bytesRead), at - from);
        at += bytesRead;
      }
      await this.#disk.sync(copy);
    } finally {
      await copy.close();
    }
    logger.error('a file is damaged: it is taken up to there, and the rest was set aside', {
      file: path,
      aside,
      bytes: to - from,
    });
  }

  async #write(record: Buffer): Promise<void> {
    const isFull = this.#size + record.length > this.#segmentBytes;
    try {
      // Named after the position: one that did not move has its file already.
      if (this.#file === undefined || (isFull && this.#position.greaterThan(this.#fileFrom))) await this.#begin();
    } catch (error) {
      await this.#drop();
      throw storageError('cannot begin another file', error);
    }
    const file = this.#file;
    if (file === undefined) throw new LinesideError('INTERNAL', 'no file to write to');
    const bytes = this.#size === 0 ? Buffer.concat([MARK, record]) : record;
    try {
      await this.#disk.write(file, bytes, this.#size);
    } catch (error) {
      await this.#undo(file);
      throw storageError('cannot store the batch', error);
    }
    this.#size += bytes.length;
  }

  /** Cuts off what the failed write left; if that fails too, the next to open the file does it. */
  async #undo(file: FileHandle): Promise<void> {
    try {
      await this.#disk.truncate(file, this.#size);
    } catch {
      await this.#drop();
    }
  }

  async #begin(): Promise<void> {
    if (this.#file !== undefined) {
      await this.#sync();
      await this.#file.close();
      this.#file = undefined;
    }
    await mkdir(this.#dir, { recursive: true, mode: 0o750 });
    this.#file = await this.#disk.open(join(this.#dir, segmentName(this.#position)), 'w+');
    this.#size = 0;
    this.#durableSize = 0;
    this.#fileFrom = this.#position;
    await this.#syncDirectories();
  }

  /** The file's own, the device's and the collector's: whichever of them is new. */
  async #syncDirectories(): Promise<void> {
    for (const dir of [this.#dir, dirname(this.#dir), dirname(dirname(this.#dir))]) {
      const handle = await this.#disk.open(dir, 'r');
      try {
        await this.#disk.sync(handle);
      } finally {
        await handle.close();
      }
    }
  }

  async #sync(): Promise<void> {
    if (this.#size > this.#durableSize && this.#file !== undefined) {
      try {
        await this.#disk.sync(this.#file);
      } catch (error) {
        // The kernel may call pages clean that never reached the disk, and read them back: they go, and the box sends them again.
        await this.#disk.truncate(this.#file, this.#durableSize).catch(() => undefined);
        await this.#drop();
        throw storageError('cannot flush to the disk', error);
      }
    }
    this.#durableSize = this.#size;
  }

  async #drop(): Promise<void> {
    this.isLost = true;
    const file = this.#file;
    this.#file = undefined;
    await file?.close().catch(() => undefined);
  }
}

/** The batch begins above what is stored: the box has to ask for the position. */
export class AheadOfPosition extends Error {
  constructor(afterId: Long, position: Long) {
    super(
      `after_id: ${String(afterId)} is above the position ${String(position)} of this log here: continue from there (GetPosition)`,
    );
  }
}

/** No room: disk, quota or file size. */
const FULL: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

function storageError(what: string, error: unknown): LinesideError {
  if (error instanceof LinesideError) return error;
  const code = FULL.has(systemCode(error)) ? 'STORAGE_FULL' : 'STORAGE_FAILED';
  return new LinesideError(code, `${what}: ${messageOf(error)}`, { cause: error });
}
