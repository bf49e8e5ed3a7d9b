/** Requests of ReadLog and LogRaw, validated and in the log's own terms. Pure. */
import { LinesideError } from '../../shared/base/errors.ts';
import type { lineside, serial } from '../../shared/proto/services.ts';
import { type Direction, type NewEntry, RX, TX } from '../log/entry.ts';
import type { ReadRequest } from '../log/log-api.ts';
import { fromU64 } from './encode.ts';
import { MAX_LAST_ENTRIES, MAX_NOTE_BYTES, MAX_RAW_DATA_BYTES } from './limits.ts';

export function readRequest(request: lineside.v1.ReadLogRequest, logId: string): ReadRequest {
  if (request.logId !== '' && request.logId !== logId) {
    throw new LinesideError('LOG_REPLACED', `this is log ${logId}, not ${request.logId}`, {
      hint: 'the log was replaced: read it from the start',
    });
  }
  const sinceMs = request.sinceMs.isZero() ? undefined : fromU64(request.sinceMs);
  const untilMs = request.untilMs.isZero() ? undefined : fromU64(request.untilMs);
  if (sinceMs !== undefined && untilMs !== undefined && request.sinceMs.greaterThan(request.untilMs)) {
    throw invalid('since_ms: is after until_ms');
  }
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
