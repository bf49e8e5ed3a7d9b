/** The log as messages of bounded size: runs of entries, what a search finds, a histogram. */

import { type Clock, endsWithin } from '../../shared/base/clock.ts';
import { lineside, serial } from '../../shared/proto/services.ts';
import type { LogEntry } from '../log/entry.ts';
import type { LogRun, ReadRequest } from '../log/log-api.ts';
import type { SearchPart } from '../log/log-search.ts';
import type { Histogram } from '../log/search/histogram-job.ts';
import type { SearchMatch } from '../log/search/search-job.ts';
import type { Log } from '../log/serial-log.ts';
import { clocks, encodeBatch, encodeEntry, type Piece, u64 } from './encode.ts';
import { BATCH_BYTES, BATCH_ENTRIES, PROGRESS_MS, SEARCH_STALLED_MS } from './limits.ts';
import type { Outgoing, Subscription } from './subscriptions.ts';

type Reading = Pick<Subscription, 'signal' | 'isShared'>;

/**
 * Sends encoded LogBatches of one reader; the subscription stands when this returns. The first carries the log's id; a
 * read that finds nothing and does not follow ends with one empty batch. `caughtUp`: of ReaderEvents.
 */
export function sendBatches(
  log: Log,
  request: ReadRequest,
  { signal, isShared }: Reading,
  out: Outgoing,
  caughtUp?: () => void,
): Promise<void> {
  const runs = log.read(request, signal, { stalled: () => out.endStalled(), ...(caughtUp && { caughtUp }) });
  let logId = log.logId;
  const encode = (piece: Piece, shared: boolean): Buffer => {
    const batch = encodeBatch(piece, logId, shared);
    logId = '';
    return batch;
  };
  const ofRun = (run: LogRun): Buffer[] =>
    (run.stored === undefined ? [...pieces(run, (id) => log.bootAt(id))] : [{ ...run, bootId: '' }]).map((piece) =>
      encode(piece, run.live && isShared()),
    );
  return sendRuns(runs, ofRun, out).then(() => {
    if (logId === '' || request.follow || signal.aborted) return undefined;
    const nextAfterId = typeof request.after === 'number' ? request.after : 0;
    return out.send(encode({ entries: [], gaps: [], nextAfterId, bootId: '' }, false));
  });
}

/** The messages of each run. While a client does not take them, its reader holds them alone: decoded entries would be ten times as large. */
async function sendRuns(runs: AsyncIterable<LogRun>, encode: (run: LogRun) => Buffer[], out: Outgoing): Promise<void> {
  const iterator = runs[Symbol.asyncIterator]();
  try {
    for (let all = await next(iterator, encode); all !== undefined; all = await next(iterator, encode)) {
      for (const message of all) {
        const full = out.send(message);
        if (full !== undefined) await full;
      }
    }
  } finally {
    await iterator.return?.();
  }
}

async function next<T>(runs: AsyncIterator<LogRun>, encode: (run: LogRun) => T[]): Promise<T[] | undefined> {
  const { done, value } = await runs.next();
  return done === true ? undefined : encode(value);
}

/** Sends entries as the contract has them. */
export function sendEntries(log: Log, request: ReadRequest, { signal, isShared }: Reading, out: Outgoing) {
  const runs = log.read(request, signal, { stalled: () => out.endStalled() });
  const encode = ({ entries, live }: LogRun): Buffer[] =>
    entries.map((entry) => encodeEntry(withClockNote(entry), live && isShared()));
  return sendRuns(runs, encode, out);
}

/** Cuts a run at the limits and between two boots; each gap goes with the piece whose entries it lies before or between. */
export function* pieces(run: LogRun, bootAt: (id: number) => string): Generator<Piece> {
  const { entries } = run;
  let start = 0;
  let gapsDone = 0;
  let bytes = 0;
  let bootId = entries[0] === undefined ? '' : bootAt(entries[0].id);
  for (let i = 0; i < entries.length; i++) {
    const entry = entries[i];
    if (entry === undefined) break;
    const full = i - start >= BATCH_ENTRIES || bytes + entry.data.length > BATCH_BYTES;
    const boot = bootAt(entry.id);
    const last = entries[i - 1];
    if ((full || boot !== bootId) && i > start && last !== undefined) {
      const through = run.gaps.filter(({ firstId }) => firstId < last.id).length;
      yield { entries: entries.slice(start, i), gaps: run.gaps.slice(gapsDone, through), nextAfterId: last.id, bootId };
      bootId = boot;
      gapsDone = through;
      start = i;
      bytes = 0;
    }
    bytes += entry.data.length;
  }
  yield { entries: entries.slice(start), gaps: run.gaps.slice(gapsDone), nextAfterId: run.nextAfterId, bootId };
}

const noted = new WeakMap<LogEntry, LogEntry>();

/** The same entry for each of many subscribers, so that it is encoded once. A note of the entry's own stays as it is. */
export function withClockNote(entry: LogEntry): LogEntry {
  if (entry.clock === undefined || entry.clock === 'known' || entry.note !== '') return entry;
  let same = noted.get(entry);
  if (same === undefined) {
    same = { ...entry, note: clockNote(entry) };
    noted.set(entry, same);
  }
  return same;
}

function clockNote({ clock, timestampMs, uncorrectedMs }: LogEntry): string {
  if (clock !== 'corrected' || uncorrectedMs === undefined) return 'clock not set';
  return `clock corrected by ${signedSpan(Number(timestampMs) - uncorrectedMs)}`;
}

const units: readonly (readonly [string, number])[] = [
  ['d', 86_400],
  ['h', 3_600],
  ['min', 60],
  ['s', 1],
];

/** "+3 d 2 h", "-5 s": the two largest units. */
export function signedSpan(ms: number): string {
  let rest = Math.round(Math.abs(ms) / 1_000);
  const counts = units.map(([unit, size]) => {
    const count = Math.floor(rest / size);
    rest -= count * size;
    return { count, text: `${count} ${unit}` };
  });
  const largest = counts.findIndex(({ count }) => count > 0);
  const shown = counts.slice(largest).slice(0, 2);
  const texts = shown.filter(({ count }, i) => i === 0 || count > 0).map(({ text }) => text);
  return `${ms < 0 ? '-' : '+'}${texts.join(' ')}`;
}

const { SearchEnd, SearchLogResponse } = lineside.v1;
const { Direction } = serial.SerialLogEntry;

const reasons: Readonly<Record<NonNullable<SearchPart['end']>['reason'], lineside.v1.SearchEnd.Reason>> = {
  complete: SearchEnd.Reason.COMPLETE,
  limit: SearchEnd.Reason.LIMIT,
  time: SearchEnd.Reason.TIME,
  failed: SearchEnd.Reason.FAILED,
};

/** `begun`: called once, when the search was not refused. */
export async function sendSearch(
  parts: AsyncIterable<SearchPart>,
  clock: Clock,
  out: Outgoing,
  begun: () => void,
): Promise<void> {
  let isBegun = false;
  let reportedMs = Number.NEGATIVE_INFINITY;
  for await (const part of parts) {
    if (!isBegun) begun();
    isBegun = true;
    const isDue = clock.monoMs() - reportedMs >= PROGRESS_MS;
    if (isDue) reportedMs = clock.monoMs();
    for (const message of messagesOf(part, isDue)) {
      const full = out.send(SearchLogResponse.encode(message).finish());
      if (full === undefined || (await endsWithin(clock, SEARCH_STALLED_MS, full))) continue;
      out.endStalled();
      return;
    }
  }
}

function* messagesOf(part: SearchPart, isDue: boolean): Generator<lineside.v1.SearchLogResponse.$Properties> {
  const { matches, entries, bytes, throughId, upTo, end } = part;
  const progress = { entries: u64(entries), bytes: u64(bytes), positionId: u64(throughId), throughId: u64(upTo) };
  if (matches.length > 0) yield { matches: { matches: matches.map(matchMessage) } };
  if (end !== undefined) {
    yield { end: { reason: reasons[end.reason], progress, resumeAfterId: u64(throughId), error: end.error } };
  } else if (isDue) {
    yield { progress };
  }
}

function matchMessage(match: SearchMatch): lineside.v1.SearchMatch.$Properties {
  const { entryId, offset, length, throughId, dir, timestampMs, clock } = match;
  const known = clock !== undefined && { clock: clocks[clock] };
  const ids = { entryId: u64(entryId), throughEntryId: u64(throughId) };
  return {
    ...ids,
    offset,
    length,
    dir: dir === 1 ? Direction.RX : Direction.TX,
    timestampMs: u64(timestampMs),
    ...known,
  };
}

export function histogramMessage(made: Histogram): lineside.v1.LogHistogram.$Properties {
  const { sinceMs, untilMs, buckets, isEstimate } = made;
  return {
    sinceMs: u64(sinceMs),
    untilMs: u64(untilMs),
    isEstimate,
    buckets: buckets.map((one) => ({
      txEntries: u64(one.txEntries),
      rxEntries: u64(one.rxEntries),
      txBytes: u64(one.txBytes),
      rxBytes: u64(one.rxBytes),
    })),
  };
}
