/** State that outlasts the process, and when it is written to the card: positions, budget, and entries sent before the clock was set. */
import { createHash } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../../shared/base/clock.ts';
import { LinesideError, messageOf, systemCode } from '../../shared/base/errors.ts';
import { nothingUnset, type SentUnset, sentUnset } from './corrections.ts';
import { Budget, type SavedBudget } from './link-limits.ts';
import type { LogCursor } from './log-cursor.ts';
import { type LogPosition, LogPositions } from './log-positions.ts';
import type { UpstreamStats } from './upstream-stats.ts';

/** The position is written to the card this often at most: 4 KiB each. */
const SAVE_MS = 5_000;
/** While nothing is sent: where the log ends, for the day that it is replaced, and what a connection costs that is kept. */
const SAVE_OTHER_MS = 60_000;
/** A kill between two saves loses at most this part of the budget's charges. */
const UNSAVED_PART = 0.01;

export interface PersistedStateOptions {
  readonly file: Positions;
  readonly cursor: LogCursor;
  readonly maxBytesPerDay: number;
  readonly stats: UpstreamStats;
  readonly clock: Clock;
}

export class PersistedState {
  readonly #o: PersistedStateOptions;
  unset: SentUnset = nothingUnset;
  budget: Budget;
  #isLoaded = false;
  #savedMs = Number.NEGATIVE_INFINITY;
  #unsavedBytes = 0;

  constructor(options: PersistedStateOptions) {
    this.#o = options;
    this.budget = new Budget(options.maxBytesPerDay, undefined, options.clock.monoMs());
  }

  /** Once. False: it could not be read, and that was said. */
  async load(): Promise<boolean> {
    if (this.#isLoaded) return true;
    const { file, cursor, maxBytesPerDay, stats, clock } = this.#o;
    try {
      const saved = await file.load();
      this.budget = new Budget(maxBytesPerDay, saved?.budget, clock.monoMs());
      this.unset = saved?.unset ?? nothingUnset;
      cursor.positions = new LogPositions(saved?.places ?? []);
      this.#isLoaded = true;
    } catch (error) {
      stats.positionFile.failed(messageOf(error));
    }
    return this.#isLoaded;
  }

  /**
   * Before entries are sent that were stamped while the clock was not set: their correction must be sent also when this
   * process is killed right after. One write of 4 KiB for each such batch, until the clock is set.
   */
  async noteUnset(from: Pick<SentUnset, 'logId' | 'bootId'>, ids: readonly number[]): Promise<void> {
    const unset = sentUnset(this.unset, from, ids);
    if (isDeepStrictEqual(unset, this.unset)) return;
    this.unset = unset;
    await this.#save();
  }

  charge(bytes: number, nowMs: number): void {
    this.budget.charge(bytes, nowMs);
    this.#unsavedBytes += bytes;
  }

  async saveIfDue(): Promise<void> {
    const { limit } = this.budget;
    const { cursor, clock } = this.#o;
    const forced = limit > 0 && this.#unsavedBytes > limit * UNSAVED_PART;
    const agoMs = clock.monoMs() - this.#savedMs;
    const due = agoMs >= SAVE_MS && cursor.unsaved === 'position';
    const other = cursor.unsaved !== 'nothing' || this.#unsavedBytes > 0;
    if (forced || due || (agoMs >= SAVE_OTHER_MS && other)) await this.#save();
  }

  async close(): Promise<void> {
    if (this.#isLoaded) await this.#save();
    await this.#o.file.close();
  }

  async #save(): Promise<void> {
    const { file, cursor, stats, clock } = this.#o;
    cursor.unsaved = 'nothing';
    this.#savedMs = clock.monoMs();
    this.#unsavedBytes = 0;
    try {
      const budget = this.budget.save(this.#savedMs);
      await file.save({ places: cursor.positions.all, budget, unset: this.unset });
      stats.positionFile.recovered();
    } catch (error) {
      cursor.unsaved = 'position';
      stats.positionFile.failed(messageOf(error));
    }
  }
}

// The file: two slots that are written in turn, each with a rising number and a checksum. A write that is torn leaves the
// other slot. Written in place: each write costs the card 4 KiB.

export const positionFileName = 'upstream.position';
/** A page of the card each: what is written to one never touches the other. */
export const SLOT_BYTES = 4_096;
const SLOTS = 2;
const CHECK_BYTES = 32;
const VERSION = 1;

export interface Saved {
  readonly places: readonly LogPosition[];
  readonly budget: SavedBudget;
  readonly unset: SentUnset;
}

export type Positions = Pick<PositionFile, 'load' | 'save' | 'close'>;

interface Slot {
  readonly seq: number;
  readonly saved: Saved;
}

export class PositionFile {
  readonly #path: string;
  #file: FileHandle | undefined;
  #seq = 0;

  constructor(path: string) {
    this.#path = path;
  }

  /** The latest saved state; undefined: none yet, or neither slot is whole. Throws STORAGE_FAILED if the file cannot be read. */
  async load(): Promise<Saved | undefined> {
    const bytes = Buffer.alloc(SLOTS * SLOT_BYTES);
    await this.#use((file) => file.read(bytes, 0, bytes.length, 0));
    const slots = Array.from({ length: SLOTS }, (_, index) => decode(bytes, index * SLOT_BYTES));
    const best = slots.reduce((a, b) => ((b?.seq ?? 0) > (a?.seq ?? 0) ? b : a));
    this.#seq = best?.seq ?? 0;
    return best?.saved;
  }

  /** Resolves when it is on the card. Not again before it has. */
  async save(saved: Saved): Promise<void> {
    const seq = this.#seq + 1;
    const slot = encode({ seq, saved });
    await this.#use(async (file) => {
      await file.write(slot, 0, SLOT_BYTES, (seq % SLOTS) * SLOT_BYTES);
      await file.datasync();
    });
    this.#seq = seq;
  }

  async close(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    await file?.close().catch(() => {});
  }

  /** After a failure the file is opened again. */
  async #use(work: (file: FileHandle) => Promise<unknown>): Promise<void> {
    try {
      this.#file ??= await this.#open();
      await work(this.#file);
    } catch (error) {
      await this.close();
      throw new LinesideError('STORAGE_FAILED', `${this.#path}: ${messageOf(error)}`, { cause: error });
    }
  }

  async #open(): Promise<FileHandle> {
    try {
      return await open(this.#path, 'r+');
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw error;
    }
    const file = await open(this.#path, 'wx+', 0o600);
    const directory = await open(dirname(this.#path), 'r');
    try {
      await directory.sync();
    } finally {
      await directory.close();
    }
    return file;
  }
}

function encode(slot: Slot): Buffer {
  const bytes = Buffer.alloc(SLOT_BYTES);
  const text = Buffer.from(JSON.stringify({ version: VERSION, ...slot }));
  if (text.length > SLOT_BYTES - CHECK_BYTES) throw new Error(`${text.length} bytes do not fit a slot`);
  text.copy(bytes, CHECK_BYTES);
  digest(bytes.subarray(CHECK_BYTES)).copy(bytes);
  return bytes;
}

function decode(bytes: Buffer, at: number): Slot | undefined {
  const slot = bytes.subarray(at, at + SLOT_BYTES);
  const body = slot.subarray(CHECK_BYTES);
  if (!digest(body).equals(slot.subarray(0, CHECK_BYTES))) return undefined;
  const text = body.subarray(0, body.indexOf(0) === -1 ? body.length : body.indexOf(0)).toString();
  const { version, seq, saved } = JSON.parse(text) as Slot & { version: number };
  return version === VERSION ? { seq, saved } : undefined;
}

function digest(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest();
}
