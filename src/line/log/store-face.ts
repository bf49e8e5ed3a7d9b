/** What the log worker can be asked: what is wanted, never SQL. Plain values only, they cross threads. */
import type { Filter } from './filter.ts';
import type { Batch } from './packed.ts';
import type { Segment } from './segments.ts';

export const logFileName = 'log.db';

/** Ids reserved ahead, so that an id a live reader has seen is not handed out again after a power cut. */
export const idBlock = 16_384;

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
  /** Newest last, at most 16. */
  readonly gaps: readonly StoredGap[];
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

/** LogGap with its times as halves: a Long loses its class on the way. */
export interface StoredGap {
  readonly firstId: number;
  readonly lastId: number;
  readonly entries: number;
  readonly bytes: number;
  readonly from: { readonly high: number; readonly low: number };
  readonly to: { readonly high: number; readonly low: number };
  readonly reason: string;
}

export interface StoreSizes {
  /** 0 when nothing is stored. */
  readonly firstId: number;
  readonly lastId: number;
  /** Every id up to this one is decided: stored, lost or never used. */
  readonly decidedId: number;
  readonly usedBytes: number;
  readonly fileBytes: number;
  /** Ids up to this one will not be handed out by a later start. */
  readonly ceilingId: number;
}

export interface AppendRequest {
  readonly batch: Batch;
  /** Ranges that could not be stored, decided by this commit. */
  readonly gaps: readonly StoredGap[];
  /** Of these entries, or corrected ones of earlier entries. */
  readonly segments: readonly Segment[];
  /** To be reserved by this commit when it is above what is. */
  readonly ceilingId: number;
  /** What the log may hold: the oldest entries go in the same commit. */
  readonly maxBytes: number;
  /** Milliseconds the service has run since its start. */
  readonly uptimeMs: number;
}

export interface ReadPageRequest {
  readonly after: number;
  readonly upTo: number;
  readonly filter: Filter;
  /** The reader wants what there is from `after` on: what retention removed before is no loss to it. */
  readonly fresh: boolean;
  /** Blocks with a larger body are left for another request; undefined: none are. */
  readonly mostBytes: number | undefined;
}

export interface Page {
  /** The first block is larger than the request allows: the page holds nothing. */
  readonly isTooLarge: boolean;
  readonly batch: Batch;
  readonly gaps: readonly StoredGap[];
  /** Every id up to this one was looked at. */
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

/** The contract of the worker. */
export interface StoreCalls {
  open: { request: OpenRequest; response: Opened };
  append: { request: AppendRequest; response: Appended };
  read: { request: ReadPageRequest; response: Page };
  /** The id after which the last `entries` stored entries up to `upTo` begin. */
  startOfLast: { request: { readonly entries: number; readonly upTo: number }; response: number };
  prune: { request: PruneRequest; response: Pruned };
  close: { request: { readonly headId: number; readonly uptimeMs: number }; response: boolean };
}

/** The store as the thread of the line sees it. */
export interface RemoteStore {
  open(request: OpenRequest): Promise<Opened>;
  append(request: AppendRequest): Promise<Appended>;
  read(request: ReadPageRequest): Promise<Page>;
  startOfLast(entries: number, upTo: number): Promise<number>;
  prune(request: PruneRequest): Promise<Pruned>;
  /** Bounded, whatever the disk does. */
  close(headId: number, uptimeMs: number): Promise<void>;
}
