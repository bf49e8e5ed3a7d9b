/**
 * The subscribers' secrets as they are stored: sealed by a key that lies in a file of its own, so that a copy of refdata.db
 * alone gives none away. AES-256-GCM, bound to the subscription's id.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import nodeFs from 'node:fs';
import { dirname } from 'node:path';
import { LinesideError, messageOf, systemCode } from '../../../shared/base/errors.ts';

/** A sealed secret: this byte, the nonce, the tag, the rest. */
const sealVersion = 1;
/** NIST SP 800-38D: 96 bits of chance do for 2^32 secrets under one key. */
const nonceBytes = 12;
const tagBytes = 16;

export type Opened = { readonly secret: string } | { readonly unreadable: string };

interface SecretBoxOptions extends KeyFileOptions {
  readonly onKeyMade?: () => void;
  readonly random?: (bytes: number) => Buffer;
}

export class SecretBox {
  readonly #file: KeyFile;
  readonly #random: (bytes: number) => Buffer;
  readonly #onKeyMade: () => void;
  #key: Buffer | undefined;
  #fault = '';
  #generation = 0;

  constructor({ random = randomBytes, onKeyMade = () => {}, ...ofFile }: SecretBoxOptions) {
    this.#file = new KeyFile(ofFile);
    this.#random = random;
    this.#onKeyMade = onKeyMade;
    this.reload();
  }

  /** Another number each time the key is another one. */
  get generation(): number {
    return this.#generation;
  }

  /** Reads the key file again. While it cannot be read the key that was read stays in use: what it has sealed is served. */
  reload(): void {
    const found = this.#file.read();
    if ('key' in found) this.#adopt(found.key);
    else this.#fault = found.fault;
  }

  /**
   * Makes the key where there is none. When it returns the key is on the medium: no secret is stored that nothing can open
   * after a power cut. Throws STORAGE_FULL, STORAGE_FAILED.
   */
  seal(subscriptionId: number, secret: string): Buffer {
    const key = this.#durableKey();
    const nonce = this.#random(nonceBytes);
    const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes });
    cipher.setAAD(boundTo(subscriptionId));
    const sealed = Buffer.concat([cipher.update(secret, 'utf8'), cipher.final()]);
    return Buffer.concat([Buffer.of(sealVersion), nonce, cipher.getAuthTag(), sealed]);
  }

  open(subscriptionId: number, blob: Buffer): Opened {
    if (this.#key === undefined) return { unreadable: this.#fault };
    if (blob[0] !== sealVersion || blob.length <= 1 + nonceBytes + tagBytes) {
      return { unreadable: 'what is stored of it is no sealed secret of this version' };
    }
    const [nonce, rest] = [blob.subarray(1, 1 + nonceBytes), blob.subarray(1 + nonceBytes)];
    const decipher = createDecipheriv('aes-256-gcm', this.#key, nonce, { authTagLength: tagBytes });
    decipher.setAAD(boundTo(subscriptionId)).setAuthTag(rest.subarray(0, tagBytes));
    try {
      return { secret: Buffer.concat([decipher.update(rest.subarray(tagBytes)), decipher.final()]).toString('utf8') };
    } catch {
      return { unreadable: `it was not sealed by the key in ${this.#file.path}` };
    }
  }

  #durableKey(): Buffer {
    const found = this.#file.read();
    if ('key' in found) {
      this.#adopt(found.key);
      this.#file.makeDurable();
      return found.key;
    }
    if (!found.gone) {
      throw new LinesideError('STORAGE_FAILED', `the secret cannot be stored: ${found.fault}`, {
        hint: 'Restore the key file from a backup; or remove it: then a new key is made, and each secret must be rotated.',
      });
    }
    const key = this.#key ?? this.#random(keyBytes);
    this.#file.write(key);
    this.#adopt(key);
    this.#onKeyMade();
    return key;
  }

  #adopt(key: Buffer): void {
    if (this.#key?.equals(key) === true) return;
    this.#key = key;
    this.#generation += 1;
  }
}

function boundTo(subscriptionId: number): Buffer {
  return Buffer.from(String(subscriptionId));
}

// The file that holds the key of the subscribers' secrets: 32 bytes, for the service's user alone.

export const keyBytes = 32;
const fileMode = 0o600;

type FileSystem = Pick<
  typeof nodeFs,
  'openSync' | 'fstatSync' | 'readSync' | 'writeSync' | 'fsyncSync' | 'closeSync' | 'renameSync' | 'rmSync'
>;

interface KeyFileOptions {
  readonly keyFile: string;
  readonly fs?: FileSystem;
}

/** `gone`: there is none; a new one harms no file. */
type KeyFound = { readonly key: Buffer } | { readonly fault: string; readonly gone: boolean };

class KeyFile {
  readonly path: string;
  readonly #fs: FileSystem;
  /** The file and its name have been synced: another process may have been killed before it came to that. */
  #isDurable = false;

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
    this.#isDurable = true;
  }

  /** Throws STORAGE_FAILED. */
  makeDurable(): void {
    if (this.#isDurable) return;
    this.#guarded(() => {
      this.#opened(this.path, 'r', (fd) => this.#fs.fsyncSync(fd));
      this.#syncDirectory();
    });
    this.#isDurable = true;
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
