/** The interfaces of the log: for the line's traffic, for readers, and its status. */
import type { Batch } from '../../shared/base/log-block.ts';
import type { FieldOf, lineside } from '../../shared/proto/services.ts';
import type { Direction, EntryClock, LogEntry, LogGap, Stamp, Uint64 } from './entry.ts';

/** The append interface: all that the port sees of the log. */
export interface LineRecorder {
  /** Traffic of the line: gets its id and reaches live readers at once, storage within log.commit_ms. Never throws. `data` is kept: hand over a copy. */
  record(dir: Direction, timestampMs: number, data: Uint8Array, note?: string): void;
  /** Something that happened to the line (see RecordedEvent): stored within log.commit_ms. Never throws. */
  event(kind: EventKind, detail: string, by?: string): void;
  /**
   * True while entries come in faster than a healthy store takes them: the line stops reading until `onRelieved`.
   * Never true because the store hangs or fails: then entries are dropped from storage (counted as a gap) instead.
   */
  readonly pressed: boolean;
  /** Called each time `pressed` becomes false again. */
  onRelieved(call: () => void): void;
}

export type EventKind = lineside.v1.RecordedEvent.Kind;

/** RecordedEvent of lineside.proto. */
export interface RecordedEvent {
  readonly id: number;
  readonly afterEntryId: number;
  readonly timestampMs: Uint64;
  readonly clock: EntryClock | undefined;
  readonly kind: EventKind;
  readonly by: string;
  readonly detail: string;
}

/** Whether the clock is known to be right. 'unknown': the box has no time sync to ask. */
export type TimeState = 'synced' | 'unsynced' | 'unknown';

export interface TimeSource {
  /** Identifies this boot of the machine. */
  readonly bootId: string;
  /** Once 'synced' it stays so until the next boot. */
  state(): TimeState;
  /** Wall clock minus the monotonic clock of this boot, which continues over restarts of the service: moves when the wall clock is set. */
  offsetMs(): number;
  /** Called when the state has changed. */
  onChange(call: () => void): void;
}

export interface ReadRequest {
  /** Entries with a greater id; 'live': only those that appear after this call; 'last': the last `limit` stored ones. */
  readonly after: number | 'live' | 'last';
  /** Continue with live entries; otherwise end at the id that was the head at the call. */
  readonly follow: boolean;
  /** undefined: both. */
  readonly dir?: Direction | undefined;
  readonly sinceMs?: Uint64 | undefined;
  readonly untilMs?: Uint64 | undefined;
  /** After the filters (with 'last': before them); undefined: none. */
  readonly limit?: number | undefined;
  /** Only what is stored, and what retention removed is missed with `after` 0 too. Not with `follow`, 'live' or 'last'. */
  readonly storedOnly?: boolean | undefined;
  /** Runs come as the blocks that hold their entries. Only with `storedOnly`, and without filters and `limit`. */
  readonly asStored?: boolean | undefined;
}

/** What happens to a reader, at the moment at which it does. */
export interface ReaderEvents {
  /** It throws TOO_MANY, when its caller asks for more: the caller may be waiting for its client. */
  stalled?(): void;
  /** Its caller has taken all that there is: it waits for the next entry. */
  caughtUp?(): void;
}

/** A run of consecutive entries in log order, never empty of everything but possibly of entries (a filter). */
export interface LogRun {
  readonly entries: readonly LogEntry[];
  /** Gaps that lie before or between these entries (also those from before this reader began). */
  readonly gaps: readonly LogGap[];
  /** Where to resume: the last id that was checked. */
  readonly nextAfterId: number;
  /** From the live tail: other readers get the same entries. */
  readonly live: boolean;
  /** With `asStored`, in place of entries. */
  readonly stored?: { readonly batch: Batch; readonly stamps: readonly Stamp[] };
}

/** LogStatus of lineside.proto, which documents the fields, and what is known of the time. */
export type LogSnapshot = Readonly<
  Record<Exclude<FieldOf<lineside.v1.LogStatus.$Properties>, keyof OtherStatus>, number> & OtherStatus
> & {
  readonly time: TimeState;
  /** By how much earlier entries of this boot were corrected when the time became known; undefined: there were none. */
  readonly correctedByMs?: number;
};

interface OtherStatus {
  readonly state: 'ok' | 'failing';
  readonly error: string;
  readonly logId: string;
  readonly gaps: readonly LogGap[];
  readonly setAside: string;
}
