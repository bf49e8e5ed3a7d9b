/** The log of the line, as the hub reads it over gRPC: what is stored, in portions, each call with a time limit. */
import Long from 'long';
import { ClientError, Status } from 'nice-grpc';
import { type Clock, withLimit } from '../../shared/base/clock.ts';
import type { LineClient } from '../../shared/line-client/line-client.ts';
import { lineside } from '../../shared/proto/services.ts';
import type { Now } from './corrections.ts';
import type { LogExtent } from './log-positions.ts';
import type { ReadBatch } from './packer.ts';

export interface LineState extends LogExtent {
  /** Given out last, stored or not. */
  readonly headId: number;
  readonly clockSet: boolean;
}

export type ReadResult =
  | { readonly kind: 'read'; readonly batches: readonly ReadBatch[] }
  /** Retention removed entries above the id. */
  | { readonly kind: 'overtaken' }
  /** It is another log now. */
  | { readonly kind: 'replaced' };

export type LineLog = ReturnType<typeof lineLog>;

const { ENTRY_CLOCK_UNSPECIFIED, ENTRY_CLOCK_NOT_SET, ENTRY_CLOCK_CORRECTED } = lineside.v1.EntryClock;

export function isUnset({ clock }: lineside.v1.LogEntry): boolean {
  return clock === ENTRY_CLOCK_NOT_SET;
}

/** The current correction of the first entry from the id on that the box has stamped. */
export async function timeAt(line: LineLog, logId: string, id: number, signal: AbortSignal): Promise<Now> {
  const result = await line.read(logId, id - 1, 1, signal);
  if (result.kind !== 'read') return undefined;
  const marked = result.batches
    .flatMap(({ entries }) => entries)
    .find(({ clock }) => clock !== ENTRY_CLOCK_UNSPECIFIED);
  if (marked === undefined || isUnset(marked)) return undefined;
  if (marked.clock !== ENTRY_CLOCK_CORRECTED) return { correctionMs: 0 };
  return { correctionMs: Number(marked.entry?.timestamp ?? 0) - Number(marked.uncorrectedTimestampMs) };
}

/** It answers in milliseconds; a slow card may hold a page for seconds. */
const ANSWER_MS = 10_000;
/** Of one call: what is sent and not taken, when there is enough, was read in vain. */
const READ_ENTRIES = 4_096;

export function lineLog({ line }: Pick<LineClient, 'line'>, clock: Clock) {
  return {
    /** As read(), it rejects where the line does not answer. */
    async now(signal: AbortSignal): Promise<LineState> {
      const { log, clock: time } = await withLimit(clock, ANSWER_MS, signal, (limit) =>
        line.getStatus({}, { signal: limit }),
      );
      return {
        logId: log?.logId ?? '',
        beginId: beginOf(log),
        firstId: Number(log?.firstId ?? 0),
        lastId: Number(log?.lastId ?? 0),
        headId: Number(log?.headId ?? 0),
        clockSet: time?.state === lineside.v1.ClockState.CLOCK_STATE_SET,
      };
    },
    /** The entries stored above the id: enough bytes, or all. */
    async read(logId: string, afterId: number, enoughBytes: number, signal: AbortSignal): Promise<ReadResult> {
      const batches: ReadBatch[] = [];
      const request = {
        logId,
        afterId: Long.fromNumber(afterId, true),
        storedOnly: true,
        limit: Long.fromNumber(READ_ENTRIES, true),
      };
      try {
        await withLimit(clock, ANSWER_MS, signal, async (limit) => {
          let bytes = 0;
          for await (const batch of line.readLog(request, { signal: limit })) {
            batches.push(batch);
            for (const { entry } of batch.entries) bytes += entry?.rawData.length ?? 0;
            if (bytes >= enoughBytes) return;
          }
        });
      } catch (error) {
        // The batches before the failure are in order and whole.
        if (batches.some(({ entries, gaps }) => entries.length + gaps.length > 0)) return { kind: 'read', batches };
        if (error instanceof ClientError && error.code === Status.DATA_LOSS) return { kind: 'overtaken' };
        if (error instanceof ClientError && error.code === Status.OUT_OF_RANGE) return { kind: 'replaced' };
        throw error;
      }
      return { kind: 'read', batches };
    },
  };
}

/** Of the first entry, or of a gap before it. */
function beginOf(log: lineside.v1.ILogStatus | null | undefined): number {
  return Math.min(Number(log?.firstId ?? 0), ...(log?.gaps ?? []).map((gap) => Number(gap.firstId)));
}
