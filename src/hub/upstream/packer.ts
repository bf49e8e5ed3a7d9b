/**
 * Cuts what is read of one log into batches for the central side: of one boot each, of bounded size, each continuing where the
 * one before ended, so that together they cover every id once. Pure.
 */
import { lineside } from '../../shared/proto/services.ts';
import type { Run } from './runs.ts';

export const SCHEMA_VERSION = 1;

export type Cause = lineside.v1.UpstreamGap.Cause;
export const { Cause } = lineside.v1.UpstreamGap;

export interface ReadBatch {
  readonly runs: readonly Run[];
  readonly gaps: readonly lineside.v1.LogGap[];
  readonly nextAfterId: number;
}

/** With the line's own record of what it could not store; NOT_STORED only. */
export interface Gap extends Partial<Pick<lineside.v1.LogGap, 'bytes' | 'fromMs' | 'toMs'>> {
  readonly cause: Cause;
  readonly firstId: number;
  readonly lastId: number;
  readonly entries: number;
  readonly reason: string;
  readonly openEnded: boolean;
}

export interface Correction {
  readonly firstId: number;
  readonly lastId: number;
  readonly correctionMs: number;
}

export interface Packed {
  readonly logId: string;
  readonly bootId: string;
  readonly afterId: number;
  readonly throughId: number;
  readonly items: readonly Item[];
  readonly gaps: readonly Gap[];
  readonly entries: number;
  /** At least what it is once encoded, the frame of the message aside. */
  readonly bytes: number;
  /** Of the serial line. */
  readonly lineBytes: number;
}

type Item =
  /** Of a run: the entries from the `from`-th up to before the `to`-th. */
  | { readonly kind: 'run'; readonly run: Run; readonly from: number; readonly to: number; readonly bytes: number }
  | { readonly kind: 'gap'; readonly gap: Gap; readonly bytes: number };

const GAP_BYTES = 112;
/** A correction: three numbers of up to ten bytes, tags and length. */
export const CORRECTION_BYTES = 36;
/** Ids of device, log and boot, and the numbers of the batch itself. */
export const FRAME_BYTES = 512;

export class Packer {
  readonly logId: string;
  #items: Item[] = [];
  /** Of what waits. */
  bytes = 0;
  /** Everything up to this id was taken. */
  #afterId: number;
  /** Everything up to this id was read. */
  readTo: number;
  #isEnded = false;
  /** Batches up to the id hold at most so many entries. */
  #cut = { entries: 0, throughId: 0 };

  constructor(logId: string, afterId: number) {
    this.logId = logId;
    this.#afterId = afterId;
    this.readTo = afterId;
  }

  get isEmpty(): boolean {
    return this.#items.length === 0;
  }

  add({ runs, gaps, nextAfterId }: ReadBatch): void {
    const items: Item[] = [];
    for (const run of runs) {
      const from = Math.max(0, this.readTo + 1 - run.firstId);
      if (from < run.ends.length) items.push(slice(run, from, run.ends.length));
    }
    for (const { firstId, lastId, reason, bytes, fromMs, toMs, ...of } of gaps) {
      const gap = gapOf(Cause.NOT_STORED, Math.max(Number(firstId), this.readTo + 1), Number(lastId), reason);
      const entries = Math.min(Number(of.entries), gap.entries);
      if (gap.lastId >= gap.firstId) items.push(itemOf({ ...gap, entries, bytes, fromMs, toMs }));
    }
    items.sort((a, b) => lastIdOf(a) - lastIdOf(b));
    this.#push(items, nextAfterId);
  }

  /** Retention removed the entries up to this id. */
  overtaken(lastId: number, reason: string): void {
    if (lastId > this.readTo) this.#push([itemOf(gapOf(Cause.OVERTAKEN, this.readTo + 1, lastId, reason))], lastId);
  }

  /** The log is gone, whose last known id is this one. What came after it is not known: a gap is sent also if nothing is known to be missing. */
  replaced(lastKnownId: number, reason: string): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    const lastId = Math.max(lastKnownId, this.readTo);
    const gap = gapOf(Cause.LOG_REPLACED, this.readTo + 1, lastId, reason);
    this.#push([itemOf({ ...gap, openEnded: true })], lastId);
  }

  /** The next batch of at most so many bytes, but of one entry at least; undefined: nothing waits. */
  take(maxBytes: number): Packed | undefined {
    if (this.isEmpty) return undefined;
    const afterId = this.#afterId;
    const maxEntries = afterId < this.#cut.throughId ? this.#cut.entries : Number.POSITIVE_INFINITY;
    const items: Item[] = [];
    let [bootId, entries, bytes, lineBytes] = ['', 0, 0, 0];
    for (let item = this.#items[0]; item !== undefined; item = this.#items[0]) {
      if (item.kind === 'run' && entries > 0 && item.run.bootId !== bootId) break;
      const part = partOf(item, maxBytes - bytes, maxEntries - entries, items.length === 0);
      if (part === undefined) break;
      items.push(part);
      bytes += part.bytes;
      this.#afterId = lastIdOf(part);
      if (part.kind === 'run') {
        const { run, from, to } = part;
        bootId = run.bootId;
        entries += to - from;
        lineBytes += endOf(run.lineEnds, to) - endOf(run.lineEnds, from);
      }
      if (item.kind === 'run' && part.kind === 'run' && part.to < item.to) {
        this.#items[0] = slice(item.run, part.to, item.to);
        break;
      }
      this.#items.shift();
    }
    this.bytes -= bytes;
    if (this.isEmpty) this.#afterId = this.readTo;
    const gaps = items.flatMap((item) => (item.kind === 'gap' ? [item.gap] : []));
    return { logId: this.logId, bootId, afterId, throughId: this.#afterId, items, gaps, entries, bytes, lineBytes };
  }

  /** The batch that was taken last waits again. */
  putBack({ afterId }: Pick<Packed, 'afterId'>, items: readonly Item[]): void {
    this.#items.unshift(...items);
    this.bytes += items.reduce((sum, { bytes }) => sum + bytes, 0);
    this.#afterId = afterId;
  }

  /** The batch that was taken last is too large: it waits again as halves, its only entry as a gap. */
  cut(packed: Packed, reason: string): void {
    const { entries, throughId, items } = packed;
    this.#cut = { entries: Math.floor(entries / 2), throughId };
    if (entries > 1) return this.putBack(packed, items);
    const left = items.map((item) => {
      const id = lastIdOf(item);
      return item.kind === 'gap' ? item : itemOf(gapOf(Cause.TOO_LARGE, id, id, reason));
    });
    this.putBack(packed, left);
  }

  #push(items: readonly Item[], readTo: number): void {
    for (const item of items) {
      this.#items.push(item);
      this.bytes += item.bytes;
    }
    const last = items.at(-1);
    this.readTo = Math.max(this.readTo, readTo, last === undefined ? 0 : lastIdOf(last));
  }
}

/** What fits; undefined: nothing. */
function partOf(item: Item, maxBytes: number, maxEntries: number, isFirst: boolean): Item | undefined {
  if (item.kind === 'gap') return isFirst || item.bytes <= maxBytes ? item : undefined;
  if (item.bytes <= maxBytes && item.to - item.from <= maxEntries) return item;
  const { run, from } = item;
  const end = endOf(run.ends, from) + maxBytes;
  let to = from;
  while (to - from < maxEntries && endOf(run.ends, to + 1) <= end) to += 1;
  if (to > from) return slice(run, from, to);
  return isFirst ? slice(run, from, from + 1) : undefined;
}

function slice(run: Run, from: number, to: number): Item {
  return { kind: 'run', run, from, to, bytes: endOf(run.ends, to) - endOf(run.ends, from) };
}

/** Where the first `count` entries of a run end. */
function endOf(ends: ArrayLike<number>, count: number): number {
  return count === 0 ? 0 : (ends[count - 1] ?? 0);
}

function lastIdOf(item: Item): number {
  return item.kind === 'gap' ? item.gap.lastId : item.run.firstId + item.to - 1;
}

/** Entries that were stamped while the clock was not set: the first and the last; undefined: none. */
export function unsetIn({ items }: Packed): readonly [number, number] | undefined {
  const unset = items.filter((item) => item.kind === 'run' && item.run.isUnset);
  const [first, last] = [unset[0], unset.at(-1)];
  if (first?.kind !== 'run' || last === undefined) return undefined;
  return [first.run.firstId + first.from, lastIdOf(last)];
}

export function encode(packed: Packed, deviceId: string, clockCorrections: readonly Correction[] = []): Uint8Array {
  const { logId, bootId, afterId, throughId, gaps, items } = packed;
  const { UpstreamBatch } = lineside.v1;
  const head = { schemaVersion: SCHEMA_VERSION, deviceId, logId, bootId, afterId, throughId, gaps, clockCorrections };
  const records = items.flatMap((item) => (item.kind === 'run' ? [recordsOf(item)] : []));
  // The fields of a message may come in any order.
  return Buffer.concat([UpstreamBatch.encode(UpstreamBatch.fromObject(head)).finish(), ...records]);
}

function recordsOf({ run, from, to }: Extract<Item, { kind: 'run' }>): Uint8Array {
  return run.records.subarray(endOf(run.ends, from), endOf(run.ends, to));
}

function gapOf(cause: Cause, firstId: number, lastId: number, reason: string): Gap {
  return { cause, firstId, lastId, entries: lastId - firstId + 1, reason, openEnded: false };
}

function itemOf(gap: Gap): Item {
  return { kind: 'gap', gap, bytes: GAP_BYTES + 3 * gap.reason.length };
}
