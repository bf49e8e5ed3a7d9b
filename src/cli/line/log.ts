/** log: entries for people or as JSON lines, once or followed; and which entries, for `log export` too. */
import { readFile, rename, writeFile } from 'node:fs/promises';
import Long from 'long';
import type { Clock } from '../../shared/base/clock.ts';
import { systemCode } from '../../shared/base/errors.ts';
import { type Entry, type Given, option } from '../command.ts';
import { CliFailure, exitStatus, usageFailure } from '../failure.ts';
import { fileFailure } from '../input.ts';
import { type DataView, EntryPrinter, jsonLines, logItems, type Shown } from '../output/entries.ts';
import { exact, parseUint64, parseWhen, wholeNumber } from '../output/numbers.ts';
import type { Call } from '../shell.ts';
import { matchingEntries, searchOptions, searchPattern } from './log-search.ts';
import { announcer, type LogQuery, LogReader, type Position } from './reader.ts';

const usualLast = 50;
/** The service's own limit. */
const mostLast = 100_000;
const directions = { tx: 0, rx: 1 } as const;

const which = 'Which entries:';
export const rangeOptions = [
  option('--dir <direction>', 'only this direction', { group: which, choices: ['tx', 'rx'] }),
  option('--since <time>', 'from this time on: RFC 3339, or an age as 30s, 10m, 2h, 7d', { group: which }),
  option('--until <time>', 'up to before this time', { group: which }),
  option('--after <id>', 'only entries after this id (--ids and --json show ids)', {
    group: which,
    parse: parseUint64,
  }),
] as const;
const beginOptions = [
  option('--last <n>', `begin with the last n (default ${usualLast}, unless a range is given)`, {
    group: which,
    parse: wholeNumber(0, mostLast),
  }),
  option('--from-start', 'begin with the oldest', { group: which }),
  option('-f, --follow', 'continue with new entries, until Ctrl-C; reconnects automatically', { group: which }),
  option('--resume <file>', 'begin where the last run with this file ended, and keep the place in it', {
    group: which,
  }),
] as const;
type RangeOptions = Given<typeof rangeOptions>;
type BeginOptions = RangeOptions & Given<typeof beginOptions>;

const group = 'How:';
const options = [
  ...rangeOptions,
  ...beginOptions,
  ...searchOptions,
  option('--hex', 'hex only', { group }),
  option('--text', 'text only, controls as escapes', { group }),
  option('--both', 'hex and text (default)', { group }),
  option('--ids', 'show the ids', { group }),
  option('--base64', 'with --json: data as base64 instead of hex', { group }),
] as const;
type LogOptions = Given<typeof options>;

export const logCommands: readonly Entry[] = [
  {
    command: 'log',
    help: 'show the log of the line; `log export` writes it to files',
    options,
    notes: `A search (--grep, --regex, --hex-pattern) reads the stored log on the box, one at a time; status 5: no match. With --last, the filters (--after too) choose among the last n entries.
After a time: "?" the clock was not set yet, "~" it was not and the time was corrected when it was (with --json: "clock",
"uncorrectedTimestampMs"). Order is by id, whatever the times say.`,
    examples: [
      'lineside log --follow --text',
      'lineside log --since 10m --dir rx',
      'lineside log --follow --from-start --json | jq -r .hex',
      'lineside log --since 2h --grep ERROR -i',
      'lineside log --json --resume /var/tmp/lineside.position',
    ],
    what: 'read the log',
    endsOnCtrlC: ({ follow }: LogOptions) => follow === true,
    colours: true,
    pages: ({ follow }: LogOptions) => follow !== true,
    run: showLog,
  },
];

export function rangeQuery(options: RangeOptions, nowMs: number): LogQuery {
  const { dir, since, until, after } = options;
  const sinceMs = since === undefined ? 0 : parseWhen(since, nowMs);
  const untilMs = until === undefined ? 0 : parseWhen(until, nowMs);
  if (untilMs !== 0 && sinceMs > untilMs) throw usageFailure('--since is after --until');
  const dirs = dir === undefined ? [] : [directions[dir]];
  return { afterId: after ?? Long.UZERO, logId: '', dirs, sinceMs, untilMs, last: undefined, follow: false };
}

/** `kept`: the position a --resume file holds. */
function logQuery(options: BeginOptions, nowMs: number, kept: Position | undefined): LogQuery {
  const range = rangeQuery(options, nowMs);
  const { after, fromStart, last, resume, since, until } = options;
  const follow = options.follow === true;
  const beginnings = [after ?? last, fromStart, resume].filter((given) => given !== undefined);
  if (beginnings.length > 1) throw usageFailure('--from-start, --resume, and --after or --last exclude each other');
  if (kept !== undefined) return { ...range, ...kept, follow };
  const ranged = [after, fromStart, resume, since, until].some((given) => given !== undefined);
  return { ...range, follow, last: last ?? (ranged ? undefined : usualLast) };
}

/** Between two writes of a --resume file: what is shown again after a kill is at most this much. */
const savePositionMs = 2000;

async function showLog(call: Call<LogOptions>): Promise<number> {
  const { options, io } = call;
  const render = renderer(call);
  const pattern = searchPattern(options);
  if (pattern !== undefined) return search(call, pattern, render);
  const kept = options.resume === undefined ? undefined : await loadPosition(options.resume);
  const service = await call.service();
  const query = await fromNow(call, logQuery(options, io.clock.wallMs(), kept));
  const outcome = { lost: false };
  const retries = query.follow ? Number.POSITIVE_INFINITY : 0;
  const reader = new LogReader(service, query, {
    clock: io.clock,
    stop: call.stop,
    retries,
    events: announcer(call, outcome),
  });
  const keeper = positionKeeper(options.resume, reader, io.clock);
  try {
    for await (const batch of reader.batches()) {
      await call.out.write(render(batch));
      await keeper.tick();
    }
  } catch (error) {
    if (!call.stop.aborted || !outcome.lost) throw error;
  } finally {
    await keeper.save();
  }
  return outcome.lost ? exitStatus.lost : exitStatus.ok;
}

/** Of the whole stored log, unless a range is given. */
async function search(
  call: Call<LogOptions>,
  pattern: NonNullable<ReturnType<typeof searchPattern>>,
  render: ReturnType<typeof renderer>,
): Promise<number> {
  const { options, io, out, stop } = call;
  const { follow, fromStart, last, resume } = options;
  if ([follow, fromStart, last, resume].some((given) => given !== undefined))
    throw usageFailure('a search excludes --follow, --from-start, --last and --resume');
  const query = rangeQuery(options, io.clock.wallMs());
  let isFound = false;
  for await (const entries of matchingEntries(await call.service(), query, pattern, stop)) {
    isFound = true;
    await out.write(render({ entries, gaps: [] }));
  }
  return isFound ? exitStatus.ok : exitStatus.nothing;
}

/** Where the reader stands, in the file: now and then, and at the end. */
function positionKeeper(path: string | undefined, reader: LogReader, clock: Clock) {
  let saved = reader.position;
  let savedAt = 0;
  const save = async (): Promise<void> => {
    const { position } = reader;
    if (path === undefined || position === saved || position.logId === '') return;
    await savePosition(path, position);
    saved = position;
    savedAt = clock.monoMs();
  };
  const tick = async (): Promise<void> => {
    if (clock.monoMs() - savedAt >= savePositionMs) await save();
  };
  return { save, tick };
}

/** `--last 0` begins at the head: asked for by id, so that nothing is missed over a reconnection. */
async function fromNow(call: Call<LogOptions>, query: LogQuery): Promise<LogQuery> {
  if (query.last !== 0) return query;
  const { log } = await call.line(({ line }, options) => line.getStatus({}, options));
  return { ...query, last: undefined, afterId: log?.headId ?? Long.UZERO, logId: log?.logId ?? '' };
}

function renderer(call: Call<LogOptions>): (batch: Shown) => string {
  const { options, out } = call;
  const views = (['hex', 'text', 'both'] as const).filter((view) => options[view] === true);
  if (views.length > 1) throw usageFailure('--hex, --text and --both exclude each other');
  if (call.json) return (batch) => jsonLines(batch, options.base64 === true ? 'base64' : 'hex');
  const view: DataView = views[0] ?? 'both';
  const printer = new EntryPrinter({ view, width: out.width, colour: call.colour, ids: options.ids === true });
  return (batch) => {
    let text = '';
    for (const item of logItems(batch)) text += printer.item(item);
    return text;
  };
}

// Where a reader of the log stands, kept in a small file between runs (`log --resume FILE`).

/** undefined: no such file yet. */
async function loadPosition(path: string): Promise<Position | undefined> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined;
    throw fileFailure('read', path, error);
  }
  return parsePosition(text, path);
}

export function parsePosition(text: string, path: string): Position {
  try {
    const value: unknown = JSON.parse(text);
    if (
      typeof value === 'object' &&
      value !== null &&
      'afterId' in value &&
      'logId' in value &&
      typeof value.logId === 'string'
    ) {
      return { afterId: parseUint64(String(value.afterId)), logId: value.logId };
    }
  } catch {
    // Said below, as for JSON of another shape.
  }
  const details = { what: `cannot use ${path}`, next: 'Name another file, or remove it to begin again.' };
  throw new CliFailure('refused', 'BAD_POSITION', 'it holds no position in a log', details);
}

/** In one step: a run that is killed leaves the place of before or after, and never half of one. */
async function savePosition(path: string, { afterId, logId }: Position): Promise<void> {
  const temporary = `${path}.new`;
  try {
    await writeFile(temporary, `${JSON.stringify({ afterId: exact(afterId), logId })}\n`);
    await rename(temporary, path);
  } catch (error) {
    throw fileFailure('write', path, error);
  }
}
