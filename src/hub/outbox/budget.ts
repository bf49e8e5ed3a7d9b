/**
 * Whether there is room for a change: the size of refdata.db against its budget, and the disk's free space, measured now and then.
 * The publisher's marks are not checked: they must be written also when changes are refused.
 */
import { statfsSync } from 'node:fs';
import type { Clock } from '../../shared/base/clock.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import type { Connection } from '../../shared/storage/open.ts';

export interface BudgetOptions {
  /** Of refdata.db, open and migrated. */
  readonly connection: Connection;
  /** The directory whose file system is measured. */
  readonly dir: string;
  /** Bytes refdata.db may hold for changes. */
  readonly maxBytes: number;
  /** Free bytes of the file system below which changes are refused. */
  readonly minFreeBytes: number;
  readonly clock: Clock;
}

/** A change writes about 12 KiB; 64 of them change neither figure by more than 1 MiB. */
const measureEveryCommits = 64;
const measureEveryBytes = 1024 * 1024;
/** Other programs fill the disk too. */
const measureEveryMs = 1_000;
/** Beyond the budget, for the publisher's marks: a mark lengthens its row by 32 bytes, so a page in ten may split. */
const reserveDivisor = 8;
const minReserveBytes = 4 * 1024 * 1024;

/** Slices removed for one change, about 10 ms each: a limit that was lowered by far is reached over several changes. */
const maxSlices = 8;

/**
 * Limits the pages of a connection: with the reserve for the one that also marks, without for one that only brings changes. A
 * file that holds more than the budget (it was lowered, or a migration needed more) has the reserve on top of what it holds.
 */
export function limitPages(connection: Connection, maxBytes: number, withReserve: boolean): void {
  const number = (name: string): number => Number(connection.pragma(name, { simple: true }));
  const pageSize = number('page_size');
  const usedBytes = (number('page_count') - number('freelist_count')) * pageSize;
  const reserve = withReserve ? Math.max(minReserveBytes, maxBytes / reserveDivisor) : 0;
  const limit = withReserve ? Math.max(maxBytes, usedBytes) + reserve : maxBytes;
  connection.pragma(`max_page_count = ${Math.max(1, Math.floor(limit / pageSize))}`);
}

export class Budget {
  readonly #o: BudgetOptions;
  readonly #pageSize: number;
  readonly #pageCount;
  readonly #freeCount;
  #commitsLeft = 0;
  #bytesLeft = 0;
  #measuredMs = 0;
  #lack = '';

  constructor(options: BudgetOptions) {
    this.#o = options;
    this.#pageSize = Number(options.connection.pragma('page_size', { simple: true }));
    this.#pageCount = options.connection.prepare<[], number>('PRAGMA page_count').pluck();
    this.#freeCount = options.connection.prepare<[], number>('PRAGMA freelist_count').pluck();
  }

  /** '' while there is room for changes, else what is lacking. */
  lack(): string {
    const due = this.#commitsLeft <= 0 || this.#bytesLeft <= 0;
    if (due || this.#lack !== '' || this.#o.clock.monoMs() - this.#measuredMs >= measureEveryMs) this.#measure();
    return this.#lack;
  }

  /** The disk may be full before. */
  get isReached(): boolean {
    return this.usedBytes() >= this.#o.maxBytes;
  }

  /** An eighth is left: room for a large import. */
  get isNearlyReached(): boolean {
    return this.usedBytes() >= this.#o.maxBytes - this.#o.maxBytes / reserveDivisor;
  }

  /** Throws STORAGE_FULL if there is no room. `makeRoom` removes a slice of dispensable events; false: there are none. */
  check(makeRoom: () => boolean): void {
    for (let slices = 0; this.lack() !== '' && slices < maxSlices && this.isReached && makeRoom(); slices++);
    const lack = this.lack();
    if (lack === '') return;
    throw new LinesideError('STORAGE_FULL', `no room for changes: ${lack}`, {
      hint: 'Let the outbox drain, free space on the disk, or raise outbox.max_bytes; nothing was written.',
    });
  }

  /** Called after each commit, with the characters it stored. */
  spent(size: number): void {
    this.#commitsLeft--;
    this.#bytesLeft -= size;
  }

  /** After large writes or removals: measured before the next change. */
  measureSoon(): void {
    this.#commitsLeft = 0;
  }

  usedBytes(): number {
    return ((this.#pageCount.get() ?? 0) - (this.#freeCount.get() ?? 0)) * this.#pageSize;
  }

  #measure(): void {
    this.#commitsLeft = measureEveryCommits;
    this.#bytesLeft = measureEveryBytes;
    this.#measuredMs = this.#o.clock.monoMs();
    this.#lack = this.#measuredLack();
  }

  #measuredLack(): string {
    const { dir, maxBytes, minFreeBytes } = this.#o;
    const used = this.usedBytes();
    if (used >= maxBytes) return `refdata.db holds ${used} bytes, outbox.max_bytes is ${maxBytes}`;
    const { bavail, bsize } = statfsSync(dir);
    const free = bavail * bsize;
    if (free < minFreeBytes) return `the disk has ${free} bytes free, outbox.min_free_bytes is ${minFreeBytes}`;
    return '';
  }
}
