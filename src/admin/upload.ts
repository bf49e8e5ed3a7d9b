/**
 * A file on its way from an administrator: one at a time, of an announced length, into one place that only root can read. It is kept
 * for a while for the verb that uses it, by its hash, and removed if it does not arrive whole.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { constants, existsSync, renameSync, rmSync, statfsSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import type { Clock, Timer } from '../shared/base/clock.ts';
import { LinesideError, systemCode } from '../shared/base/errors.ts';
import { RECEIVING_LIMIT_MS, UPLOAD_STALLED_MS, type UploadKind, uploadKinds } from './verbs.ts';

const FLAGS = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
/** Written and not yet on the card: the line's commits would wait for much more. */
const SYNC_EVERY_BYTES = 16 * 1_024 * 1_024;
/** A person reads what is in it, and decides. */
export const UPLOAD_KEPT_MS = 30 * 60_000;

/** Where the unit that works on an upload expects it. */
const takenNames: Readonly<Record<UploadKind, string>> = { update: 'update.bundle', restore: 'restore.backup' };

interface Held {
  readonly kind: UploadKind;
  readonly sha256: string;
  readonly untilMs: number;
}

export class Upload {
  readonly path: string;
  readonly #dir: string;
  readonly #clock: Clock;
  #isReceiving = false;
  #held: Held | undefined;

  constructor(dir: string, clock: Clock) {
    this.#dir = dir;
    this.#clock = clock;
    this.path = join(dir, 'upload');
    // Of a helper that was killed.
    this.drop();
  }

  /** For so long the file is needed. */
  get neededMs(): number {
    return Math.max(0, (this.#held?.untilMs ?? 0) - this.#clock.monoMs());
  }

  /** What was put where its unit expects it; the unit removes it at its end. */
  get taken(): UploadKind | undefined {
    return uploadKinds.find((kind) => existsSync(this.#takenPath(kind)));
  }

  drop(): void {
    this.#held = undefined;
    rmSync(this.path, { recursive: true, force: true });
  }

  /** Throws CONFLICT, STORAGE_FULL. */
  checkRoom(bytes: number): void {
    if (this.#isReceiving)
      throw new LinesideError('CONFLICT', 'another file is being uploaded', { hint: 'try again when it is done' });
    const { bavail, bsize } = statfsSync(this.#dir);
    const free = bavail * bsize + (statSync(this.path, { throwIfNoEntry: false })?.size ?? 0);
    // The work on the file needs room too, and so do the log and the reference data meanwhile.
    if (free >= 2 * bytes) return;
    throw new LinesideError('STORAGE_FULL', `the box has ${free} bytes free: a file of ${bytes} needs twice its size`, {
      hint: 'make room on the box first',
    });
  }

  /**
   * Calls `ready`, then reads so many bytes and no more. The file before is gone by then. Answers the hash.
   * Throws what checkRoom() throws, MALFORMED, REQUEST_TIMEOUT, STORAGE_FULL, STORAGE_FAILED; nothing of the file is left then.
   */
  async receive(socket: Socket, kind: UploadKind, bytes: number, ready: () => void): Promise<string> {
    this.checkRoom(bytes);
    this.#isReceiving = true;
    this.drop();
    const pieces = new Pieces(socket, this.#clock);
    try {
      ready();
      const sha256 = await this.#store(pieces, bytes);
      this.#held = { kind, sha256, untilMs: this.#clock.monoMs() + UPLOAD_KEPT_MS };
      return sha256;
    } catch (error) {
      this.drop();
      throw storageFault(error);
    } finally {
      this.#isReceiving = false;
      await pieces.end();
    }
  }

  async #store(pieces: Pieces, bytes: number): Promise<string> {
    await using file = await open(this.path, FLAGS, 0o600);
    const hash = createHash('sha256');
    let left = bytes;
    let unsynced = 0;
    while (left > 0) {
      const piece = await pieces.next();
      left -= piece.length;
      if (left < 0) throw new LinesideError('MALFORMED', `more than the ${bytes} bytes came that were announced`);
      hash.update(piece);
      await file.writeFile(piece);
      unsynced += piece.length;
      if (unsynced < SYNC_EVERY_BYTES) continue;
      await file.datasync();
      unsynced = 0;
    }
    return hash.digest('hex');
  }

  /** Moves the upload to where a unit expects it. Throws CONFLICT: it is another one, or was not kept so long. */
  take(kind: UploadKind, sha256: string): void {
    const held = this.#held;
    if (held?.kind !== kind || held.sha256 !== sha256 || this.neededMs === 0) {
      throw new LinesideError('CONFLICT', 'the box does not have this file any more', { hint: 'upload it again' });
    }
    this.#held = undefined;
    renameSync(this.path, this.#takenPath(kind));
  }

  /** The unit did not start. */
  giveBack(kind: UploadKind, sha256: string): void {
    renameSync(this.#takenPath(kind), this.path);
    this.#held = { kind, sha256, untilMs: this.#clock.monoMs() + UPLOAD_KEPT_MS };
  }

  /** Of a unit that was killed with all that it does at its end. */
  dropTaken(kind: UploadKind): void {
    rmSync(this.#takenPath(kind), { force: true });
  }

  #takenPath(kind: UploadKind): string {
    return join(this.#dir, takenNames[kind]);
  }
}

/** What comes over a socket, at the pace of its reader, which gets a failure if it takes too long. */
class Pieces {
  readonly #socket: Socket;
  readonly #iterator: AsyncIterator<unknown>;
  readonly #clock: Clock;
  readonly #limit: Timer;
  #failure: LinesideError | undefined;
  /** Of the piece that is waited for. No promise outlives its piece: what waits for one keeps the piece in memory. */
  #reject: (failure: LinesideError) => void = () => undefined;

  constructor(socket: Socket, clock: Clock) {
    this.#socket = socket;
    this.#clock = clock;
    // It flows, and the iterator stops that only when its first piece is asked for.
    socket.pause();
    this.#iterator = socket.iterator({ destroyOnReturn: false });
    const minutes = RECEIVING_LIMIT_MS / 60_000;
    this.#limit = clock.timer(RECEIVING_LIMIT_MS, () =>
      this.#stop(`the file did not arrive within ${minutes} minutes`),
    );
  }

  async next(): Promise<Buffer> {
    if (this.#failure !== undefined) throw this.#failure;
    const seconds = UPLOAD_STALLED_MS / 1_000;
    const stalled = this.#clock.timer(UPLOAD_STALLED_MS, () => this.#stop(`nothing of the file came for ${seconds} s`));
    const { promise, resolve, reject } = Promise.withResolvers<IteratorResult<unknown>>();
    this.#reject = reject;
    this.#iterator.next().then(resolve, reject);
    try {
      const { value, done } = await promise;
      if (done !== true) return value as Buffer;
    } finally {
      stalled.cancel();
    }
    throw new LinesideError('MALFORMED', 'the file was cut short');
  }

  /** What still comes is dropped, so that the end of the connection is seen; resolves after that if it has begun. */
  async end(): Promise<void> {
    this.#limit.cancel();
    void this.#iterator.return?.().then(() => this.#socket.resume());
    if ((this.#socket.destroyed || this.#socket.readableEnded) && !this.#socket.closed)
      await once(this.#socket, 'close');
  }

  #stop(why: string): void {
    this.#failure = new LinesideError('REQUEST_TIMEOUT', why);
    this.#reject(this.#failure);
  }
}

function storageFault(error: unknown): unknown {
  const code = systemCode(error);
  if (code === 'ENOSPC') return new LinesideError('STORAGE_FULL', 'the box has no room for the file', { cause: error });
  if (error instanceof LinesideError || !/^E[A-Z]+$/.test(code)) return error;
  return new LinesideError('STORAGE_FAILED', `the file cannot be stored: ${code}`, { cause: error });
}
