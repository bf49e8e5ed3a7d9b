/** log export: the log as raw bytes, JSON lines or a Wireshark capture, in constant memory. */

import { randomBytes } from 'node:crypto';
import { type FileHandle, open, realpath, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { systemCode } from '../../shared/base/errors.ts';
import type { lineside } from '../../shared/proto/services.ts';
import { type Given, option } from '../command.ts';
import { CliFailure, exitStatus, usageFailure } from '../failure.ts';
import { fileFailure } from '../input.ts';
import { gapPhrase, jsonLines, logItems } from '../output/entries.ts';
import { entryClockName } from '../output/json.ts';
import { byteSize, counted, exact, grouped, systemZone, utcTime } from '../output/numbers.ts';
import type { Call } from '../shell.ts';
import { rangeOptions, rangeQuery } from './log-query.ts';
import { captureGap, captureHead, capturePackets } from './pcapng.ts';
import { announcer, LogReader } from './reader.ts';

const group = 'How:';
export const exportOptions = [
  ...rangeOptions,
  option('--format <format>', 'raw: the bytes; jsonl: a JSON object to a line; pcapng: for Wireshark', {
    group,
    choices: ['raw', 'jsonl', 'pcapng'],
    required: true,
  }),
  option('-o, --output <file>', 'where to (-: standard output); a file appears when it is complete', {
    group,
    usual: '-',
  }),
  option('--base64', 'with jsonl: data as base64 instead of hex', { group }),
] as const;
type ExportOptions = Given<typeof exportOptions>;

/** A restart of the service in the middle of a long export is survived; a service that stays away is not waited for. */
const retriesWithoutProgress = 6;
const progressMs = 500;

export async function exportLog(call: Call<ExportOptions>): Promise<number> {
  const { format, output } = call.options;
  if (output === '-' && format !== 'jsonl' && call.out.isTerminal) {
    throw usageFailure(`${format} is not for a terminal`, 'Name a file with -o FILE, or redirect the output.');
  }
  const service = await call.service();
  const query = rangeQuery(call.options, call.io.clock.wallMs());
  const { log } = await call.line(({ line }, options) => line.getStatus({}, options));
  const progress = new Progress(call, Number(exact(log?.lastId ?? 0)));
  const events = announcer(call, { lost: false });
  const { stop, io } = call;
  const reader = new LogReader(service, query, { clock: io.clock, stop, retries: retriesWithoutProgress, events });
  const parts = encoded(reader, encoder(call.options), progress);
  if (output !== '-') await writeWhole(output, parts);
  else for await (const part of parts) await call.out.write(part);
  await progress.end();
  return exitStatus.ok;
}

interface Encoder {
  readonly head: Uint8Array | undefined;
  batch(batch: lineside.v1.LogBatch): Uint8Array | string;
}

async function* encoded(reader: LogReader, encode: Encoder, progress: Progress): AsyncGenerator<Uint8Array | string> {
  if (encode.head !== undefined) yield encode.head;
  for await (const batch of reader.batches()) {
    yield encode.batch(batch);
    await progress.add(batch);
  }
}

function encoder(options: ExportOptions): Encoder {
  switch (options.format) {
    case 'raw':
      return { head: undefined, batch: ({ entries }) => Buffer.concat(entries.map(({ entry }) => entry.rawData)) };
    case 'jsonl':
      return { head: undefined, batch: (batch) => jsonLines(batch, options.base64 === true ? 'base64' : 'hex') };
    case 'pcapng':
      return { head: captureHead('lineside'), batch: captureBatch };
    default:
      return options.format satisfies never;
  }
}

function captureBatch(batch: lineside.v1.LogBatch): Buffer {
  const packets: Buffer[] = [];
  for (const { kind, value } of logItems(batch)) {
    if (kind === 'gap') packets.push(captureGap(value.fromMs, gapPhrase(value, systemZone)));
    else packets.push(capturePackets(value.entry, noteWithClock(value)));
  }
  return Buffer.concat(packets);
}

/** A capture has no field for it either: what a time is worth is said beside it. */
function noteWithClock({ entry, clock, uncorrectedTimestampMs }: lineside.v1.LogEntry): string {
  const known = entryClockName(clock);
  if (known !== 'notSet' && known !== 'corrected') return entry.note;
  const said =
    known === 'notSet' ? 'clock not set' : `clock corrected, stamped ${utcTime(uncorrectedTimestampMs) ?? ''}`;
  return [entry.note, said].filter((part) => part !== '').join('; ');
}

/** Counts; shows itself on a terminal, and at the end says what is missing. */
class Progress {
  readonly #call: Call<object>;
  readonly #lastId: number;
  #entries = 0;
  #bytes = 0;
  #firstId = 0;
  #missing = 0;
  #shownAt = 0;

  constructor(call: Call<object>, lastId: number) {
    this.#call = call;
    this.#lastId = lastId;
    this.#shownAt = call.io.clock.monoMs();
  }

  async add(batch: lineside.v1.LogBatch): Promise<void> {
    this.#entries += batch.entries.length;
    for (const { entry } of batch.entries) this.#bytes += entry.rawData.length;
    for (const gap of batch.gaps) this.#missing += Number(exact(gap.entries));
    const now = this.#call.io.clock.monoMs();
    const at = Number(exact(batch.nextAfterId));
    if (this.#firstId === 0) this.#firstId = at;
    if (!this.#call.err.isTerminal || now - this.#shownAt < progressMs) return;
    this.#shownAt = now;
    await this.#call.err.write(`\r${this.#text()}${this.#percent(at)}\x1b[K`);
  }

  async end(): Promise<void> {
    const { err, json } = this.#call;
    if (err.isTerminal) await err.write(`\r${this.#text()}\x1b[K\n`);
    if (this.#missing === 0 || json) return;
    await err.write(
      `lineside: ${counted(this.#missing, 'entry', 'entries')} of this range could never be stored and are missing.\n`,
    );
  }

  #text(): string {
    return `${counted(this.#entries, 'entry', 'entries')}, ${byteSize(this.#bytes)}`;
  }

  #percent(at: number): string {
    const all = this.#lastId - this.#firstId;
    return all <= 0 ? '' : `, ${grouped(Math.min(100, Math.floor(((at - this.#firstId) * 100) / all)))} %`;
  }
}

/** A file appears under its name only when it is complete; a device or a pipe is written as it is. */
async function writeWhole(path: string, parts: AsyncIterable<Uint8Array | string>): Promise<void> {
  let temporary: string | undefined;
  let file: FileHandle | undefined;
  try {
    const target = await realpath(path).catch((error: unknown) => {
      if (systemCode(error) === 'ENOENT') return path;
      throw error;
    });
    const info = await stat(target).catch(() => undefined);
    if (info?.isFile() ?? true)
      temporary = join(dirname(target), `.${basename(target)}.${randomBytes(4).toString('hex')}.part`);
    file = await open(temporary ?? target, temporary === undefined ? 'w' : 'wx');
    // appendFile writes all of it; a plain write may stop short.
    for await (const part of parts) await file.appendFile(part);
    if (temporary === undefined) return;
    await file.sync();
    await rename(temporary, target);
    temporary = undefined;
  } catch (error) {
    throw error instanceof CliFailure || systemCode(error) === '' ? error : fileFailure('write', path, error);
  } finally {
    await file?.close();
    if (temporary !== undefined) await rm(temporary, { force: true });
  }
}
