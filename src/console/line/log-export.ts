/**
 * An export of the log: the entries of a range that match the filters, as the parts of a file. It continues over a broken connection,
 * and reports what is not in the file. The box, the clock and the file are arguments. Pure.
 */
import { backoffMs } from '../../shared/base/backoff.ts';
import { type Clock, pause } from '../../shared/base/clock.ts';
import { hexText } from '../../shared/log-formats/byte-text.ts';
import {
  type ExportPlace,
  exportedShare,
  type LogFormat,
  type Logged,
  logWriter,
} from '../../shared/log-formats/log-formats.ts';
import { localProblem, ProblemError, problemFrom } from '../problem.ts';
import { filterFor, type Row, type Wanted } from '../rows.ts';
import { messagesOf } from '../stream.ts';
import { text } from '../text.ts';

export interface ExportRange {
  readonly format: LogFormat;
  readonly wanted: Wanted;
  /** 0: from the oldest entry. */
  readonly sinceMs: number;
  /** 0: to the newest entry there is at the start. */
  readonly untilMs: number;
  /** Only entries with a greater id: where an earlier part ended. */
  readonly afterId: number;
}

export interface ExportParts {
  readonly range: ExportRange;
  /** The text of an answer as it comes, of the log's route with this query. */
  open(query: string, signal: AbortSignal): Promise<AsyncIterable<string>>;
  /** The first and the last entry of the log. */
  stored(signal: AbortSignal): Promise<{ readonly firstId: number; readonly lastId: number }>;
  readonly clock: Clock;
  /** The largest file. */
  readonly maxBytes: number;
  write(bytes: Uint8Array<ArrayBuffer>): Promise<void>;
  onProgress(progress: ExportProgress): void;
}

export interface ExportProgress {
  readonly entries: number;
  readonly bytes: number;
  /** 0 to 1 */
  readonly share: number;
}

export interface Exported {
  readonly entries: number;
  readonly bytes: number;
  /** Entries of the range that could never be stored. */
  readonly neverStored: number;
  /** The time of the oldest entry, if retention removed entries before it that may belong to the range. */
  readonly removedBeforeMs: number | undefined;
  /** Ids that retention removed during the export, before they were read. */
  readonly removedMeanwhile: number;
  /** The file has its largest size: what follows is behind this entry. */
  readonly cutAfter: ExportPlace | undefined;
}

/** The most that the interface gives at a time. */
const PAGE_ENTRIES = 5_000;
/** A page without data for so long is requested again. */
const PATIENCE_MS = 20_000;
const RETRIES_WITHOUT_PROGRESS = 6;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 10_000;

/** Rejects with the signal's reason, with a ProblemError, or with what `write` throws. */
export async function exportLog(parts: ExportParts, signal: AbortSignal): Promise<Exported> {
  const { range } = parts;
  const stored = await parts.stored(signal);
  const reader = new RangeReader(parts, stored.lastId, signal);
  const removedBeforeMs = await oldestIfRemoved(reader, range, stored.firstId);
  const writer = logWriter(range.format, (bytes) => ({ hex: hexText(bytes).replaceAll(' ', '') }));
  const { matches } = filterFor(range.wanted);
  const encoder = new TextEncoder();
  const bytesOf = (part: string | Uint8Array): Uint8Array<ArrayBuffer> =>
    typeof part === 'string' ? encoder.encode(part) : new Uint8Array(part);
  let [entries, bytes, neverStored] = [0, 0, 0];
  let first: ExportPlace | undefined;
  let place: ExportPlace = { id: range.afterId, ms: range.sinceMs };
  let cutAfter: ExportPlace | undefined;
  const put = async (part: Uint8Array<ArrayBuffer>): Promise<void> => {
    if (part.length > 0) await parts.write(part);
    bytes += part.length;
  };
  await put(bytesOf(writer.head));
  for await (const rows of reader.rows()) {
    const kept = rows.filter(matches);
    const part = bytesOf(writer.part(kept.map(loggedOf)));
    if (bytes + part.length > parts.maxBytes) {
      cutAfter = place;
      break;
    }
    await put(part);
    for (const row of kept) {
      if (row.kind === 'entry') entries += 1;
      else neverStored += row.entries;
    }
    const last = rows.findLast((row) => row.kind === 'entry');
    place = { id: rows.at(-1)?.id ?? place.id, ms: last?.kind === 'entry' ? last.timestampMs : place.ms };
    first ??= place;
    parts.onProgress({ entries, bytes, share: exportedShare(first, place, stored.lastId, range.untilMs) });
  }
  return { entries, bytes, neverStored, removedBeforeMs, removedMeanwhile: reader.removed, cutAfter };
}

/** undefined: nothing was removed, or only what is before the range. */
async function oldestIfRemoved(
  reader: RangeReader,
  { afterId, sinceMs }: ExportRange,
  firstId: number,
): Promise<number | undefined> {
  if (firstId <= 1 || afterId > 0) return undefined;
  const oldest = await reader.first(firstId - 1);
  return oldest !== undefined && oldest > sinceMs ? oldest : undefined;
}

function loggedOf(row: Row): Logged {
  return row.kind === 'entry' ? row : { bytes: 0, fromMs: 0, toMs: 0, ...row };
}

class RangeReader {
  readonly #parts: ExportParts;
  readonly #lastId: number;
  readonly #signal: AbortSignal;
  #after: number;
  #logId = '';
  /** Ids that were gone before they were read. */
  removed = 0;

  constructor(parts: ExportParts, lastId: number, signal: AbortSignal) {
    this.#parts = parts;
    this.#lastId = lastId;
    this.#signal = signal;
    this.#after = parts.range.afterId;
  }

  /** The time of the first entry after an id, whatever the range; undefined: there is none, or it cannot be read. */
  async first(after: number): Promise<number | undefined> {
    try {
      for await (const { rows } of this.#page(`after=${after}&limit=1`))
        for (const row of rows) if (row.kind === 'entry') return row.timestampMs;
    } catch (error) {
      if (this.#signal.aborted) throw error;
    }
    return undefined;
  }

  /** Up to the entry that was the last one at the start. */
  async *rows(): AsyncGenerator<readonly Row[]> {
    for (let failures = 0; this.#after < this.#lastId; ) {
      const before = this.#after;
      try {
        for await (const { rows, position } of this.#page(this.#query())) {
          const next = rows.filter(({ id }) => id > this.#after && id <= this.#lastId);
          this.#after = Math.max(this.#after, position, rows.at(-1)?.id ?? 0);
          if (next.length > 0) yield next;
        }
        if (this.#after === before) return;
        failures = 0;
      } catch (error) {
        if (this.#after > before) failures = 0;
        failures += 1;
        await this.#recover(error, failures);
      }
    }
  }

  #query(): string {
    const { wanted, sinceMs, untilMs } = this.#parts.range;
    const given = { dir: wanted.dir === 'all' ? '' : wanted.dir, sinceMs: sinceMs || '', untilMs: untilMs || '' };
    const filters = Object.entries(given).filter(([, value]) => value !== '');
    const all = [['after', this.#after], ['limit', PAGE_ENTRIES], ...filters];
    return all.map(([name, value]) => `${name}=${value}`).join('&');
  }

  /** Returns when it is time for the next attempt. */
  async #recover(error: unknown, failures: number): Promise<void> {
    this.#signal.throwIfAborted();
    const { code, status } = problemFrom(error);
    if (code === 'LOG_LOST') {
      const { firstId } = await this.#parts.stored(this.#signal);
      if (firstId > this.#after + 1) {
        if (this.#after > 0) this.removed += firstId - 1 - this.#after;
        this.#after = firstId - 1;
      }
    }
    const isRefused = status >= 400 && status < 500 && status !== 429 && code !== 'LOG_LOST';
    if (isRefused || code === 'LOG_REPLACED' || failures > RETRIES_WITHOUT_PROGRESS) throw error;
    await pause(this.#parts.clock, backoffMs(failures - 1, FIRST_RETRY_MS, LONGEST_RETRY_MS), this.#signal);
    this.#signal.throwIfAborted();
  }

  async *#page(query: string): AsyncGenerator<{ readonly rows: readonly Row[]; readonly position: number }> {
    const silent = new AbortController();
    const { clock } = this.#parts;
    const wait = () => clock.timer(PATIENCE_MS, () => silent.abort());
    let timer = wait();
    try {
      const pieces = await this.#parts.open(`${query}&follow=false`, AbortSignal.any([this.#signal, silent.signal]));
      for await (const messages of messagesOf(pieces)) {
        // A file may take its time: only the box is waited for with a limit.
        timer.cancel();
        const rows: Row[] = [];
        let position = 0;
        for (const message of messages) {
          if (message.type === 'row') rows.push(message.row);
          else if (message.type === 'position') position = message.nextAfterId;
          else if (message.type === 'log') this.#isSame(message.logId);
          else if (message.type === 'end')
            throw new ProblemError({
              ...localProblem(text.log.notices.disconnected, message.message),
              code: message.code,
            });
        }
        yield { rows, position };
        timer = wait();
      }
    } finally {
      timer.cancel();
      silent.abort();
    }
  }

  #isSame(logId: string): void {
    if (this.#logId !== '' && this.#logId !== logId)
      throw new ProblemError({ ...localProblem(text.log.export.replaced, ''), code: 'LOG_REPLACED' });
    this.#logId = logId;
  }
}
