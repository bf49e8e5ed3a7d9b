/** log export: the log as raw bytes, JSON lines or a Wireshark capture, in constant memory. */

import { randomBytes } from 'node:crypto';
import { type FileHandle, open, realpath, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type Long from 'long';
import { systemCode } from '../../shared/base/errors.ts';
import type { lineside } from '../../shared/proto/services.ts';
import { type Entry, type Given, option } from '../command.ts';
import { CliFailure, exitStatus, usageFailure } from '../failure.ts';
import { fileFailure } from '../input.ts';
import { gapPhrase, jsonLines, logItems } from '../output/entries.ts';
import { entryClockName } from '../output/json.ts';
import { byteSize, counted, exact, grouped, utcTime } from '../output/numbers.ts';
import type { Call } from '../shell.ts';
import { rangeOptions, rangeQuery } from './log.ts';
import { announcer, LogReader } from './reader.ts';

const group = 'How:';
const options = [
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
  if (output === '-' && format !== 'jsonl' && call.out.isTerminal) {
    throw usageFailure(`${format} is not for a terminal`, 'Name a file with -o FILE, or redirect the output.');
  }
  const service = await call.service();
  const query = rangeQuery(call.options, call.io.clock.wallMs());
  const { log } = await call.line(({ line }, options) => line.getStatus({}, options));
  const progress = progressOf(call, Number(exact(log?.lastId ?? 0)));
  const { stop, io } = call;
  const settings = { clock: io.clock, stop, retries: retriesWithoutProgress, events: announcer(call) };
  const reader = new LogReader(service, query, settings);
  const parts = encoded(reader, call.options, progress);
  if (output !== '-') await writeWhole(output, parts);
  else for await (const part of parts) await call.out.write(part);
  await progress.end();
  return exitStatus.ok;
}

async function* encoded(reader: LogReader, { format, base64 }: ExportOptions, progress: ReturnType<typeof progressOf>) {
  const encode = {
    raw: ({ entries }: lineside.v1.LogBatch) => Buffer.concat(entries.map(({ entry }) => entry.rawData)),
    jsonl: (batch: lineside.v1.LogBatch) => jsonLines(batch, base64 === true ? 'base64' : 'hex'),
    pcapng: captureBatch,
  }[format];
  if (format === 'pcapng') yield captureHead();
  for await (const batch of reader.batches()) {
    yield encode(batch);
    await progress.add(batch);
  }
}

function captureBatch(batch: lineside.v1.LogBatch): Buffer {
  const packets = Array.from(logItems(batch), ({ kind, value }) => {
    if (kind === 'entry') return capturePackets(value.entry, noteWithClock(value));
    // Entries that could not be stored: an event without bytes, said in its comment.
    return packet({
      timestamp: value.fromMs,
      event: eventDataLost,
      direction: 0,
      data: empty,
      comment: gapPhrase(value),
    });
  });
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
function progressOf({ io: { clock }, err, json }: Call<object>, lastId: number) {
  let entries = 0;
  let bytes = 0;
  let firstId = 0;
  let missing = 0;
  let shownAt = clock.monoMs();
  const text = (): string => `${counted(entries, 'entry', 'entries')}, ${byteSize(bytes)}`;
  const percent = (at: number): string => {
    const all = lastId - firstId;
    return all <= 0 ? '' : `, ${grouped(Math.min(100, Math.floor(((at - firstId) * 100) / all)))} %`;
  };
  return {
    add: async (batch: lineside.v1.LogBatch): Promise<void> => {
      entries += batch.entries.length;
      for (const { entry } of batch.entries) bytes += entry.rawData.length;
      for (const gap of batch.gaps) missing += Number(exact(gap.entries));
      const now = clock.monoMs();
      const at = Number(exact(batch.nextAfterId));
      if (firstId === 0) firstId = at;
      if (!err.isTerminal || now - shownAt < progressMs) return;
      shownAt = now;
      await err.write(`\r${text()}${percent(at)}\x1b[K`);
    },
    end: async (): Promise<void> => {
      if (err.isTerminal) await err.write(`\r${text()}\x1b[K\n`);
      if (missing === 0 || json) return;
      await err.write(
        `lineside: ${counted(missing, 'entry', 'entries')} of this range could never be stored and are missing.\n`,
      );
    },
  };
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

// The log as a pcapng capture that Wireshark opens. Sources: the pcapng specification (draft-ietf-opsawg-pcapng) for the blocks,
// tcpdump.org's LINKTYPE_RTAC_SERIAL for the 12-byte header before each packet's bytes: seconds (4, big-endian), microseconds (4),
// event type (1), control lines (1), reserved (2).

const sectionHeader = 0x0a0d0d0a;
const interfaceDescription = 1;
const enhancedPacket = 6;
const byteOrderMagic = 0x1a2b3c4d;
const linkTypeRtacSerial = 250;

const optEnd = 0;
const optComment = 1;
const shbUserAppl = 4;
const ifDescription = 3;
const ifTsResol = 9;
const epbFlags = 2;

/** Timestamps count in units of 10^-3 s. */
const millisecondResolution = 3;
const headerBytes = 12;
/** Wireshark refuses a file with a packet above 262,144 bytes; an entry can have 1 MiB and is split. */
const maxDataBytes = 262_144 - headerBytes;

const eventStatusChange = 0;
const eventTxStart = 1;
const eventRxStart = 2;
const eventDataLost = 5;
const inbound = 1;
const outbound = 2;
const longestOption = 65_532;

/** The section header and the one interface: what a capture begins with. */
function captureHead(): Buffer {
  const section = Buffer.alloc(16);
  section.writeUInt32LE(byteOrderMagic, 0);
  section.writeUInt16LE(1, 4);
  // Length of the section: not known beforehand.
  section.fill(0xff, 8, 16);
  const line = Buffer.alloc(8);
  line.writeUInt16LE(linkTypeRtacSerial, 0);
  const resolution = Buffer.from([millisecondResolution]);
  return Buffer.concat([
    block(sectionHeader, [section, captureOption(shbUserAppl, Buffer.from('lineside')), end]),
    block(interfaceDescription, [
      line,
      captureOption(ifDescription, Buffer.from('serial line')),
      captureOption(ifTsResol, resolution),
      end,
    ]),
  ]);
}

/** One entry: a packet, or several where it is larger than Wireshark takes; the note is the comment of the first. */
function capturePackets({ dir, timestamp, rawData }: lineside.v1.LogEntry['entry'], note: string): Buffer {
  const event = rawData.length === 0 ? eventStatusChange : dir === 0 ? eventTxStart : eventRxStart;
  const direction = dir === 0 ? outbound : inbound;
  const count = Math.max(1, Math.ceil(rawData.length / maxDataBytes));
  const parts = Array.from({ length: count }, (_, at) => {
    const data = rawData.subarray(at * maxDataBytes, (at + 1) * maxDataBytes);
    const part = count === 1 ? '' : `part ${at + 1} of ${count} of one entry`;
    const comment = [part, at === 0 ? note : ''].filter((text) => text !== '').join('; ');
    return packet({ timestamp, event, direction, data, comment });
  });
  return Buffer.concat(parts);
}

interface PacketParts {
  readonly timestamp: Long;
  readonly event: number;
  readonly direction: number;
  readonly data: Uint8Array;
  readonly comment: string;
}

function packet({ timestamp, event, direction, data, comment }: PacketParts): Buffer {
  const length = headerBytes + data.length;
  const fixed = Buffer.alloc(20 + headerBytes);
  fixed.writeUInt32LE(timestamp.getHighBitsUnsigned(), 4);
  fixed.writeUInt32LE(timestamp.getLowBitsUnsigned(), 8);
  fixed.writeUInt32LE(length, 12);
  fixed.writeUInt32LE(length, 16);
  const ms = Number(exact(timestamp));
  fixed.writeUInt32BE(Math.floor(ms / 1000) % 2 ** 32, 20);
  fixed.writeUInt32BE((ms % 1000) * 1000, 24);
  fixed.writeUInt8(event, 28);
  const options = [
    comment === '' ? empty : captureOption(optComment, Buffer.from(comment).subarray(0, longestOption)),
    captureOption(epbFlags, word(direction)),
    end,
  ];
  return block(enhancedPacket, [fixed, data, padding(length), ...options]);
}

const empty = Buffer.alloc(0);
const end = Buffer.alloc(4, optEnd);

function word(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function captureOption(code: number, value: Buffer): Buffer {
  const head = Buffer.alloc(4);
  head.writeUInt16LE(code, 0);
  head.writeUInt16LE(value.length, 2);
  return Buffer.concat([head, value, padding(value.length)]);
}

function padding(length: number): Buffer {
  return Buffer.alloc((4 - (length % 4)) % 4);
}

function block(type: number, parts: readonly Uint8Array[]): Buffer {
  const total = 12 + parts.reduce((sum, part) => sum + part.length, 0);
  return Buffer.concat([word(type), word(total), ...parts, word(total)]);
}
