/**
 * Cuts what is read of one log into batches for the central side: of one boot each, of bounded size, each continuing where the
 * one before ended, so that together they cover every id once. Pure.
 */
import type Long from 'long';
import { lineside } from '../../shared/proto/services.ts';

export const SCHEMA_VERSION = 1;

type Entry = lineside.v1.LogEntry;
export type Cause = lineside.v1.UpstreamGap.Cause;
export const { Cause } = lineside.v1.UpstreamGap;

/** As it comes from the line. */
export interface ReadBatch {
  readonly entries: readonly Entry[];
  readonly gaps: readonly lineside.v1.LogGap[];
  readonly bootId: string;
  readonly nextAfterId: Long;
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
  readonly entries: readonly Entry[];
  readonly gaps: readonly Gap[];
  /** At least what it is once encoded, the frame of the message aside. */
  readonly bytes: number;
  /** Of the serial line. */
  readonly lineBytes: number;
}

type Item =
  | {
      readonly kind: 'entry';
      readonly lastId: number;
      readonly entry: Entry;
      readonly bootId: string;
      readonly bytes: number;
    }
  | { readonly kind: 'gap'; readonly lastId: number; readonly gap: Gap; readonly bytes: number };

/** Tags, lengths and numbers of an entry in a batch at their longest: 48 are enough, some to spare. */
const ENTRY_BYTES = 56;
const GAP_BYTES = 112;
/** A correction: three numbers of up to ten bytes, tags and length. */
export const CORRECTION_BYTES = 36;
/** Ids of device, log and boot, and the numbers of the batch itself. */
export const FRAME_BYTES = 512;

export class Packer {
  readonly logId: string;
  #items: Item[] = [];
  #bytes = 0;
  /** Everything up to this id was taken. */
  #afterId: number;
  /** Everything up to this id was read. */
  #readTo: number;
  #isEnded = false;

  constructor(logId: string, afterId: number) {
    this.logId = logId;
    this.#afterId = afterId;
    this.#readTo = afterId;
  }

  get readTo(): number {
    return this.#readTo;
  }

  /** Of what waits. */
  get bytes(): number {
    return this.#bytes;
  }

  get isEmpty(): boolean {
    return this.#items.length === 0;
  }

  add({ entries, gaps, bootId, nextAfterId }: ReadBatch): void {
    const items: Item[] = [];
    for (const entry of entries) {
      const lastId = Number(entry.id);
      const { rawData, note } = entry.entry ?? { rawData: new Uint8Array(), note: '' };
      // Three bytes a character at worst.
      if (lastId > this.#readTo)
        items.push({ kind: 'entry', lastId, entry, bootId, bytes: ENTRY_BYTES + rawData.length + 3 * note.length });
    }
    for (const { firstId, lastId, reason, bytes, fromMs, toMs, ...of } of gaps) {
      const gap = gapOf(Cause.NOT_STORED, Math.max(Number(firstId), this.#readTo + 1), Number(lastId), reason);
      const entries = Math.min(Number(of.entries), gap.entries);
      if (gap.lastId >= gap.firstId) items.push(itemOf({ ...gap, entries, bytes, fromMs, toMs }));
    }
    items.sort((a, b) => a.lastId - b.lastId);
    this.#push(items, Number(nextAfterId));
  }

  /** Retention removed the entries up to this id. */
  overtaken(lastId: number, reason: string): void {
    if (lastId > this.#readTo) this.#push([itemOf(gapOf(Cause.OVERTAKEN, this.#readTo + 1, lastId, reason))], lastId);
  }

  /** The log is gone, whose last known id is this one. What came after it is not known: a gap is sent also if nothing is known to be missing. */
  replaced(lastKnownId: number, reason: string): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    const lastId = Math.max(lastKnownId, this.#readTo);
    const gap = gapOf(Cause.LOG_REPLACED, this.#readTo + 1, lastId, reason);
    this.#push([itemOf({ ...gap, openEnded: true })], lastId);
  }

  /** The next batch of at most so many bytes, but of one entry at least; undefined: nothing waits. */
  take(maxBytes: number): Packed | undefined {
    const [first] = this.#items;
    if (first === undefined) return undefined;
    let bootId: string | undefined;
    let bytes = 0;
    let count = 0;
    for (const item of this.#items) {
      if (count > 0 && bytes + item.bytes > maxBytes) break;
      if (item.kind === 'entry') {
        bootId ??= item.bootId;
        if (item.bootId !== bootId) break;
      }
      bytes += item.bytes;
      count += 1;
    }
    const taken = this.#items.splice(0, count);
    this.#bytes -= bytes;
    const afterId = this.#afterId;
    this.#afterId = this.#items.length === 0 ? this.#readTo : (taken.at(-1)?.lastId ?? afterId);
    const entries = taken.flatMap((item) => (item.kind === 'entry' ? [item.entry] : []));
    return {
      logId: this.logId,
      bootId: bootId ?? '',
      afterId,
      throughId: this.#afterId,
      entries,
      gaps: taken.flatMap((item) => (item.kind === 'gap' ? [item.gap] : [])),
      bytes,
      lineBytes: lineBytesOf(entries),
    };
  }

  #push(items: readonly Item[], readTo: number): void {
    for (const item of items) {
      this.#items.push(item);
      this.#bytes += item.bytes;
    }
    this.#readTo = Math.max(this.#readTo, readTo, items.at(-1)?.lastId ?? 0);
  }
}

/** A batch as two that cover the same: for a transport that found it too large. undefined: it has one entry only. */
export function halves(packed: Packed): readonly [Packed, Packed] | undefined {
  const { entries, gaps } = packed;
  const middle = entries[Math.floor(entries.length / 2)];
  if (entries.length < 2 || middle === undefined) return undefined;
  // Gaps and entries do not overlap: each is on one side.
  const from = Number(middle.id);
  const part = (afterId: number, throughId: number): Packed => {
    const within = entries.filter(({ id }) => Number(id) > afterId && Number(id) <= throughId);
    const lost = gaps.filter(({ lastId }) => lastId > afterId && lastId <= throughId);
    const bytes = Math.ceil(packed.bytes / 2);
    return { ...packed, afterId, throughId, entries: within, gaps: lost, bytes, lineBytes: lineBytesOf(within) };
  };
  return [part(packed.afterId, from - 1), part(from - 1, packed.throughId)];
}

/** The same without its only entry, which is too large for the transport. */
export function withoutEntry(packed: Packed, reason: string): Packed {
  const id = Number(packed.entries[0]?.id ?? 0);
  const gaps = [...packed.gaps, gapOf(Cause.TOO_LARGE, id, id, reason)].sort((a, b) => a.firstId - b.firstId);
  return { ...packed, bootId: '', entries: [], gaps, lineBytes: 0, bytes: GAP_BYTES * gaps.length };
}

export function encode(packed: Packed, deviceId: string, clockCorrections: readonly Correction[] = []): Uint8Array {
  const { UpstreamBatch } = lineside.v1;
  const batch = { ...packed, schemaVersion: SCHEMA_VERSION, deviceId, clockCorrections };
  return UpstreamBatch.encode(UpstreamBatch.fromObject(batch)).finish();
}

function gapOf(cause: Cause, firstId: number, lastId: number, reason: string): Gap {
  return { cause, firstId, lastId, entries: lastId - firstId + 1, reason, openEnded: false };
}

function itemOf(gap: Gap): Item {
  return { kind: 'gap', lastId: gap.lastId, gap, bytes: GAP_BYTES + 3 * gap.reason.length };
}

function lineBytesOf(entries: readonly Entry[]): number {
  return entries.reduce((sum, { entry }) => sum + (entry?.rawData.length ?? 0), 0);
}
