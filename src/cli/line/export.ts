/** log export: the log as text, JSON lines, a Wireshark capture or raw bytes, in constant memory. */

import {
  type ExportPlace,
  exportedShare,
  type FilePart,
  logFormats,
  logWriter,
} from '../../shared/log-formats/log-formats.ts';
import type { lineside } from '../../shared/proto/services.ts';
import { type Entry, type Given, option } from '../command.ts';
import { exitStatus, usageFailure } from '../failure.ts';
import { logged } from '../output/entries.ts';
import { dataJson } from '../output/json.ts';
import { byteSize, counted, exact, grouped, type Uint64 } from '../output/numbers.ts';
import { writeWhole } from '../output/whole-file.ts';
import type { Call } from '../shell.ts';
import { rangeOptions, rangeQuery } from './log.ts';
import { announcer, LogReader } from './reader.ts';

const group = 'How:';
const options = [
  ...rangeOptions,
  option(
    '--format <format>',
    'text: a line to an entry; jsonl: a JSON object to a line; pcapng: for Wireshark; raw: the bytes',
    { group, choices: logFormats, required: true },
  ),
  option('-o, --output <file>', 'where to (-: standard output); a file appears when it is complete', {
    group,
    usual: '-',
  }),
  option('--base64', 'with jsonl: data as base64 instead of hex', { group }),
] as const;
type ExportOptions = Given<typeof options>;

export const exportCommands: readonly Entry[] = [
  {
    command: 'log export',
    help: 'write the log, or a range of it, to a file',
    options,
    examples: [
      'lineside log export --format pcapng -o line.pcapng',
      'lineside log export --format raw --dir rx --since 1h -o received.bin',
      'lineside log export --format jsonl --host box --token-file ~/.lineside-token | gzip > log.jsonl.gz',
    ],
    what: 'export the log',
    run: exportLog,
  },
];

/** An export continues over a restart of the service; a service that stays down ends it. */
const retriesWithoutProgress = 6;
const progressMs = 500;

async function exportLog(call: Call<ExportOptions>): Promise<number> {
  const { format, output } = call.options;
  if (output === '-' && (format === 'raw' || format === 'pcapng') && call.out.isTerminal) {
    throw usageFailure(`${format} is not for a terminal`, 'Name a file with -o FILE, or redirect the output.');
  }
  const service = await call.service();
  const query = rangeQuery(call.options, call.io.clock.wallMs());
  const { log } = await call.line(({ line }, options) => line.getStatus({}, options));
  const progress = progressOf(call, { firstId: idOf(log?.firstId), lastId: idOf(log?.lastId) }, query.untilMs);
  const { stop, io } = call;
  const settings = { clock: io.clock, stop, retries: retriesWithoutProgress, events: announcer(call) };
  const reader = new LogReader(service, query, settings);
  const parts = encoded(reader, call.options, progress);
  if (output !== '-') await writeWhole(output, parts);
  else for await (const part of parts) await call.out.write(part);
  await progress.end();
  return exitStatus.ok;
}

async function* encoded(
  reader: LogReader,
  { format, base64 }: ExportOptions,
  progress: ReturnType<typeof progressOf>,
): AsyncGenerator<FilePart> {
  const writer = logWriter(format, (bytes) => dataJson(bytes, base64 === true ? 'base64' : 'hex'));
  yield writer.head;
  for await (const batch of reader.batches()) {
    yield writer.part(logged(batch));
    await progress.add(batch);
  }
}

function idOf(id: Uint64 = 0): number {
  return Number(exact(id));
}

/** Counts; shows itself on a terminal, and at the end says what is missing. */
function progressOf(
  { io: { clock }, err, json }: Call<object>,
  stored: { readonly firstId: number; readonly lastId: number },
  untilMs: number,
) {
  let entries = 0;
  let bytes = 0;
  let first: ExportPlace | undefined;
  let missing = 0;
  let isFromFirst = false;
  let shownAt = clock.monoMs();
  const text = (): string => `${counted(entries, 'entry', 'entries')}, ${byteSize(bytes)}`;
  return {
    add: async (batch: lineside.v1.LogBatch): Promise<void> => {
      if (entries === 0) isFromFirst = stored.firstId > 1 && idOf(batch.entries[0]?.id) === stored.firstId;
      entries += batch.entries.length;
      for (const { entry } of batch.entries) bytes += entry.rawData.length;
      for (const gap of batch.gaps) missing += Number(exact(gap.entries));
      const now = clock.monoMs();
      const ms = batch.entries.at(-1)?.entry.timestamp ?? 0;
      const at = { id: idOf(batch.nextAfterId), ms: Number(exact(ms)) };
      first ??= at;
      if (!err.isTerminal || now - shownAt < progressMs) return;
      shownAt = now;
      await err.write(`\r${bar(exportedShare(first, at, stored.lastId, untilMs))} ${text()}\x1b[K`);
    },
    end: async (): Promise<void> => {
      if (err.isTerminal) await err.write(`\r${text()}\x1b[K\n`);
      if (json) return;
      if (isFromFirst)
        await err.write(
          `lineside: the log begins with entry ${grouped(stored.firstId)}: retention removed what was before.\n`,
        );
      if (missing === 0) return;
      await err.write(
        `lineside: ${counted(missing, 'entry', 'entries')} of this range could never be stored and are missing.\n`,
      );
    },
  };
}

const barColumns = 20;

/** "[=====               ]  25 %" */
function bar(share: number): string {
  const done = '='.repeat(Math.floor(share * barColumns));
  return `[${done.padEnd(barColumns)}] ${String(Math.floor(share * 100)).padStart(3)} %`;
}
