/** A search of the log as NDJSON: matches and progress as the line finds them, then how it ended. */
import type { Static } from '@sinclair/typebox';
import Long from 'long';
import type { Clock } from '../../../shared/base/clock.ts';
import { LinesideError } from '../../../shared/base/errors.ts';
import { entryClocks } from '../../../shared/proto/line-status.ts';
import { lineside } from '../../../shared/proto/services.ts';
import { LINE_ANSWER_MS } from '../limits.ts';
import { invalid } from '../problem.ts';
import type { HistogramQuery, SearchQuery } from '../schemas/line.ts';
import { failureOf, type LineCalls, unreachable } from './line-calls.ts';
import { directions, line as jsonLine, type LogStream } from './line-log.ts';

interface SearchParts {
  readonly line: LineCalls;
  readonly stream: LogStream;
  readonly clock: Clock;
  readonly request: lineside.v1.SearchLogRequest.$Properties;
}

const reasons: Readonly<Record<number, string>> = {
  [lineside.v1.SearchEnd.Reason.COMPLETE]: 'complete',
  [lineside.v1.SearchEnd.Reason.LIMIT]: 'limit',
  [lineside.v1.SearchEnd.Reason.TIME]: 'time',
};

export function searchRequest({ text, hex, regex, dir, ...asked }: Static<typeof SearchQuery>) {
  const given = [text, hex, regex].filter((one) => one !== undefined).length;
  if (given !== 1) throw invalid('text, hex and regex: send exactly one of them');
  const { ignoreCase, after = 0, sinceMs = 0, untilMs = 0, limit = 0, logId } = asked;
  return {
    ...(text !== undefined ? { text } : hex !== undefined ? { hex } : { regex: regex ?? '' }),
    ignoreCase: ignoreCase === 'true',
    afterId: Long.fromNumber(after, true),
    sinceMs: Long.fromNumber(sinceMs, true),
    untilMs: Long.fromNumber(untilMs, true),
    dirs: dir === undefined ? [] : [directions.indexOf(dir)],
    limit,
    ...(logId !== undefined && { logId }),
  };
}

export function histogramRequest({ sinceMs = 0, untilMs = 0, buckets = 0 }: Static<typeof HistogramQuery>) {
  return { sinceMs: Long.fromNumber(sinceMs, true), untilMs: Long.fromNumber(untilMs, true), buckets };
}

/** The line ends a search after 60 s, in which it may wait in silence for entries that go to the card; LINE_ANSWER_MS on top. */
const SEARCH_SILENT_MS = 60_000 + LINE_ANSWER_MS;

/** Resolves when the line has begun to search, rejects if it refuses; a later failure is the last line of the stream. */
export async function searchLines({ line, stream, clock, request }: SearchParts): Promise<AsyncIterable<Buffer>> {
  const { signal } = stream;
  const { log } = await line.status(signal);
  // A cursor is of the log that it comes from.
  const logId = request.logId ?? log.logId;
  const answers = line.searchLog({ ...request, logId }, { signal })[Symbol.asyncIterator]();
  const next = async (limitMs: number): Promise<IteratorResult<lineside.v1.SearchLogResponse>> => {
    const late = Promise.withResolvers<never>();
    const timer = clock.timer(limitMs, () => late.reject(unreachable(`no answer within ${limitMs / 1_000} s`)));
    try {
      return await Promise.race([answers.next(), late.promise]);
    } catch (error) {
      throw failureOf(error, undefined);
    } finally {
      timer.cancel();
    }
  };
  const first = await next(LINE_ANSWER_MS);
  return linesOf({ type: 'log', logId }, first, () => next(SEARCH_SILENT_MS), stream);
}

async function* linesOf(
  head: object,
  first: IteratorResult<lineside.v1.SearchLogResponse>,
  next: () => Promise<IteratorResult<lineside.v1.SearchLogResponse>>,
  stream: LogStream,
): AsyncGenerator<Buffer> {
  try {
    yield jsonLine(head);
    for (let got = first; got.done !== true; got = await next())
      for (const value of valuesOf(got.value)) yield jsonLine(value);
  } catch (error) {
    const { reason } = stream.signal;
    const { code, message } = reason instanceof LinesideError ? reason : failureOf(error, undefined);
    yield jsonLine({ type: 'end', code, message });
    // What the line still searches for nobody.
    stream.close();
  }
}

function* valuesOf({ matches, end, progress: now }: lineside.v1.SearchLogResponse): Generator<object> {
  const progress = now ?? end?.progress;
  for (const match of matches?.matches ?? [])
    yield {
      type: 'match',
      entryId: match.entryId.toNumber(),
      offset: match.offset,
      length: match.length,
      throughEntryId: match.throughEntryId.toNumber(),
      dir: directions[match.dir] ?? 'rx',
      timestampMs: match.timestampMs.toNumber(),
      clock: entryClocks[match.clock] ?? 'unknown',
    };
  if (progress != null)
    yield {
      type: 'progress',
      entries: progress.entries.toNumber(),
      bytes: progress.bytes.toNumber(),
      positionId: progress.positionId.toNumber(),
      throughId: progress.throughId.toNumber(),
    };
  if (end == null) return;
  const reason = reasons[end.reason];
  if (reason === undefined) yield { type: 'end', code: 'NOT_READY', message: end.error };
  else yield { type: 'done', reason, resumeAfterId: end.resumeAfterId.toNumber() };
}
