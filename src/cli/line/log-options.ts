/** The options of `log` and `log export`: which entries. */
import type { Command } from 'commander';
import Long from 'long';
import { usageFailure } from '../failure.ts';
import { parseUint64, parseWhen, wholeNumber } from '../output/numbers.ts';
import type { LogQuery, Position } from './reader.ts';

export interface RangeOptions {
  readonly dir?: 'tx' | 'rx';
  readonly since?: string;
  readonly until?: string;
  readonly after?: Long;
}

export interface LogOptions extends RangeOptions {
  readonly follow?: boolean;
  readonly fromStart?: boolean;
  readonly last?: number;
  readonly hex?: boolean;
  readonly text?: boolean;
  readonly both?: boolean;
  readonly ids?: boolean;
  readonly base64?: boolean;
  /** A file that keeps the position. */
  readonly resume?: string;
}

const usualLast = 50;
/** The service's own limit. */
const mostLast = 100_000;
const directions = { tx: 0, rx: 1 } as const;

export function withRange(command: Command): Command {
  return command
    .optionsGroup('Which entries:')
    .addOption(command.createOption('--dir <direction>', 'only this direction').choices(['tx', 'rx']))
    .option('--since <time>', 'from this time on: RFC 3339, or an age as 30s, 10m, 2h, 7d')
    .option('--until <time>', 'up to before this time')
    .option('--after <id>', 'only entries after this id (--ids and --json show ids)', parseUint64);
}

export function withLast(command: Command): Command {
  return command
    .option(
      '--last <n>',
      `begin with the last n (default ${usualLast}, unless a range is given)`,
      wholeNumber(0, mostLast),
    )
    .option('--from-start', 'begin with the oldest')
    .option('-f, --follow', 'go on with what comes, until Ctrl-C; reconnects by itself')
    .option('--resume <file>', 'begin where the last run with this file ended, and keep the place in it');
}

export function rangeQuery(options: RangeOptions, nowMs: number): LogQuery {
  const { dir, since, until, after } = options;
  const sinceMs = since === undefined ? 0 : parseWhen(since, nowMs);
  const untilMs = until === undefined ? 0 : parseWhen(until, nowMs);
  if (untilMs !== 0 && sinceMs > untilMs) throw usageFailure('--since is after --until');
  const dirs = dir === undefined ? [] : [directions[dir]];
  return { afterId: after ?? Long.UZERO, logId: '', dirs, sinceMs, untilMs, last: undefined, follow: false };
}

/** `kept`: the position a --resume file holds. */
export function logQuery(options: LogOptions, nowMs: number, kept: Position | undefined): LogQuery {
  const range = rangeQuery(options, nowMs);
  const { after, fromStart, last, resume, since, until } = options;
  const follow = options.follow === true;
  const beginnings = [after, fromStart, last, resume].filter((given) => given !== undefined);
  if (beginnings.length > 1) throw usageFailure('--after, --from-start, --last and --resume exclude each other');
  if (kept !== undefined) return { ...range, ...kept, follow };
  const ranged = [after, fromStart, resume, since, until].some((given) => given !== undefined);
  return { ...range, follow, last: last ?? (ranged ? undefined : usualLast) };
}
