/** log: entries for people or as JSON lines, once or followed. */

import { readFile, rename, writeFile } from 'node:fs/promises';
import type { Command } from 'commander';
import Long from 'long';
import { systemCode } from '../../shared/base/errors.ts';
import type { lineside } from '../../shared/proto/services.ts';
import { fileFailure } from '../connection/secrets.ts';
import type { Service } from '../connection/service.ts';
import { CliFailure, exitStatus, usageFailure } from '../failure.ts';
import { type DataView, EntryPrinter, logItems } from '../output/entries.ts';
import { jsonLines } from '../output/json-lines.ts';
import { exact, parseUint64, systemZone } from '../output/numbers.ts';
import type { Call, Shell } from '../shell.ts';
import { announcer } from './announcer.ts';
import { addExport } from './export.ts';
import { type LogOptions, logQuery, withLast, withRange } from './log-options.ts';
import { type LogQuery, LogReader, type Position } from './reader.ts';

export function addLog(program: Command, shell: Shell): void {
  const command = program
    .command('log')
    .enablePositionalOptions()
    .description('show the log of the line; `log export` writes it to files');
  withLast(withRange(command))
    .optionsGroup('How:')
    .option('--hex', 'hex only')
    .option('--text', 'text only, controls as escapes')
    .option('--both', 'hex and text (default)')
    .option('--ids', 'show the ids')
    .option('--base64', 'with --json: data as base64 instead of hex')
    .addHelpText(
      'after',
      '\nWith --last, the filters choose among the last n entries.\nAfter a time: "?" the clock was not set yet, "~" it was not and the time was corrected when it was (with --json: "clock",\n"uncorrectedTimestampMs"). Order is by id, whatever the times say.\n\nExamples:\n  lineside log --follow --text\n  lineside log --since 10m --dir rx\n  lineside log --follow --from-start --json | jq -r .hex\n  lineside log --json --resume /var/tmp/lineside.position\n',
    );
  shell.remote<LogOptions>(command, {
    what: 'cannot read the log',
    endsOnCtrlC: ({ follow }) => follow === true,
    run: showLog,
  });
  addExport(command, shell);
}

/** Between two writes of a --resume file: what is shown again after a kill is at most this much. */
const savePositionMs = 2000;

async function showLog(call: Call<LogOptions>): Promise<number> {
  const { options, io } = call;
  const render = renderer(call);
  const kept = options.resume === undefined ? undefined : await loadPosition(options.resume);
  const service = await call.service();
  const query = await fromNow(call, service, logQuery(options, io.clock.wallMs(), kept));
  const outcome = { lost: false };
  const retries = query.follow ? Number.POSITIVE_INFINITY : 0;
  const reader = new LogReader(service, query, {
    clock: io.clock,
    stop: call.stop,
    retries,
    events: announcer(call, outcome),
  });
  const keeper = new PositionKeeper(options.resume, reader, () => io.clock.monoMs());
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

class PositionKeeper {
  readonly #path: string | undefined;
  readonly #reader: LogReader;
  readonly #monoMs: () => number;
  #savedAt = 0;
  #saved: Position | undefined;

  constructor(path: string | undefined, reader: LogReader, monoMs: () => number) {
    this.#path = path;
    this.#reader = reader;
    this.#monoMs = monoMs;
    this.#saved = reader.position;
  }

  async tick(): Promise<void> {
    if (this.#monoMs() - this.#savedAt >= savePositionMs) await this.save();
  }

  async save(): Promise<void> {
    const { position } = this.#reader;
    if (this.#path === undefined || position === this.#saved || position.logId === '') return;
    await savePosition(this.#path, position);
    this.#saved = position;
    this.#savedAt = this.#monoMs();
  }
}

/** `--last 0` begins at the head: asked for by id, so that nothing is missed over a reconnection. */
async function fromNow(call: Call<LogOptions>, service: Service, query: LogQuery): Promise<LogQuery> {
  if (query.last !== 0) return query;
  const { log } = await service.call(call.timeoutMs, call.stop, ({ line }, signal) => line.getStatus({}, { signal }));
  return { ...query, last: undefined, afterId: log?.headId ?? Long.UZERO, logId: log?.logId ?? '' };
}

function renderer(call: Call<LogOptions>): (batch: lineside.v1.LogBatch) => string {
  const { options, out, io } = call;
  const views = (['hex', 'text', 'both'] as const).filter((view) => options[view] === true);
  if (views.length > 1) throw usageFailure('--hex, --text and --both exclude each other');
  if (call.json) return (batch) => jsonLines(batch, options.base64 === true ? 'base64' : 'hex');
  const view: DataView = views[0] ?? 'both';
  const colour = out.isTerminal && (io.env['NO_COLOR'] ?? '') === '';
  const printer = new EntryPrinter({ view, width: out.width, colour, ids: options.ids === true, zone: systemZone });
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
  const next = 'Name another file, or remove it to begin again.';
  throw new CliFailure({
    status: exitStatus.refused,
    code: 'BAD_POSITION',
    what: `cannot use ${path}`,
    why: 'it holds no position in a log',
    next,
  });
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
