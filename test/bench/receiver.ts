/** Takes in the bytes of one run, by StreamLog or TCP: counts them, hashes them, and knows when all are there. */
import { createHash } from 'node:crypto';
import type { Socket } from 'node:net';
import { STREAM_LOG, streamLogRequest } from './calls.ts';
import { type LeanEntry, type LeanStream, readEntry, serverStream } from './grpc-lean.ts';
import { CONTENT_BYTES, content } from './pty-driver.ts';

const RX = 1;

export class Receiver {
  bytes = 0;
  entries = 0;
  /** performance.now() when the last of the awaited bytes came. */
  endedAt = 0;
  #hash = createHash('sha256');
  #waiting: { readonly bytes: number; readonly resolve: () => void } | undefined;

  take(bytes: Uint8Array): void {
    this.bytes += bytes.length;
    this.entries++;
    this.#hash.update(bytes);
    if (this.#waiting === undefined || this.bytes < this.#waiting.bytes) return;
    this.endedAt = performance.now();
    this.#waiting.resolve();
  }

  /** Resolves when so many bytes are there; rejects when they are not after limitMs. */
  async all(bytes: number, limitMs: number): Promise<void> {
    if (this.bytes >= bytes) return;
    let timer: NodeJS.Timeout | undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        this.#waiting = { bytes, resolve };
        timer = setTimeout(
          () => reject(new Error(`only ${this.bytes} of ${bytes} bytes came within ${limitMs} ms`)),
          limitMs,
        );
      });
    } finally {
      clearTimeout(timer);
    }
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

/** Feeds the receiver with the RX entries of a StreamLog. */
export function receiveLog(address: string, fromStart: boolean, receiver: Receiver): LeanStream {
  const entry: LeanEntry = { dir: 0, dataFrom: 0, dataTo: 0 };
  return serverStream(address, STREAM_LOG, streamLogRequest(fromStart), (buffer, from, to) => {
    readEntry(buffer, from, to, entry);
    if (entry.dir === RX) receiver.take(buffer.subarray(entry.dataFrom, entry.dataTo));
  });
}

export function receiveSocket(socket: Socket, receiver: Receiver): void {
  socket.on('data', (bytes: Buffer) => receiver.take(bytes));
}

/** What the drivers' content hashes to when so many bytes of it are sent. */
export function expectedDigest(bytes: number): string {
  const hash = createHash('sha256');
  for (let left = bytes; left > 0; left -= CONTENT_BYTES)
    hash.update(content().subarray(0, Math.min(left, CONTENT_BYTES)));
  return hash.digest('hex');
}
