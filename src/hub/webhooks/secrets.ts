/**
 * The subscribers' secrets as they are stored: sealed by a key that lies in a file of its own, so that a copy of refdata.db
 * alone gives none away. AES-256-GCM, bound to the subscription's id.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { LinesideError } from '../../shared/base/errors.ts';
import { KeyFile, type KeyFileOptions, keyBytes } from './key-file.ts';

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
    this.look();
  }

  /** Another number each time the key is another one. */
  get generation(): number {
    return this.#generation;
  }

  /** Reads the key file again. While it cannot be read the key that was read goes on: what it has sealed is served. */
  look(): void {
    const found = this.#file.read();
    if ('key' in found) this.#adopt(found.key);
    else this.#fault = found.fault;
  }

  /**
   * Makes the key where there is none. When it returns the key is on the medium: no secret is stored that nothing can open
   * after a power cut. Throws STORAGE_FULL, STORAGE_FAILED.
   */
  seal(subscriptionId: number, secret: string): Buffer {
    const key = this.#lastingKey();
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

  #lastingKey(): Buffer {
    const found = this.#file.read();
    if ('key' in found) {
      this.#adopt(found.key);
      this.#file.makeLasting();
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
