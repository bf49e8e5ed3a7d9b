/** The shipper's positions in the logs of the box: the log that is sent now, and later ones that wait. Pure. */

export interface LogPosition {
  readonly logId: string;
  /** Everything up to this id is with the remote. */
  readonly afterId: number;
  /** The last id that is known to have been stored. */
  readonly lastId: number;
}

export interface LogExtent {
  readonly logId: string;
  /** Of the oldest entry, or of a gap before it. */
  readonly beginId: number;
  /** Of the oldest entry; 0: nothing is stored. */
  readonly firstId: number;
  readonly lastId: number;
}

/** Logs that were replaced while nothing could be sent; of more the middle ones are forgotten. */
const MAX_LOGS = 4;

export class LogPositions {
  all: LogPosition[];

  constructor(saved: readonly LogPosition[]) {
    this.all = saved.slice(-MAX_LOGS);
  }

  /** The log that is sent now; undefined: nothing was stored yet, or the line has not answered yet. */
  get current(): LogPosition | undefined {
    return this.all[0];
  }

  /** The current log was replaced by another. */
  get isReplaced(): boolean {
    return this.all.length > 1;
  }

  /**
   * A log that is seen for the first time is sent from its beginning on. One that follows another uses its ids on: what went
   * with the other's file was sent, or is in the gap at its end.
   */
  seen({ logId, beginId, firstId, lastId }: LogExtent): 'known' | 'first' | 'another' {
    const last = this.all.at(-1);
    if (last?.logId === logId) {
      if (lastId > last.lastId) this.all[this.all.length - 1] = { ...last, lastId };
      return 'known';
    }
    // Where it begins is known with its first entry.
    if (logId === '' || firstId === 0) return 'known';
    const afterId = Math.min(firstId - 1, Math.max(beginId - 1, last?.lastId ?? 0));
    this.all.push({ logId, afterId, lastId });
    if (this.all.length > MAX_LOGS) this.all.splice(1, 1);
    return last === undefined ? 'first' : 'another';
  }

  /** The remote has everything up to this id, or is known to be there. */
  moved(afterId: number): void {
    const { current } = this;
    if (current !== undefined) this.all[0] = { ...current, afterId, lastId: Math.max(current.lastId, afterId) };
  }

  /** The current log ends before what the remote has. */
  wentBack(lastId: number): void {
    const { current } = this;
    if (current !== undefined) this.all[0] = { ...current, afterId: lastId, lastId };
  }

  /** The replaced log is sent to its end. */
  next(): void {
    if (this.isReplaced) this.all.shift();
  }
}

// Since when something waits to be sent, by the log's end at each reading. Bounded.

/** Ends of the log seen closer together than this are kept as one. */
const APART_MS = 5_000;
/** Beyond it every other one is dropped: the age of what has waited for a month is right to some hours. */
const MAX_SEEN = 512;

export class Lag {
  #logId = '';
  /** [last id, when it was first seen], oldest first. */
  #ends: [number, number][] = [];

  seen(logId: string, lastId: number, nowMs: number): void {
    if (logId !== this.#logId) this.#ends = [];
    this.#logId = logId;
    const last = this.#ends.at(-1);
    if (last !== undefined && lastId <= last[0]) return;
    // Within that distance the earlier moment counts for both: a reported age is never too short.
    if (last !== undefined && nowMs - last[1] < APART_MS) last[0] = lastId;
    else this.#ends.push([lastId, nowMs]);
    if (this.#ends.length > MAX_SEEN) this.#thin();
  }

  /** Each two become one: the ids of the later, the moment of the earlier. */
  #thin(): void {
    this.#ends = this.#ends.flatMap(([lastId, atMs], index, all) => {
      if (index % 2 === 1) return [[lastId, all[index - 1]?.[1] ?? atMs] satisfies [number, number]];
      return index === all.length - 1 ? [[lastId, atMs] satisfies [number, number]] : [];
    });
  }

  /** Milliseconds since the oldest entry above the id was seen; 0: there is none. */
  ageMs(afterId: number, nowMs: number): number {
    const first = this.#ends.find(([lastId]) => lastId > afterId);
    return first === undefined ? 0 : nowMs - first[1];
  }
}
