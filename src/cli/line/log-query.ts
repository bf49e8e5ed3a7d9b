/** Which entries of the log: the options of `log` and `log export`, and the query they make. */
import Long from 'long';
import { type Given, option } from '../command.ts';
import { usageFailure } from '../failure.ts';
import { parseUint64, parseWhen, wholeNumber } from '../output/numbers.ts';

/** Where a reader stands. */
export interface Position {
  readonly afterId: Long;
  /** Identity of the log; '' while unknown. */
  readonly logId: string;
}

export interface LogQuery extends Position {
  /** Numbers of serial.SerialLogEntry.Direction; empty: both. */
  readonly dirs: readonly number[];
  readonly sinceMs: number;
  readonly untilMs: number;
  /** Begin with the last so many entries; undefined: after `afterId`. */
  readonly last: number | undefined;
  readonly follow: boolean;
}

const usualLast = 50;
/** The service's own limit. */
const mostLast = 100_000;
const directions = { tx: 0, rx: 1 } as const;

const group = 'Which entries:';
export const rangeOptions = [
  option('--dir <direction>', 'only this direction', { group, choices: ['tx', 'rx'] }),
  option('--since <time>', 'from this time on: RFC 3339, or an age as 30s, 10m, 2h, 7d', { group }),
  option('--until <time>', 'up to before this time', { group }),
  option('--after <id>', 'only entries after this id (--ids and --json show ids)', { group, parse: parseUint64 }),
] as const;
export const beginOptions = [
  option('--last <n>', `begin with the last n (default ${usualLast}, unless a range is given)`, {
    group,
    parse: wholeNumber(0, mostLast),
  }),
  option('--from-start', 'begin with the oldest', { group }),
  option('-f, --follow', 'continue with new entries, until Ctrl-C; reconnects automatically', { group }),
  option('--resume <file>', 'begin where the last run with this file ended, and keep the place in it', { group }),
] as const;
export type RangeOptions = Given<typeof rangeOptions>;
export type BeginOptions = RangeOptions & Given<typeof beginOptions>;

export function rangeQuery(options: RangeOptions, nowMs: number): LogQuery {
  const { dir, since, until, after } = options;
  const sinceMs = since === undefined ? 0 : parseWhen(since, nowMs);
  const untilMs = until === undefined ? 0 : parseWhen(until, nowMs);
  if (untilMs !== 0 && sinceMs > untilMs) throw usageFailure('--since is after --until');
  const dirs = dir === undefined ? [] : [directions[dir]];
  return { afterId: after ?? Long.UZERO, logId: '', dirs, sinceMs, untilMs, last: undefined, follow: false };
}

/** `kept`: the position a --resume file holds. */
export function logQuery(options: BeginOptions, nowMs: number, kept: Position | undefined): LogQuery {
  const range = rangeQuery(options, nowMs);
  const { after, fromStart, last, resume, since, until } = options;
  const follow = options.follow === true;
  const beginnings = [after, fromStart, last, resume].filter((given) => given !== undefined);
  if (beginnings.length > 1) throw usageFailure('--after, --from-start, --last and --resume exclude each other');
  if (kept !== undefined) return { ...range, ...kept, follow };
  const ranged = [after, fromStart, resume, since, until].some((given) => given !== undefined);
  return { ...range, follow, last: last ?? (ranged ? undefined : usualLast) };
}
