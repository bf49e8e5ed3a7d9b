/** What arrives of the drivers' content: counted, and held against it by SHA-256. */
import { createHash } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { within } from '../../src/shared/base/wait.fixture.ts';
import { CONTENT_BYTES, content } from './pty-driver.ts';

export class Receiver {
  bytes = 0;
  entries = 0;
  /** performance.now() when the last of the awaited bytes came. */
  endedAt = 0;
  #hash = createHash('sha256');
  #waiting: { readonly bytes: number; readonly resolve: () => void } | undefined;

  readonly take = (buffer: Buffer, from: number, to: number): void => {
    this.bytes += to - from;
    this.entries++;
    this.#hash.update(buffer.subarray(from, to));
    if (this.#waiting === undefined || this.bytes < this.#waiting.bytes) return;
    this.endedAt = performance.now();
    this.#waiting.resolve();
  };

  /** Resolves when so many bytes are there. */
  async all(bytes: number, limitMs: number): Promise<void> {
    if (this.bytes >= bytes) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting = { bytes, resolve };
    await within(`${bytes} bytes to arrive`, promise, limitMs);
  }

  /** SHA-256 of everything since the last call; begins again. */
  digest(): string {
    const digest = this.#hash.digest('hex');
    this.#hash = createHash('sha256');
    this.bytes = this.entries = 0;
    this.#waiting = undefined;
    return digest;
  }
}

/** What the drivers' content hashes to when so many bytes of it are sent. */
export function expectedDigest(bytes: number): string {
  const hash = createHash('sha256');
  for (let left = bytes; left > 0; left -= CONTENT_BYTES)
    hash.update(content().subarray(0, Math.min(left, CONTENT_BYTES)));
  return hash.digest('hex');
}
