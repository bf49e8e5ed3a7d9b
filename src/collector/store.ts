/** The collector's storage: a directory for each device, and in it one for each log. Opens logs on demand, and closes the least used. */
import { closeSync } from 'node:fs';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import Long from 'long';
import { openLockFile } from '../shared/base/data-directory.ts';
import { LinesideError, messageOf, systemCode } from '../shared/base/errors.ts';
import { tryLock } from '../shared/base/libc.ts';
import type { Logger } from '../shared/base/logger.ts';
import type { lineside } from '../shared/proto/services.ts';
import { MAX_DEVICES, MAX_LOGS_A_DEVICE, MAX_OPEN_LOGS } from './limits.ts';
import { directoryName } from './segment.ts';
import { type Disk, realDisk, StoredLog } from './stored-log.ts';

interface Opened {
  readonly log: Promise<StoredLog>;
  users: number;
}

export class Store {
  readonly #dir: string;
  readonly #logger: Logger;
  readonly #disk: Disk;
  #release: () => void = () => undefined;
  /** By directory, the least recently used first. */
  readonly #opened = new Map<string, Opened>();

  constructor(dir: string, logger: Logger, disk = realDisk) {
    this.#dir = dir;
    this.#logger = logger;
    this.#disk = disk;
  }

  /** CONFIG_INVALID: the directory cannot be used. CONFLICT: another collector uses it. */
  async start(): Promise<void> {
    try {
      await mkdir(this.#dir, { recursive: true, mode: 0o750 });
      this.#release = lockDirectory(this.#dir);
    } catch (error) {
      if (error instanceof LinesideError) throw error;
      throw new LinesideError('CONFIG_INVALID', `cannot use the directory ${this.#dir}: ${messageOf(error)}`, {
        cause: error,
      });
    }
  }

  /** Up to which id a log is stored durably; 0: nothing is stored. Creates nothing. */
  async position(deviceId: string, logId: string): Promise<Long> {
    const dir = this.#place(deviceId, logId);
    if (!this.#opened.has(dir) && (await namesIn(dir)).length === 0) return Long.UZERO;
    return this.#using(dir, (log) => log.sync());
  }

  async append(encoded: Uint8Array, batch: lineside.v1.UpstreamBatch): Promise<void> {
    const dir = this.#place(batch.deviceId, batch.logId);
    if (!this.#opened.has(dir)) await this.#checkRoom(batch, dir);
    await this.#using(dir, (log) => log.append(encoded, batch));
  }

  /** Closes all logs; rejects if one cannot be flushed. */
  async stop(): Promise<void> {
    const opened = [...this.#opened.values()];
    this.#opened.clear();
    const ended = await Promise.allSettled(opened.map(async ({ log }) => (await log).close()));
    this.#release();
    const failed = ended.find((one) => one.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
  }

  #place(deviceId: string, logId: string): string {
    return join(this.#dir, directoryName(deviceId), directoryName(logId));
  }

  /** Checks the limits for a log that is not stored yet. */
  async #checkRoom({ deviceId, logId }: lineside.v1.UpstreamBatch, dir: string): Promise<void> {
    if ((await namesIn(dir)).length > 0) return;
    const logs = await namesIn(join(this.#dir, directoryName(deviceId)));
    if (logs.length >= MAX_LOGS_A_DEVICE) {
      throw new LinesideError('TOO_MANY', `log_id: there are ${logs.length} logs of this device already`);
    }
    if (logs.length === 0 && (await namesIn(this.#dir)).length >= MAX_DEVICES) {
      throw new LinesideError('TOO_MANY', `device_id: there are ${MAX_DEVICES} devices already`);
    }
    this.#logger.info('a log begins', { device: deviceId, log: logId });
  }

  async #using<T>(dir: string, work: (log: StoredLog) => Promise<T>): Promise<T> {
    const opened = this.#opened.get(dir) ?? { log: StoredLog.open(dir, this.#logger, this.#disk), users: 0 };
    this.#opened.delete(dir);
    this.#opened.set(dir, opened);
    opened.users += 1;
    try {
      const log = await opened.log;
      return await work(log);
    } finally {
      opened.users -= 1;
      await this.#letGo(dir, opened);
    }
  }

  async #letGo(dir: string, opened: Opened): Promise<void> {
    const isLost = await opened.log.then(
      (log) => log.isLost,
      () => true,
    );
    if (isLost && this.#opened.get(dir) === opened) this.#opened.delete(dir);
    if (this.#opened.size <= MAX_OPEN_LOGS) return;
    for (const [other, { log, users }] of this.#opened) {
      if (users > 0) continue;
      this.#opened.delete(other);
      await (await log).close();
      return;
    }
  }
}

async function namesIn(dir: string): Promise<string[]> {
  try {
    return await readdir(dir);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return [];
    throw new LinesideError('STORAGE_FAILED', `cannot read ${dir}: ${messageOf(error)}`, { cause: error });
  }
}

/**
 * One collector at a time uses a directory: the kernel releases the lock on a file in it when the process ends. Answers the
 * function that releases it. CONFLICT: another collector has it.
 */
function lockDirectory(dir: string): () => void {
  const fd = openLockFile(join(dir, 'collector.lock'));
  if (tryLock(fd)) return () => closeSync(fd);
  closeSync(fd);
  throw new LinesideError('CONFLICT', `another collector uses ${dir}`);
}
