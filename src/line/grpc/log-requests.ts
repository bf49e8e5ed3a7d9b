/** Requests of ReadLog, SearchLog, GetLogHistogram and LogRaw, validated and in the log's own terms. Pure. */
import { LinesideError } from '../../shared/base/errors.ts';
import type { lineside, serial } from '../../shared/proto/services.ts';
import { type Direction, type NewEntry, RX, TX } from '../log/entry.ts';
import type { ReadRequest } from '../log/log-api.ts';
import type { HistogramRequest, SearchRequest } from '../log/log-search.ts';
import { fromU64 } from './encode.ts';
import {
  MAX_BUCKETS,
  MAX_LAST_ENTRIES,
  MAX_MATCHES,
  MAX_NOTE_BYTES,
  MAX_RAW_DATA_BYTES,
  USUAL_BUCKETS,
} from './limits.ts';

export function readRequest(request: lineside.v1.ReadLogRequest, logId: string): ReadRequest {
  refuseAnotherLog(request, logId);
  const { sinceMs, untilMs } = span(request);
  const limit = request.limit.isZero() ? undefined : clamp(request.limit);
  refuseContradictions(request, limit);
  return {
    after: request.liveOnly ? 'live' : request.last ? 'last' : clamp(request.afterId),
    // Entries that appear from now on can only be followed.
    follow: request.follow || request.liveOnly,
    dir: direction(request.dirs),
    sinceMs,
    untilMs,
    limit,
    ...(request.storedOnly && { storedOnly: true }),
    ...(request.asStored && { asStored: true }),
  };
}

function refuseAnotherLog({ logId: wanted }: { readonly logId: string }, logId: string): void {
  if (wanted === '' || wanted === logId) return;
  throw new LinesideError('LOG_REPLACED', `this is log ${logId}, not ${wanted}`, {
    hint: 'the log was replaced: read it from the start',
  });
}

/** undefined: no bound. */
function span({ sinceMs, untilMs }: Pick<lineside.v1.ReadLogRequest, 'sinceMs' | 'untilMs'>) {
  if (!sinceMs.isZero() && !untilMs.isZero() && sinceMs.greaterThan(untilMs)) {
    throw invalid('since_ms: is after until_ms');
  }
  return {
    sinceMs: sinceMs.isZero() ? undefined : fromU64(sinceMs),
    untilMs: untilMs.isZero() ? undefined : fromU64(untilMs),
  };
}

/** The pattern itself is checked where it is searched for. */
export function searchRequest(request: lineside.v1.SearchLogRequest, logId: string): SearchRequest {
  refuseAnotherLog(request, logId);
  const { pattern: kind, limit, ignoreCase } = request;
  if (kind === undefined) throw invalid('pattern: text, hex or regex is missing');
  if (limit > MAX_MATCHES) throw invalid(`limit: ${limit} is above ${MAX_MATCHES}`);
  return {
    pattern: { kind, value: request[kind] ?? '', ignoreCase },
    after: clamp(request.afterId),
    dir: direction(request.dirs),
    ...span(request),
    limit: limit || MAX_MATCHES,
  };
}

export function histogramRequest(request: lineside.v1.LogHistogramRequest): HistogramRequest {
  const { sinceMs, untilMs } = span(request);
  const { buckets } = request;
  if (buckets > MAX_BUCKETS) throw invalid(`buckets: ${buckets} is above ${MAX_BUCKETS}`);
  if (untilMs !== undefined && sinceMs === untilMs) throw invalid('since_ms: is not before until_ms');
  return {
    sinceMs: sinceMs === undefined ? undefined : Number(sinceMs),
    untilMs: untilMs === undefined ? undefined : Number(untilMs),
    buckets: buckets || USUAL_BUCKETS,
  };
}

/** `nowMs`: the time of an entry without one. */
export function newEntry({ dir, timestamp, rawData, note }: serial.SerialLogEntry, nowMs: number): NewEntry {
  const direction = directionOf('dir', dir);
  if (rawData.length > MAX_RAW_DATA_BYTES) {
    throw invalid(`raw_data: has ${rawData.length} bytes, more than ${MAX_RAW_DATA_BYTES}`);
  }
  const noteBytes = Buffer.byteLength(note);
  if (noteBytes > MAX_NOTE_BYTES) throw invalid(`note: has ${noteBytes} bytes, more than ${MAX_NOTE_BYTES}`);
  const entry: Omit<NewEntry, 'timestampMs'> = { dir: direction, data: new Uint8Array(rawData), note };
  if (timestamp.isZero()) return { ...entry, timestampMs: nowMs };
  return { ...entry, timestampMs: fromU64(timestamp), timeGiven: true };
}

function refuseContradictions(request: lineside.v1.ReadLogRequest, limit: number | undefined): void {
  const { last, storedOnly, follow, liveOnly, asStored, dirs, sinceMs, untilMs } = request;
  if (last && liveOnly) throw invalid('last: cannot be combined with live_only');
  if (last && (limit === undefined || limit > MAX_LAST_ENTRIES)) {
    throw invalid(`limit: with last it must be 1 to ${MAX_LAST_ENTRIES}`);
  }
  if (storedOnly && (follow || liveOnly || last)) {
    throw invalid('stored_only: cannot be combined with follow, live_only or last');
  }
  const isFiltered = dirs.length > 0 || limit !== undefined || !sinceMs.isZero() || !untilMs.isZero();
  if (asStored && (!storedOnly || isFiltered)) {
    throw invalid('as_stored: must be combined with stored_only, and cannot be with dirs, since_ms, until_ms or limit');
  }
}

function direction(dirs: readonly number[]): Direction | undefined {
  const wanted = new Set(dirs.map((dir) => directionOf('dirs', dir)));
  return wanted.size === 1 ? [...wanted][0] : undefined;
}

function directionOf(field: string, value: number): Direction {
  if (value !== TX && value !== RX) throw invalid(`${field}: ${value} is neither TX (0) nor RX (1)`);
  return value;
}

/** Ids stay below 2^53: whatever is above is beyond every entry. */
function clamp(value: Parameters<typeof fromU64>[0]): number {
  const number = fromU64(value);
  return typeof number === 'number' ? number : Number.MAX_SAFE_INTEGER;
}

function invalid(message: string): LinesideError {
  return new LinesideError('INVALID_ARGUMENT', message);
}
