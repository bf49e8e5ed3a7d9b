/** A search of the log as NDJSON: matches and progress as the line finds them, then how it ended. */
import type { Static } from '@sinclair/typebox';
import Long from 'long';
import type { Clock } from '../../../shared/base/clock.ts';
import { entryClocks } from '../../../shared/proto/line-status.ts';
import { lineside } from '../../../shared/proto/services.ts';
import { LINE_ANSWER_MS } from '../limits.ts';
import { invalid } from '../problem.ts';
import type { SearchQuery } from '../schemas/line.ts';
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
  const { ignoreCase, after = 0, sinceMs = 0, untilMs = 0, limit = 0 } = asked;
  return {
    ...(text !== undefined ? { text } : hex !== undefined ? { hex } : { regex: regex ?? '' }),
    ignoreCase: ignoreCase === 'true',
    afterId: Long.fromNumber(after, true),
    sinceMs: Long.fromNumber(sinceMs, true),
    untilMs: Long.fromNumber(untilMs, true),
    dirs: dir === undefined ? [] : [directions.indexOf(dir)],
    limit,
  };
}

/** Resolves when the line has begun to search, rejects if it refuses; a later failure is the last line of the stream. */
export async function searchLines({ line, stream, clock, request }: SearchParts): Promise<AsyncIterable<Buffer>> {
  const answers = line.searchLog(request, { signal: stream.signal })[Symbol.asyncIterator]();
  const late = Promise.withResolvers<never>();
  const timer = clock.timer(LINE_ANSWER_MS, () =>
    late.reject(unreachable(`no answer within ${LINE_ANSWER_MS / 1_000} s`)),
  );
  try {
    const first = await Promise.race([answers.next(), late.promise]);
    return linesOf(first, answers);
  } catch (error) {
    throw failureOf(error, undefined);
  } finally {
    timer.cancel();
  }
}

type Answers = AsyncIterator<lineside.v1.SearchLogResponse>;

async function* linesOf(
  first: IteratorResult<lineside.v1.SearchLogResponse>,
  answers: Answers,
): AsyncGenerator<Buffer> {
  try {
    for (let got = first; got.done !== true; got = await answers.next())
      for (const value of valuesOf(got.value)) yield jsonLine(value);
  } catch (error) {
    const { code, message } = failureOf(error, undefined);
    yield jsonLine({ type: 'end', code, message });
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
