/** log --grep and the like: the service searches its stored log, and the entries of each match are read and shown. */
import Long from 'long';
import type { lineside } from '../../shared/proto/services.ts';
import { type Given, option } from '../command.ts';
import type { Service } from '../connection/service.ts';
import { CliFailure, usageFailure } from '../failure.ts';
import type { LogQuery } from './reader.ts';

const group = 'Search:';
export const searchOptions = [
  option('--grep <text>', 'only entries with this text, which may begin in one and end in a later one', { group }),
  option('--regex <expression>', 'only entries with a match of a regular expression of RE2, whose lines end with LF', {
    group,
  }),
  option('--hex-pattern <bytes>', 'only entries with these bytes; ?? is any byte: "01 03 ?? 0a"', { group }),
  option('-i, --ignore-case', 'with --grep or --regex: letters A to Z match in both cases', { group }),
] as const;
type SearchOptions = Given<typeof searchOptions>;
type Pattern = Pick<lineside.v1.SearchLogRequest.$Properties, 'text' | 'hex' | 'regex' | 'ignoreCase'>;

/** undefined: no search is asked for. */
export function searchPattern(options: SearchOptions): Pattern | undefined {
  const { grep, regex, hexPattern, ignoreCase = false } = options;
  const given = [grep, regex, hexPattern].filter((one) => one !== undefined);
  if (given.length > 1) throw usageFailure('--grep, --regex and --hex-pattern exclude each other');
  if (ignoreCase && (given.length === 0 || hexPattern !== undefined))
    throw usageFailure('--ignore-case needs --grep or --regex');
  if (given.length === 0) return undefined;
  return { text: grep ?? null, regex: regex ?? null, hex: hexPattern ?? null, ignoreCase };
}

/** The service's own limit of matches to a search; it is asked to go on. */
const PAGE_MATCHES = 1_000;
/** Matches this near to each other are read at once. */
const NEAR_ENTRIES = 100;
/** Of entries that were shown and may be in a later match, too. */
const MAX_REMEMBERED = 10_000;

/** The entries of all matches, each once, in the order in which the matches end. Failures come out as CliFailure. */
export async function* matchingEntries(
  service: Service,
  query: LogQuery,
  pattern: Pattern,
  stop: AbortSignal,
): AsyncGenerator<lineside.v1.LogEntry[]> {
  const shown = new Set<number>();
  const { logId, dirs, sinceMs, untilMs } = query;
  const range = {
    logId,
    dirs: [...dirs],
    sinceMs: Long.fromNumber(sinceMs, true),
    untilMs: Long.fromNumber(untilMs, true),
  };
  let afterId: Long | undefined = query.afterId;
  try {
    const { line } = await service.channel();
    while (afterId !== undefined) {
      let end: lineside.v1.SearchEnd | undefined;
      for await (const answer of line.searchLog(
        { ...range, ...pattern, afterId, limit: PAGE_MATCHES },
        { signal: stop },
      )) {
        end = answer.end ?? undefined;
        for (const near of nearMatches(answer.matches?.matches ?? [])) {
          const entries = (await entriesOf(line, near, range, stop)).filter(({ id }) => !shown.has(id.toNumber()));
          if (shown.size > MAX_REMEMBERED) shown.clear();
          for (const { id } of entries) shown.add(id.toNumber());
          if (entries.length > 0) yield entries;
        }
      }
      afterId = resumesAfter(end, afterId);
    }
  } catch (error) {
    stop.throwIfAborted();
    throw await service.failure(error);
  }
}

/** undefined: all was searched. */
function resumesAfter(end: lineside.v1.SearchEnd | undefined, afterId: Long): Long | undefined {
  if (end === undefined) throw new CliFailure('refused', 'UNAVAILABLE', 'the search ended before its end');
  if (end.reason === REASON_COMPLETE) return undefined;
  if (end.reason === REASON_FAILED) throw new CliFailure('refused', 'UNAVAILABLE', end.error);
  // Its limit of matches or of time; a log that is behind for so long may not have moved.
  if (end.resumeAfterId.greaterThan(afterId)) return end.resumeAfterId;
  throw new CliFailure('refused', 'UNAVAILABLE', 'the log is too busy to be searched now', {
    next: 'Try again later.',
  });
}

const REASON_COMPLETE = 1;
const REASON_FAILED = 4;

function* nearMatches(matches: readonly lineside.v1.SearchMatch[]): Generator<lineside.v1.SearchMatch[]> {
  let near: lineside.v1.SearchMatch[] = [];
  for (const match of matches) {
    const last = near.at(-1);
    if (last !== undefined && match.throughEntryId.subtract(last.throughEntryId).greaterThan(NEAR_ENTRIES)) {
      yield near;
      near = [];
    }
    near.push(match);
  }
  if (near.length > 0) yield near;
}

type Line = Awaited<ReturnType<Service['channel']>>['line'];

/** Of a few matches, in the order of their ids. */
async function entriesOf(
  line: Line,
  matches: readonly lineside.v1.SearchMatch[],
  range: { readonly logId: string; readonly dirs: number[] },
  signal: AbortSignal,
): Promise<lineside.v1.LogEntry[]> {
  const first = matches.map(({ entryId }) => entryId).reduce((a, b) => (a.lessThan(b) ? a : b));
  const last = matches.map(({ throughEntryId }) => throughEntryId).reduce((a, b) => (a.greaterThan(b) ? a : b));
  const single = new Set(
    matches.filter((one) => one.entryId.equals(one.throughEntryId)).map(({ entryId }) => entryId.toNumber()),
  );
  const spans = matches.filter((one) => !one.entryId.equals(one.throughEntryId));
  const isFound = ({ id, entry: { dir } }: lineside.v1.LogEntry): boolean =>
    single.has(id.toNumber()) ||
    spans.some(
      (one) => one.dir === dir && one.entryId.lessThanOrEqual(id) && one.throughEntryId.greaterThanOrEqual(id),
    );
  const found: lineside.v1.LogEntry[] = [];
  const request = { logId: range.logId, dirs: range.dirs, afterId: first.subtract(1) };
  for await (const { entries } of line.readLog(request, { signal })) {
    found.push(...entries.filter(isFound));
    if (entries.at(-1)?.id.greaterThanOrEqual(last)) break;
  }
  return found;
}
