/** ReadLogRequest, checked and in the log's own terms. Pure. */
import { LinesideError } from '../../shared/base/errors.ts';
import type { lineside } from '../../shared/proto/services.ts';
import { type Direction, RX, TX } from '../log/entry.ts';
import type { ReadRequest } from '../log/face.ts';
import { fromU64 } from './encode.ts';
import { MAX_LAST_ENTRIES } from './limits.ts';

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
  if (request.last) checkLast(request, limit);
  if (request.storedOnly) checkStoredOnly(request);
  return {
    after: request.liveOnly ? 'live' : request.last ? 'last' : clamp(request.afterId),
    // Entries that appear from now on can only be followed.
    follow: request.follow || request.liveOnly,
    dir: direction(request.dirs),
    sinceMs,
    untilMs,
    limit,
    ...(request.storedOnly && { storedOnly: true }),
  };
}

function checkStoredOnly({ follow, liveOnly, last }: lineside.v1.ReadLogRequest): void {
  if (follow || liveOnly || last) throw invalid('stored_only: cannot be combined with follow, live_only or last');
}

function checkLast(request: lineside.v1.ReadLogRequest, limit: number | undefined): void {
  if (request.liveOnly) throw invalid('last: cannot be combined with live_only');
  if (limit === undefined || limit > MAX_LAST_ENTRIES) {
    throw invalid(`limit: with last it must be 1 to ${MAX_LAST_ENTRIES}`);
  }
}

function direction(dirs: readonly number[]): Direction | undefined {
  const wanted = new Set<Direction>();
  for (const dir of dirs) {
    if (dir !== TX && dir !== RX) throw invalid(`dirs: ${dir} is neither TX (0) nor RX (1)`);
    wanted.add(dir);
  }
  return wanted.size === 1 ? [...wanted][0] : undefined;
}

/** Ids stay below 2^53: whatever is above is beyond every entry. */
function clamp(value: Parameters<typeof fromU64>[0]): number {
  const number = fromU64(value);
  return typeof number === 'number' ? number : Number.MAX_SAFE_INTEGER;
}

function invalid(message: string): LinesideError {
  return new LinesideError('INVALID_ARGUMENT', message);
}
