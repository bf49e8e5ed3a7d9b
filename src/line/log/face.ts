/**
 * The face of the log room: what the line appends to and what the API reads from. SerialLog (serial-log.ts) is the
 * real one. Everything here runs on the thread that reads the UART and never waits for the SD card.
 */
import type { Direction, LogEntry, LogGap, NewEntry, Uint64 } from './entry.ts';

/** The append interface: all that the line room sees of the log. */
export interface LineRecorder {
  /** Traffic of the line: gets its id and reaches live readers at once, storage within log.commit_ms. Never throws. `data` is kept: hand over a copy. */
  record(dir: Direction, timestampMs: number, data: Uint8Array, note?: string): void;
  /**
   * True while entries come in faster than a healthy store takes them: the line stops reading until `onRelieved`.
   * Never true because the store hangs or fails: then entries are dropped from storage (counted as a gap) instead.
   */
  readonly pressed: boolean;
  /** Called each time `pressed` becomes false again. */
  onRelieved(call: () => void): void;
}

/** What the box knows of the time. 'unknown': it has no time sync that could be asked. */
export type TimeState = 'synced' | 'unsynced' | 'unknown';

export interface TimeSource {
  /** Identifies this boot of the machine. */
  readonly bootId: string;
  /** Once 'synced' it stays so until the next boot. */
  state(): TimeState;
  /** Wall clock minus the monotonic clock of this boot, which goes on over restarts of the service: moves when the wall clock is set. */
  offsetMs(): number;
  /** Called when the state has changed. */
  onChange(call: () => void): void;
}

export interface ReadRequest {
  /** Entries with a greater id; 'live': only those that appear after this call; 'last': the last `limit` stored ones. */
  readonly after: number | 'live' | 'last';
  /** Go on with live entries; otherwise end at the id that was the head at the call. */
  readonly follow: boolean;
  /** undefined: both. */
  readonly dir: Direction | undefined;
  readonly sinceMs: Uint64 | undefined;
  readonly untilMs: Uint64 | undefined;
  /** After the filters (with 'last': before them); undefined: none. */
  readonly limit: number | undefined;
  /** Only what is stored, and what retention removed is missed with `after` 0 too. Not with `follow`, 'live' or 'last'. */
  readonly storedOnly?: boolean | undefined;
}

/** A run of consecutive entries in log order, never empty of everything but possibly of entries (a filter). */
export interface LogRun {
  readonly entries: readonly LogEntry[];
  /** Gaps that lie before or between these entries (also those from before this reader began). */
  readonly gaps: readonly LogGap[];
  /** Where to resume: the last id looked at. */
  readonly nextAfterId: number;
  /** From the live tail: other readers get the same entries. */
  readonly live: boolean;
}

export interface LogSnapshot {
  readonly state: 'ok' | 'failing';
  readonly error: string;
  readonly logId: string;
  readonly firstId: number;
  readonly lastId: number;
  readonly headId: number;
  readonly usedBytes: number;
  readonly fileBytes: number;
  readonly maxBytes: number;
  readonly pendingEntries: number;
  readonly pendingBytes: number;
  readonly lostEntries: number;
  readonly lostBytes: number;
  /** Newest last, at most 16. */
  readonly gaps: readonly LogGap[];
  readonly prunedEntries: number;
  /** Path of a damaged file that was set aside at (or since) this start; '' otherwise. */
  readonly setAside: string;
  readonly commits: number;
  /** Of the 32 MiB that all readers share (read-budget.ts). */
  readonly readBudgetUsedBytes: number;
  readonly waitingReaders: number;
  readonly time: TimeState;
  /** By how much earlier entries of this boot were corrected when the time became known; undefined: there were none. */
  readonly correctedByMs?: number;
}

export interface LogFace extends LineRecorder {
  readonly logId: string;
  /** Stores one entry as given and resolves with it once it is committed (fsync done). Rejects with LOG_NOT_STORED: then it is not stored (but if fsync failed and the process is killed before the next good commit, it may appear after all). */
  store(entry: NewEntry): Promise<LogEntry>;
  /**
   * Reads the log as runs, in order, without a gap or repeat between stored and live. The subscription stands when
   * this returns (before the first run is asked for). A reader that falls behind reads on from storage and holds no
   * memory. Ends when the signal fires (normally), or throws LOG_LOST (entries it was still to get are gone;
   * the message has their number) or SHUTTING_DOWN.
   */
  read(request: ReadRequest, signal: AbortSignal): AsyncIterable<LogRun>;
  /** The boot of the machine in which an entry was stamped; '': not known (no time sync, an earlier version wrote it). */
  bootAt(id: number): string;
  /** Followers now. */
  readonly readers: number;
  status(): Promise<LogSnapshot>;
  /** Stores what is pending, then ends every reader with SHUTTING_DOWN, then closes the file. */
  close(): Promise<void>;
}
