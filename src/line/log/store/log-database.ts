/** An open log.db: the operations of the log worker, one transaction a call. */
import { randomUUID } from 'node:crypto';
import { statfsSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { DatabaseFiles, FileLostError } from '../../../shared/storage/database-files.ts';
import { type Connection, type Sql, statementsOf } from '../../../shared/storage/open.ts';
import { type LogGap, shownGaps, type Uint64 } from '../entry.ts';
import { lastIdOf, unpack } from '../packed.ts';
import type {
  Appended,
  AppendRequest,
  EventsRequest,
  Opened,
  OpenRequest,
  Page,
  Pruned,
  PruneRequest,
  ReadPageRequest,
  StoredEvent,
  StoreSizes,
} from '../store-client.ts';
import { BlockTable, pruneBytes, type Removal } from './blocks.ts';
import { sizeOf } from './open-file.ts';
import { idBlock, walLimitBytes } from './schema.ts';
import { SmallerFile } from './smaller-file.ts';
import { EventTable, GapTable, MetaTable, SegmentTable } from './tables.ts';

/** Batches above this come at a rate where time is dearer than the card's wear; below, deflate takes under a millisecond. */
const compressBatchBytes = 64 * 1024;
/** What both files may hold beyond log.max_bytes: a quarter of it, or this if that is more. */
const minExcessBytes = 16 * 1024 * 1024;
/** Of that, what log.db itself may: pages that a removal in small steps has not given back yet. */
const mainExcessBytes = 4 * 1024 * 1024;
/** Retention removes a little more than it must, so that it works in steps and not at every commit. */
const slackDivisor = 64;
const maxSlackBytes = 4 * 1024 * 1024;
/** How often the time the service ran is noted while nothing is removed. */
const ranNoteMs = 3_600_000;

export class LogDatabase {
  readonly #connection: Connection;
  readonly #sql: Sql;
  readonly #files: DatabaseFiles;
  readonly #blocks: BlockTable;
  readonly #gaps: GapTable;
  readonly #meta: MetaTable;
  readonly #segments: SegmentTable;
  readonly #events: EventTable;
  readonly #pageSize: number;
  #decidedId = 0;
  #ceilingId = 0;
  #removedTo = 0;
  /** ran_ms less uptimeMs: constant within a run. */
  #ranBeforeMs = 0;
  #ranNotedMs = 0;
  #smaller: SmallerFile | undefined;
  #isCopied = false;
  readonly logId: string;
  readonly nextId: number;

  /** `lost`: the loss of the file that was open before, for a new file to record. */
  constructor(connection: Connection, request: OpenRequest, lost: LogGap | undefined) {
    this.#connection = connection;
    this.#sql = statementsOf(connection);
    this.#segments = new SegmentTable(this.#sql);
    this.#blocks = new BlockTable(this.#sql, this.#segments.segments);
    this.#gaps = new GapTable(this.#sql);
    this.#events = new EventTable(this.#sql);
    this.#meta = new MetaTable(this.#sql);
    this.#pageSize = Number(connection.pragma('page_size', { simple: true }));
    this.nextId = connection.transaction(() => this.#begin(request, lost)).immediate();
    this.logId = this.#meta.logId;
    this.#files = new DatabaseFiles(connection, this.logId);
    this.#index();
  }

  /** Identifies a new file, decides the ids of the run before, and reserves ids for this one. Returns the next id. */
  #begin(request: OpenRequest, lost: LogGap | undefined): number {
    const known = this.#meta.logId;
    if (known === '') {
      this.#meta.logId = randomUUID();
      this.#meta.setNumber('removed_to', lost === undefined ? request.decidedId : lost.firstId - 1);
      if (lost !== undefined) this.#addGap(lost);
    } else if (request.headId > 0) {
      if (known !== request.logId) {
        const file = basename(this.#connection.name);
        throw new FileLostError(`${file} was replaced by another log while lineside was running`);
      }
      for (const table of ['blocks', 'given_times', 'gaps'])
        this.#sql<[number]>(`DELETE FROM ${table} WHERE first_id > ?`).run(request.decidedId);
      this.#sql<[number]>('DELETE FROM time_ranges WHERE last_id > ?').run(request.decidedId);
    }
    this.#removedTo = this.#meta.number('removed_to');
    this.#decidedId = Math.max(this.#blocks.lastId, this.#gaps.lastId, this.#removedTo);
    const reserved = this.#meta.number('ceiling_id');
    const ours = this.#meta.number('clock_ceiling_id');
    // An earlier version has used the file in between.
    const unmarked = { state: 'unmarked', bootId: '', offsetMs: 0, correctionMs: undefined } as const;
    if (ours > 0 && reserved !== ours) this.#segments.put([{ firstId: ours + 1, ...unmarked }]);
    this.#segments.dropSurplus();
    if (request.headId === 0 && reserved > this.#decidedId) {
      this.#gaps.addUnused(this.#decidedId + 1, reserved);
      this.#decidedId = reserved;
    }
    const nextId = Math.max(request.headId, this.#decidedId) + 1;
    this.#ceilingId = Math.max(reserved, nextId - 1 + idBlock);
    this.#setCeiling(this.#ceilingId);
    // What was noted last, or the newest block's own note: never ahead of the truth, so nothing is removed early.
    this.#ranNotedMs = Math.max(this.#meta.number('ran_ms'), this.#blocks.lastRanS * 1000);
    this.#ranBeforeMs = this.#ranNotedMs - request.uptimeMs;
    return nextId;
  }

  /** A step of bringing the index by time up to the newest entry; true: there is more to do. */
  #index(): boolean {
    return this.#write(() => this.#blocks.index());
  }

  /** A step of the copy into a smaller file, where this one is larger than it may be; true: there is more to do. */
  #copyStep(maxBytes: number): boolean {
    const { usedBytes, mainBytes } = this.#pages();
    if (this.#smaller === undefined && (mainBytes <= maxBytes + mainExcessBytes || usedBytes > maxBytes)) return false;
    // The copy could not take the place of a file that another program reads, and would be made again and again.
    if (this.#smaller === undefined && (!this.#hasRoomFor(usedBytes) || this.#isHeld())) return false;
    try {
      this.#smaller ??= new SmallerFile(this.#connection);
      this.#isCopied = !this.#smaller.step();
      return !this.#isCopied;
    } catch (error) {
      this.#smaller?.discard();
      this.#smaller = undefined;
      throw error;
    }
  }

  /** When the copy is complete: puts it in the place of this file, which is closed then. */
  replaceBySmaller(): { readonly logId: string; readonly decidedId: number } | undefined {
    const smaller = this.#isCopied ? this.#smaller : undefined;
    if (smaller === undefined) return undefined;
    this.#isCopied = false;
    this.#smaller = undefined;
    const isReplaced = smaller.replaceOriginal(() => this.abandon());
    return isReplaced ? { logId: this.logId, decidedId: this.#decidedId } : undefined;
  }

  /** The copy must not take the room of new entries: a limit is lowered because the card is full. Asked again by the next run. */
  #hasRoomFor(bytes: number): boolean {
    const { bavail, bsize } = statfsSync(dirname(this.#connection.name));
    return bavail * bsize > bytes + minExcessBytes;
  }

  #pages(): { readonly usedBytes: number; readonly mainBytes: number } {
    const count = (what: string): number => this.#sql<[], number>(`PRAGMA ${what}`).pluck().get() ?? 0;
    const pages = count('page_count');
    return { usedBytes: (pages - count('freelist_count')) * this.#pageSize, mainBytes: pages * this.#pageSize };
  }

  /** An earlier version moves the first of the two alone. */
  #setCeiling(id: number): void {
    this.#meta.setNumber('ceiling_id', id);
    this.#meta.setNumber('clock_ceiling_id', id);
  }

  append({ batch, gaps, segments, events, ceilingId, maxBytes, uptimeMs }: AppendRequest): Appended {
    const ranMs = this.#ranBeforeMs + uptimeMs;
    const ceiling = Math.max(ceilingId, this.#ceilingId);
    this.#files.verify();
    this.#limitWal(maxBytes);
    const surplus = this.#surplus(maxBytes, batch.buffer.byteLength);
    const removed = this.#write(() => {
      const removal = this.#forget(this.#blocks.makeRoom(surplus));
      this.#blocks.add(batch, Math.floor(ranMs / 1000), batch.buffer.byteLength <= compressBatchBytes);
      for (const gap of gaps) this.#addGap(gap);
      this.#segments.put(segments);
      this.#events.add(events);
      if (ceiling > this.#ceilingId) this.#setCeiling(ceiling);
      return removal;
    });
    this.#files.verify();
    this.#ceilingId = ceiling;
    this.#decidedId = Math.max(this.#decidedId, lastIdOf(batch), gaps.at(-1)?.lastId ?? 0);
    this.#removedTo = Math.max(this.#removedTo, removed.lastId);
    return { ...this.sizes(), entries: removed.entries };
  }

  #write<T>(work: () => T): T {
    try {
      return this.#connection.transaction(work).immediate();
    } catch (error) {
      this.#blocks.forgetIndexed();
      throw error;
    }
  }

  /** Bytes to remove before `added` come in; a little more than must be, so that not every commit removes some. */
  #surplus(maxBytes: number, added: number): number {
    const excess = this.sizes().usedBytes + added - maxBytes;
    const slack = Math.min(maxSlackBytes, Math.floor(maxBytes / slackDivisor));
    // After the limit was lowered the rest goes in steps of its own.
    return excess <= 0 ? 0 : Math.min(excess + slack, Math.max(2 * added, pruneBytes));
  }

  /** In the transaction that removed the blocks: all that belongs to their entries. */
  #forget(removed: Removal): Removal {
    if (removed.entries > 0) {
      this.#meta.setNumber('removed_to', removed.lastId);
      this.#gaps.dropSurplus();
      this.#segments.dropBefore(removed.lastId + 1);
    }
    return removed;
  }

  #addGap(gap: LogGap): void {
    this.#gaps.add(gap);
    this.#meta.setNumber('lost_entries', this.#meta.number('lost_entries') + gap.entries);
    this.#meta.setNumber('lost_bytes', this.#meta.number('lost_bytes') + gap.bytes);
  }

  /** Everything that this file held, as what is lost with it; of a damaged file as much as can still be read. */
  lost(reason: string): LogGap | undefined {
    const firstId = this.#removedTo + 1;
    const lastId = this.#decidedId;
    if (lastId < firstId) return undefined;
    const entries = lastId - firstId + 1 - attempted(() => this.#gaps.missing(firstId - 1, lastId), 0);
    const bytes = attempted(() => this.sizes().usedBytes, 0);
    return {
      firstId,
      lastId,
      entries,
      bytes,
      fromMs: this.#stampOf(attempted(() => this.#blocks.firstId, 0)),
      toMs: this.#stampOf(attempted(() => this.#blocks.lastId, 0)),
      reason,
    };
  }

  /** Zero: not known. */
  #stampOf(id: number): Uint64 {
    const [entry] = attempted(
      () => unpack(this.#blocks.read(id - 1, id, {}, undefined).batch, { after: id - 1, upTo: id }),
      [],
    );
    return entry?.timestampMs ?? 0;
  }

  read({ after, upTo, filter, fresh, mostBytes, asStored }: ReadPageRequest): Page {
    const removedTo = this.#removedTo;
    const from = Math.max(after, removedTo);
    const removedEntries = fresh || after >= removedTo ? 0 : removedTo - after - this.#gaps.missing(after, removedTo);
    const { batch, lastId, isTooLarge } = this.#blocks.read(from, upTo, filter, mostBytes, asStored);
    const nextAfterId = lastId ?? Math.max(from, this.#decidedId);
    return { isTooLarge, batch, gaps: this.#gaps.between(from, nextAfterId), nextAfterId, removedEntries, removedTo };
  }

  events(request: EventsRequest): StoredEvent[] {
    return this.#events.before(request);
  }

  startOfLast(entries: number, upTo: number): number {
    return this.#blocks.startOfLast(entries, upTo);
  }

  prune({ maxBytes, maxAgeMs, uptimeMs }: PruneRequest): Pruned {
    this.#files.verify();
    const ranMs = this.#ranBeforeMs + uptimeMs;
    const surplus = this.#surplus(maxBytes, 0);
    const oldestS = Math.floor((ranMs - maxAgeMs) / 1000);
    const removal = this.#connection
      .transaction(() => {
        const removed = this.#forget(this.#blocks.removeOldest(surplus, oldestS));
        if (removed.entries > 0 || this.#isCopied || ranMs - this.#ranNotedMs >= ranNoteMs) {
          this.#meta.setNumber('ran_ms', ranMs);
          this.#ranNotedMs = ranMs;
        }
        return removed;
      })
      .immediate();
    this.#removedTo = Math.max(this.#removedTo, removal.lastId);
    return {
      ...this.sizes(),
      entries: removal.entries,
      more: removal.full || this.#index() || this.#copyStep(maxBytes),
    };
  }

  /** Checkpoints the write-ahead log when it has grown; a failure is retried after the next commit. */
  checkpointIfDue(): void {
    if (this.#files.walBytes < walLimitBytes) return;
    try {
      this.#files.checkpoint('PASSIVE');
    } catch {
      // What was committed is safe in the write-ahead log; append fails once that grows too large.
    }
  }

  /** Throws where the write-ahead log has no room left: a failing disk, or another program that reads an old state. */
  #limitWal(maxBytes: number): void {
    // Calls that come without a pause leave no moment after an answer.
    if (this.#files.walBytes > 2 * walLimitBytes) this.checkpointIfDue();
    if (this.#files.walBytes <= Math.max(maxBytes / 4, minExcessBytes) - mainExcessBytes) return;
    if (this.#isHeld()) {
      throw new WalHeldError('another program reads log.db, and its write-ahead log may not grow further');
    }
  }

  /** Another program reads the file at this moment: the write-ahead log cannot be begun again. Does not wait for it. */
  #isHeld(): boolean {
    const waitMs = Number(this.#connection.pragma('busy_timeout', { simple: true }));
    this.#connection.pragma('busy_timeout = 0');
    const isHeld = this.#files.checkpoint('RESTART');
    this.#connection.pragma(`busy_timeout = ${waitMs}`);
    return isHeld;
  }

  sizes(): StoreSizes {
    return {
      firstId: this.#blocks.firstId,
      lastId: this.#blocks.lastId,
      decidedId: this.#decidedId,
      usedBytes: this.#pages().usedBytes,
      fileBytes: sizeOf(this.#connection.name) + sizeOf(`${this.#connection.name}-wal`),
      walBytes: this.#files.walBytes,
      ceilingId: this.#ceilingId,
    };
  }

  history(): Pick<Opened, 'gaps' | 'segments' | 'lostEntries' | 'lostBytes'> {
    return {
      segments: this.#segments.segments.all,
      gaps: this.#gaps.latest(shownGaps),
      lostEntries: this.#meta.number('lost_entries'),
      lostBytes: this.#meta.number('lost_bytes'),
    };
  }

  /** A clean end: the next start continues with the id after headId. */
  close(headId: number, uptimeMs: number): void {
    try {
      this.#connection
        .transaction(() => {
          this.#setCeiling(headId);
          this.#meta.setNumber('ran_ms', this.#ranBeforeMs + uptimeMs);
        })
        .immediate();
      this.#files.checkpoint('TRUNCATE');
    } finally {
      this.abandon();
    }
  }

  abandon(): void {
    this.#files.close();
  }
}

class WalHeldError extends Error {
  readonly code = 'SQLITE_BUSY';
}

/** For a file of which parts cannot be read. */
function attempted<T>(look: () => T, otherwise: T): T {
  try {
    return look();
  } catch {
    return otherwise;
  }
}
