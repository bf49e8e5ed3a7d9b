/**
 * The subscribers' secrets as stored: sealed by a key in its own file, so that a copy of refdata.db alone discloses none.
 * AES-256-GCM, bound to the subscription's id.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { dirname } from 'node:path';
import { LinesideError, messageOf, systemCode } from '../../../shared/base/errors.ts';
import { replaceSynced, syncPath } from '../../../shared/base/files.ts';

export const keyBytes = 32;
/** A sealed secret: this byte, the nonce, the tag, the ciphertext. */
const sealVersion = 1;
/** NIST SP 800-38D: 96 random bits suffice for 2^32 secrets under one key. */
const nonceBytes = 12;
const tagBytes = 16;

export type Opened = { readonly secret: string } | { readonly unreadable: string };

export class SecretBox {
  readonly #keyFile: string;
  readonly #onKeyMade: () => void;
  #key: Buffer | undefined;
  #fault = '';
  /** Changes with the key. */
  generation = 0;
  /** The key file and its directory are synced: another process may have been killed before that. */
  #isDurable = false;

  constructor(keyFile: string, onKeyMade = (): void => {}) {
    this.#keyFile = keyFile;
    this.#onKeyMade = onKeyMade;
    this.reload();
  }

  /** Reads the key file again. While it is unreadable the last key stays in use. */
  reload(): void {
    const found = readKey(this.#keyFile);
    if ('key' in found) this.#adopt(found.key);
    else this.#fault = found.fault;
  }

  /**
   * Creates the key if there is none. The key is on the medium when this returns, so that a power failure leaves no secret
   * without its key. Throws STORAGE_FULL, STORAGE_FAILED.
   */
  seal(subscriptionId: number, secret: string): Buffer {
    const key = this.#durableKey();
    const nonce = randomBytes(nonceBytes);
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
      return { unreadable: `it was not sealed by the key in ${this.#keyFile}` };
    }
  }

  #durableKey(): Buffer {
    const found = readKey(this.#keyFile);
    if ('key' in found) {
      this.#adopt(found.key);
      if (!this.#isDurable) this.#store(() => [this.#keyFile, dirname(this.#keyFile)].forEach(syncPath));
      return found.key;
    }
    if (!found.gone) {
      throw new LinesideError('STORAGE_FAILED', `the secret cannot be stored: ${found.fault}`, {
        hint: 'Restore the key file from a backup; or remove it: then a new key is made, and each secret must be rotated.',
      });
    }
    const key = this.#key ?? randomBytes(keyBytes);
    this.#store(() => replaceSynced(this.#keyFile, key));
    this.#adopt(key);
    this.#onKeyMade();
    return key;
  }

  #store(work: () => void): void {
    try {
      work();
      this.#isDurable = true;
    } catch (error) {
      const full = /^(ENOSPC|EDQUOT)$/.test(systemCode(error));
      throw new LinesideError(
        full ? 'STORAGE_FULL' : 'STORAGE_FAILED',
        `the key file ${this.#keyFile} cannot be written: ${messageOf(error)}`,
        { cause: error, hint: 'It lies where webhooks.key_file says: the service must be able to write there.' },
      );
    }
  }

  #adopt(key: Buffer): void {
    if (this.#key?.equals(key) === true) return;
    this.#key = key;
    this.generation += 1;
  }
}

function boundTo(subscriptionId: number): Buffer {
  return Buffer.from(String(subscriptionId));
}

/** `gone`: there is no file, so that a new key overwrites nothing. */
type KeyFound = { readonly key: Buffer } | { readonly fault: string; readonly gone: boolean };

function readKey(keyFile: string): KeyFound {
  const fault = (what: string): KeyFound => ({ fault: `the key file ${keyFile} ${what}`, gone: false });
  try {
    // Without O_NONBLOCK a pipe in its place would block the thread.
    const fd = fs.openSync(keyFile, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
    try {
      const stat = fs.fstatSync(fd);
      if (!stat.isFile()) return fault('is not a regular file');
      const key = stat.size === keyBytes ? fs.readFileSync(fd) : undefined;
      return key?.length === keyBytes ? { key } : fault(`has ${stat.size} bytes, a key has ${keyBytes}`);
    } finally {
      fs.closeSync(fd);
    }
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return { fault: `there is no key file ${keyFile}`, gone: true };
    return fault(`cannot be read: ${messageOf(error)}`);
  }
}
