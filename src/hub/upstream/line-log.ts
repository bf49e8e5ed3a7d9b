/** The log of the line, as the hub reads it over gRPC: what is stored, in portions, each call with a time limit. */
import Long from 'long';
import { ClientError, Status } from 'nice-grpc';
import { type Clock, withLimit } from '../../shared/base/clock.ts';
import { DamagedError } from '../../shared/base/log-block.ts';
import type { LineClient } from '../../shared/line-client/line-client.ts';
import { lineside } from '../../shared/proto/services.ts';
import type { Now } from './corrections.ts';
import type { LogExtent } from './log-positions.ts';
import type { ReadBatch } from './packer.ts';
import { runsOf } from './runs.ts';

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

export type LineLog = Pick<StoredLog, 'now' | 'read' | 'timeAt' | 'end'>;

const { ENTRY_CLOCK_UNSPECIFIED, ENTRY_CLOCK_NOT_SET, ENTRY_CLOCK_CORRECTED } = lineside.v1.EntryClock;

/** It answers in milliseconds; a slow card may hold a page for seconds. */
const ANSWER_MS = 10_000;
/** Of one call for a time: given times may precede. */
const MARKED_WITHIN = 512;

interface OpenStream {
  readonly logId: string;
  readonly batches: AsyncIterator<lineside.v1.LogBatch>;
  readonly ending: AbortController;
  nextAfterId: number;
}

export class StoredLog {
  readonly #line: LineClient['line'];
  readonly #clock: Clock;
  /** Kept for the next read. */
  #stream: OpenStream | undefined;

  constructor({ line }: Pick<LineClient, 'line'>, clock: Clock) {
    this.#line = line;
    this.#clock = clock;
  }

  /** As read(), it rejects where the line does not answer. */
  async now(signal: AbortSignal): Promise<LineState> {
    const { log, clock: time } = await withLimit(this.#clock, ANSWER_MS, signal, (limit) =>
      this.#line.getStatus({}, { signal: limit }),
    );
    return {
      logId: log?.logId ?? '',
      beginId: beginOf(log),
      firstId: Number(log?.firstId ?? 0),
      lastId: Number(log?.lastId ?? 0),
      headId: Number(log?.headId ?? 0),
      clockSet: time?.state === lineside.v1.ClockState.CLOCK_STATE_SET,
    };
  }

  /** The entries stored above the id: enough bytes, or all. */
  async read(logId: string, afterId: number, enoughBytes: number, signal: AbortSignal): Promise<ReadResult> {
    const kept = this.#stream?.logId === logId && this.#stream.nextAfterId === afterId ? this.#stream : undefined;
    const stream = kept ?? this.#begin(logId, afterId);
    const batches: ReadBatch[] = [];
    try {
      await this.#readInto(batches, stream, enoughBytes, signal);
    } catch (error) {
      this.end();
      // The batches before the failure are in order and whole.
      if (batches.length > 0) return { kind: 'read', batches };
      // The line was restarted, or the stream waited for too long.
      if (kept !== undefined && !signal.aborted) return this.read(logId, afterId, enoughBytes, signal);
      if (error instanceof ClientError && error.code === Status.DATA_LOSS) return { kind: 'overtaken' };
      if (error instanceof ClientError && error.code === Status.OUT_OF_RANGE) return { kind: 'replaced' };
      // The line notices as well, and sets its file aside.
      if (error instanceof DamagedError) await this.#markedAfter(logId, afterId, signal);
      throw error;
    }
    return { kind: 'read', batches };
  }

  /** The current correction of the first entry from the id on that the box has stamped. */
  async timeAt(logId: string, id: number, signal: AbortSignal): Promise<Now> {
    const marked = await this.#markedAfter(logId, id - 1, signal);
    if (marked === undefined || marked.clock === ENTRY_CLOCK_NOT_SET) return undefined;
    if (marked.clock !== ENTRY_CLOCK_CORRECTED) return { correctionMs: 0 };
    return { correctionMs: Number(marked.entry?.timestamp ?? 0) - Number(marked.uncorrectedTimestampMs) };
  }

  end(): void {
    this.#stream?.ending.abort();
    this.#stream = undefined;
  }

  #begin(logId: string, afterId: number): OpenStream {
    this.end();
    const ending = new AbortController();
    const request = { logId, afterId: Long.fromNumber(afterId, true), storedOnly: true, asStored: true };
    const batches = this.#line.readLog(request, { signal: ending.signal })[Symbol.asyncIterator]();
    this.#stream = { logId, batches, ending, nextAfterId: afterId };
    return this.#stream;
  }

  async #readInto(batches: ReadBatch[], stream: OpenStream, enoughBytes: number, signal: AbortSignal): Promise<void> {
    for (let bytes = 0; bytes < enoughBytes; ) {
      const { done, value } = await withLimit(this.#clock, ANSWER_MS, signal, (limit) => {
        limit.addEventListener('abort', () => stream.ending.abort(), { once: true });
        return stream.batches.next();
      });
      if (done === true) return this.end();
      const afterId = stream.nextAfterId;
      const nextAfterId = Number(value.nextAfterId);
      const runs = runsOf(value, afterId, nextAfterId);
      batches.push({ runs, gaps: value.gaps, nextAfterId });
      stream.nextAfterId = nextAfterId;
      for (const { records } of runs) bytes += records.length;
    }
  }

  #markedAfter(logId: string, afterId: number, signal: AbortSignal): Promise<lineside.v1.LogEntry | undefined> {
    return withLimit(this.#clock, ANSWER_MS, signal, async (limit) => {
      const range = { afterId: Long.fromNumber(afterId, true), limit: Long.fromNumber(MARKED_WITHIN, true) };
      for await (const { entries } of this.#line.readLog({ logId, ...range, storedOnly: true }, { signal: limit }))
        return entries.find((entry) => entry.clock !== ENTRY_CLOCK_UNSPECIFIED);
      return undefined;
    });
  }
}

/** Of the first entry, or of a gap before it. */
function beginOf(log: lineside.v1.ILogStatus | null | undefined): number {
  return Math.min(Number(log?.firstId ?? 0), ...(log?.gaps ?? []).map((gap) => Number(gap.firstId)));
}
