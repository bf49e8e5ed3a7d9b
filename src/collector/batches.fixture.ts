/** Batches for the collector's tests, and what reading gives of them. */
import { after } from 'node:test';
import Long from 'long';
import { temporaryDirectory as temporary } from '../shared/base/temporary.fixture.ts';
import { lineside, serial } from '../shared/proto/services.ts';
import { type Item, readStored } from './commands.ts';

export const u64 = (value: number): Long => Long.fromNumber(value, true);

export interface BatchLike {
  readonly deviceId?: string;
  readonly logId?: string;
  readonly bootId?: string;
  readonly after: number;
  readonly through: number;
  /** Default: every id of the range that is in no gap. */
  readonly ids?: readonly number[];
  readonly gaps?: readonly { readonly from: number; readonly to: number; readonly openEnded?: boolean }[];
  readonly corrections?: readonly { readonly from: number; readonly to: number; readonly ms: number }[];
  /** Of each entry: so many, or these. */
  readonly bytes?: number | Uint8Array;
  readonly clock?: lineside.v1.EntryClock;
}

const { Cause } = lineside.v1.UpstreamGap;

export function batchOf(like: BatchLike): lineside.v1.UpstreamBatch {
  const { after: afterId, through, gaps = [], corrections = [], bytes = 4 } = like;
  const all = Array.from({ length: Math.max(0, through - afterId) }, (_, at) => afterId + 1 + at);
  const ids = like.ids ?? all.filter((id) => !gaps.some(({ from, to }) => from <= id && id <= to));
  return lineside.v1.UpstreamBatch.fromObject({
    schemaVersion: 1,
    deviceId: like.deviceId ?? 'box-1',
    logId: like.logId ?? 'log-1',
    bootId: like.bootId ?? 'boot-1',
    afterId: u64(afterId),
    throughId: u64(through),
    entries: ids.map((id) => ({
      id: u64(id),
      clock: like.clock ?? lineside.v1.EntryClock.ENTRY_CLOCK_KNOWN,
      entry: {
        dir: serial.SerialLogEntry.Direction.RX,
        timestamp: u64(1_700_000_000_000 + id),
        rawData: typeof bytes === 'number' ? Buffer.alloc(bytes, id) : bytes,
        note: '',
      },
    })),
    gaps: gaps.map(({ from, to, openEnded = false }) => ({
      cause: openEnded ? Cause.LOG_REPLACED : Cause.OVERTAKEN,
      firstId: u64(from),
      lastId: u64(to),
      entries: u64(to - from + 1),
      openEnded,
    })),
    clockCorrections: corrections.map(({ from, to, ms }) => ({
      firstId: u64(from),
      lastId: u64(to),
      correctionMs: Long.fromNumber(ms),
    })),
  });
}

export function encoded(like: BatchLike): Uint8Array {
  return lineside.v1.UpstreamBatch.encode(batchOf(like)).finish();
}

/** Removed at the end of the file. */
export function temporaryDirectory(): string {
  return temporary({ after });
}

/** In a word each: "12" an entry, "13-15 overtaken" a gap, "damage". */
export async function stored(dir: string, deviceId?: string, logId?: string): Promise<string[]> {
  const words: string[] = [];
  for await (const item of readStored(dir, deviceId, logId)) words.push(...wordOf(item));
  return words;
}

function wordOf(item: Item): string[] {
  if (item.kind === 'entry') return [String(item.value.id)];
  if (item.kind === 'damage') return ['damage'];
  if (item.kind === 'log') return [];
  const { firstId, lastId, cause } = item.value;
  return [`${String(firstId)}-${String(lastId)} ${cause}`];
}

export function words(from: number, to: number): string[] {
  return Array.from({ length: to - from + 1 }, (_, at) => String(from + at));
}
