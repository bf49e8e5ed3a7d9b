/** The line thread's client of the log worker: its calls, never SQL. Plain values only, since they cross threads. */
import { endsWithin, systemClock } from '../../shared/base/clock.ts';
import type { Batch } from '../../shared/base/log-block.ts';
import type { lineside } from '../../shared/proto/services.ts';
import { besideModule, WorkerError, WorkerHost } from '../../shared/storage/worker-host.ts';
import type { LogGap } from './entry.ts';
import type { Filter } from './packed.ts';
import type { Segment, StampedBy } from './segments.ts';

export interface OpenRequest {
  readonly dir: string;
  /** The log that was open before in this process; '' when none was. */
  readonly logId: string;
  /** Ids handed out and decided by that log (0 when none was): what a file holds beyond was never acknowledged. */
  readonly headId: number;
  readonly decidedId: number;
  /** The open file was found damaged: set it aside first, for this reason. '' otherwise. */
  readonly setAsideFor: string;
  readonly uptimeMs: number;
}

export interface Opened extends StoreSizes {
  readonly logId: string;
  /** The first id that was never handed out. */
  readonly nextId: number;
  /** Newest last, at most shownGaps. */
  readonly gaps: readonly LogGap[];
  /** All that matter to entries that are stored. */
  readonly segments: readonly Segment[];
  readonly lostEntries: number;
  readonly lostBytes: number;
  /** Path of the damaged file that was set aside; '' otherwise. */
  readonly setAside: string;
  readonly setAsideReason: string;
  /** True when the file was too large to be checked before the log opened. */
  readonly unchecked: boolean;
}

export interface StoreSizes {
  /** 0 when nothing is stored. */
  readonly firstId: number;
  readonly lastId: number;
  /** Every id up to this one is decided: stored, lost or never used. */
  readonly decidedId: number;
  readonly usedBytes: number;
  readonly fileBytes: number;
  /** Of the write-ahead log that a checkpoint, and the next commit, would begin again. */
  readonly walBytes: number;
  /** Ids up to this one will not be handed out by a later start. */
  readonly ceilingId: number;
}

export interface AppendRequest {
  readonly batch: Batch;
  /** Ranges that could not be stored, decided by this commit. */
  readonly gaps: readonly LogGap[];
  /** Of these entries, or corrected ones of earlier entries. */
  readonly segments: readonly Segment[];
  readonly events: readonly NewEvent[];
  /** To be reserved by this commit when it is above what is. */
  readonly ceilingId: number;
  /** What the log may hold: the oldest entries go in the same commit. */
  readonly maxBytes: number;
  /** Milliseconds the service has run since its start. */
  readonly uptimeMs: number;
}

/** Something that happened to the line, after the entry with this id: RecordedEvent of lineside.proto. */
export interface NewEvent extends StampedBy {
  readonly afterId: number;
  readonly kind: lineside.v1.RecordedEvent.Kind;
  readonly by: string;
  readonly detail: string;
  readonly atMs: number;
}

export interface StoredEvent extends NewEvent {
  readonly id: number;
}

export interface EventsRequest {
  readonly beforeId: number;
  readonly limit: number;
}

export interface ReadPageRequest {
  readonly after: number;
  readonly upTo: number;
  readonly filter: Filter;
  /** The reader wants what there is from `after` on: what retention removed before is no loss to it. */
  readonly fresh: boolean;
  /** Blocks with a larger body are left for another request; undefined: none are. */
  readonly mostBytes: number | undefined;
  /** Blocks as they lie in the file. */
  readonly asStored: boolean;
}

export interface Page {
  /** The first block is larger than the request allows: the page holds nothing. */
  readonly isTooLarge: boolean;
  readonly batch: Batch;
  readonly gaps: readonly LogGap[];
  /** Every id up to this one was checked. */
  readonly nextAfterId: number;
  /** Entries after `after` that retention removed (0 for a fresh reader), the last of them removedTo. */
  readonly removedEntries: number;
  readonly removedTo: number;
}

export interface PruneRequest {
  readonly maxBytes: number;
  readonly maxAgeMs: number;
  readonly uptimeMs: number;
}

/** With the number of entries that retention removed. */
export interface Appended extends StoreSizes {
  readonly entries: number;
}

export interface Pruned extends Appended {
  /** There is more to remove: ask again. */
  readonly more: boolean;
}

/** The calls of the worker. */
export interface StoreCalls {
  open: { request: OpenRequest; response: Opened };
  append: { request: AppendRequest; response: Appended };
  read: { request: ReadPageRequest; response: Page };
  /** The id after which the last `entries` stored entries up to `upTo` begin. */
  startOfLast: { request: { readonly entries: number; readonly upTo: number }; response: number };
  /** In the order of their ids. */
  events: { request: EventsRequest; response: readonly StoredEvent[] };
  prune: { request: PruneRequest; response: Pruned };
  collectGarbage: { request: void; response: void };
  close: { request: CloseRequest; response: void };
}

interface CloseRequest {
  readonly headId: number;
  readonly uptimeMs: number;
}

/**
 * Rows of entries are garbage at once: 100 readers of tiny entries took up to 63 MiB, and 51 MiB with this. It costs no speed:
 * 20 MB from the line took this thread 155 ms of CPU time, 158 with 8 MiB, 169 with Node's own 16 (medians of 8 in turns).
 */
const memoryLimits = { maxYoungGenerationSizeMb: 2 };
/** A close commits a row and checkpoints at most a few MiB; a disk that takes longer hangs. */
const closeMs = 3_000;
const terminateMs = 500;

/** Starts the worker at open, and again when it has died. */
export class StoreClient {
  #host: WorkerHost<StoreCalls> | undefined;

  async call<K extends keyof StoreCalls>(
    name: K,
    request: StoreCalls[K]['request'],
    transfer: readonly ArrayBuffer[] = [],
  ): Promise<StoreCalls[K]['response']> {
    if (name === 'open' && this.#host?.alive !== true)
      this.#host = new WorkerHost<StoreCalls>(besideModule('log-worker', import.meta.url), memoryLimits);
    if (this.#host === undefined) throw notOpen();
    return await this.#host.call(name, request, transfer);
  }

  /** A round trip to the thread, after the calls before it. */
  async answers(): Promise<void> {
    if (this.#host === undefined) throw notOpen();
    await this.#host.answers();
  }

  /** Bounded, whatever the disk does. */
  async close(request: CloseRequest): Promise<void> {
    const host = this.#host;
    if (host === undefined) return;
    try {
      if (await endsWithin(systemClock, closeMs, host.call('close', request))) return;
      throw new Error(`the log did not close within ${closeMs} ms`);
    } finally {
      await host.terminate(terminateMs);
    }
  }
}

function notOpen(): WorkerError {
  return new WorkerError({ message: 'the log is not open', code: 'WORKER_EXITED', hint: '' });
}
