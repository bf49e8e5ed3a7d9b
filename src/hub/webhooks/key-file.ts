/** The file that holds the key of the subscribers' secrets: 32 bytes, for the service's user alone. */
import nodeFs from 'node:fs';
import { dirname } from 'node:path';
import { LinesideError, messageOf, systemCode } from '../../shared/base/errors.ts';

export const keyBytes = 32;
const fileMode = 0o600;

type FileSystem = Pick<
  typeof nodeFs,
  'openSync' | 'fstatSync' | 'readSync' | 'writeSync' | 'fsyncSync' | 'closeSync' | 'renameSync' | 'rmSync'
>;

export interface KeyFileOptions {
  readonly keyFile: string;
  readonly fs?: FileSystem;
}

/** `gone`: there is none; a new one harms nobody's file. */
type KeyFound = { readonly key: Buffer } | { readonly fault: string; readonly gone: boolean };

export class KeyFile {
  readonly path: string;
  readonly #fs: FileSystem;
  /** The file and its name have been synced: another process may have been killed before it came to that. */
  #isLasting = false;

  constructor({ keyFile, fs = nodeFs }: KeyFileOptions) {
    this.path = keyFile;
    this.#fs = fs;
  }

  read(): KeyFound {
    try {
      // Without O_NONBLOCK a pipe in its place would hold the thread.
      return this.#opened(this.path, nodeFs.constants.O_RDONLY | nodeFs.constants.O_NONBLOCK, (fd) => this.#keyIn(fd));
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return { fault: `there is no key file ${this.path}`, gone: true };
      return this.#fault(`cannot be read: ${messageOf(error)}`);
    }
  }

  #keyIn(fd: number): KeyFound {
    const stat = this.#fs.fstatSync(fd);
    if (!stat.isFile()) return this.#fault('is not a regular file');
    if (stat.size !== keyBytes) return this.#fault(`has ${stat.size} bytes, a key has ${keyBytes}`);
    const key = Buffer.alloc(keyBytes);
    const read = this.#fs.readSync(fd, key, 0, keyBytes, 0);
    return read === keyBytes ? { key } : this.#fault(`gave ${read} bytes of ${keyBytes}`);
  }

  #fault(what: string): KeyFound {
    return { fault: `the key file ${this.path} ${what}`, gone: false };
  }

  /** All or nothing, and on the medium when it returns. Throws STORAGE_FULL, STORAGE_FAILED. */
  write(key: Buffer): void {
    const temporary = `${this.path}.new`;
    this.#guarded(() => {
      // Of an attempt that was cut short; its mode might be another.
      this.#fs.rmSync(temporary, { force: true });
      this.#opened(temporary, 'wx', (fd) => {
        const written = this.#fs.writeSync(fd, key);
        if (written !== keyBytes) throw new Error(`only ${written} bytes were written`);
        this.#fs.fsyncSync(fd);
      });
      this.#fs.renameSync(temporary, this.path);
      this.#syncDirectory();
    });
    this.#isLasting = true;
  }

  /** Throws STORAGE_FAILED. */
  makeLasting(): void {
    if (this.#isLasting) return;
    this.#guarded(() => {
      this.#opened(this.path, 'r', (fd) => this.#fs.fsyncSync(fd));
      this.#syncDirectory();
    });
    this.#isLasting = true;
  }

  #syncDirectory(): void {
    this.#opened(dirname(this.path), 'r', (fd) => this.#fs.fsyncSync(fd));
  }

  #opened<T>(path: string, flags: string | number, work: (fd: number) => T): T {
    const fd = this.#fs.openSync(path, flags, fileMode);
    try {
      return work(fd);
    } finally {
      this.#fs.closeSync(fd);
    }
  }

  #guarded(work: () => void): void {
    try {
      work();
    } catch (error) {
      const full = /^(ENOSPC|EDQUOT)$/.test(systemCode(error));
      throw new LinesideError(
        full ? 'STORAGE_FULL' : 'STORAGE_FAILED',
        `the key file ${this.path} cannot be written: ${messageOf(error)}`,
        { cause: error, hint: 'It lies where webhooks.key_file says: the service must be able to write there.' },
      );
    }
  }
}
