/** A search of the log as messages, and a histogram. */
import { type Clock, endsWithin } from '../../shared/base/clock.ts';
import { lineside, serial } from '../../shared/proto/services.ts';
import type { SearchPart } from '../log/log-search.ts';
import type { Histogram } from '../log/search/histogram-job.ts';
import type { SearchMatch } from '../log/search/search-job.ts';
import { clocks, u64 } from './encode.ts';
import { PROGRESS_MS, SEARCH_STALLED_MS } from './limits.ts';
import type { Outgoing } from './subscriptions.ts';

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
