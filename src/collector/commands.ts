/** `lineside collector`: the reference collector, for a central side without Kafka. It knows nothing of a box's own configuration. */
import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type Command, Option } from 'commander';
import Long from 'long';
import type { LocalShell } from '../cli/cli.ts';
import { exitStatus } from '../cli/failure.ts';
import type { CliIo } from '../cli/io.ts';
import { EntryPrinter, type LogItem, logItems } from '../cli/output/entries.ts';
import { safeText } from '../cli/output/hex.ts';
import { dataJson, type Json, jsonLine, loggedEntry, loggedGap } from '../cli/output/json.ts';
import { counted, exact, grouped, localTime } from '../cli/output/numbers.ts';
import { Output } from '../cli/output/output.ts';
import { LinesideError, messageOf, systemCode } from '../shared/base/errors.ts';
import { createLogger } from '../shared/base/logger.ts';
import { parseListen } from '../shared/config/listen.ts';
import { entryJson, gapJson } from '../shared/log-formats/log-formats.ts';
import { lineside } from '../shared/proto/services.ts';
import { glance } from './batch-check.ts';
import { directoryName, readSegment, segmentNames } from './segment.ts';
import type { CollectorOptions } from './server.ts';

interface ServeOptions extends Partial<CollectorOptions> {
  readonly listen: string;
  readonly dir: string;
}

export function addCollectorCommands(program: Command, shell: LocalShell): void {
  const { io } = shell;
  const collector = program
    .command('collector')
    .description('receive the serial logs of boxes without Kafka; runs on a central machine');
  collector
    .command('serve')
    .description('receive the logs that boxes push, until SIGTERM or SIGINT')
    .requiredOption('--listen <host:port>', 'address; another one than loopback needs TLS and tokens')
    .requiredOption('--dir <dir>', 'where the logs are kept: DIR/DEVICE/LOG/')
    .option('--tls-cert <file>', 'certificate chain, PEM')
    .option('--tls-key <file>', 'its key, PEM')
    .option('--tokens <file>', 'who may push: lines "DEVICE-ID SHA256-OF-TOKEN" (see collector token)')
    .option('--insecure', 'do without TLS or tokens on any address')
    .addHelpText(
      'after',
      '\nExamples:\n  lineside collector serve --listen 127.0.0.1:7443 --dir /srv/log\n  lineside collector serve --listen 0.0.0.0:7443 --dir /srv/log --tls-cert server.pem --tls-key server.key --tokens /srv/tokens\n',
    )
    .action((options: ServeOptions) => serve(options, io));
  addTokenCommand(collector, io);
  collector
    .command('read')
    .description('print what is stored, in order, each entry once; also while `collector serve` runs')
    .requiredOption('--dir <dir>', 'the directory of `collector serve`')
    .option('--device <id>', 'only this device')
    .option('--log <id>', 'only this log')
    .option('--json', 'a JSON object to a line, as `lineside log export --format jsonl` has them')
    .option('--base64', 'with --json: data as base64 instead of hex')
    .addOption(new Option('--view <view>', 'what to show of the data').choices(['hex', 'text', 'both']).default('both'))
    .option('--ids', 'show the ids')
    .addHelpText(
      'after',
      '\nExamples:\n  lineside collector read --dir /srv/log --device box-7 --view text\n  lineside collector read --dir /srv/log --json | jq -r .hex\n',
    )
    .action(async (options: ReadOptions) => shell.setStatus(await readCommand(options, io)));
}

function addTokenCommand(collector: Command, io: CliIo): void {
  collector
    .command('token')
    .argument('<device-id>', 'device.id of the box')
    .description('let a box push: store the hash of a new token, and print the token once, as the last line')
    .requiredOption('--tokens <file>', 'the file of `collector serve --tokens`')
    .option('--revoke', 'end all its tokens instead, at once')
    .addHelpText(
      'after',
      '\nExamples:\n  lineside collector token box-7 --tokens /srv/tokens\n  lineside collector token box-7 --tokens /srv/tokens --revoke\n',
    )
    .action(async (deviceId: string, { tokens, revoke }: { tokens: string; revoke?: boolean }) => {
      const { addDeviceToken, revokeDeviceTokens } = await import('./tokens.ts');
      if (revoke === true) {
        revokeDeviceTokens(tokens, deviceId);
        io.stdout.write(`all tokens of ${deviceId} were revoked\n`);
        return;
      }
      const token = addDeviceToken(tokens, deviceId);
      io.stdout.write(`${deviceId} may push with this token, which is shown only once:\n${token}\n`);
    });
}

async function serve(options: ServeOptions, io: CliIo): Promise<void> {
  const address = parseListen(options.listen, '/');
  if (typeof address === 'string' || address.kind !== 'tcp') {
    throw new LinesideError(
      'INVALID_ARGUMENT',
      `--listen: ${typeof address === 'string' ? address : 'must be host:port, a box cannot reach a Unix socket'}`,
    );
  }
  const logger = createLogger({
    write: (line) => void io.stderr.write(line),
    journal: io.env['JOURNAL_STREAM'] !== undefined,
    debug: io.env['LINESIDE_DEBUG'] !== undefined,
    wallMs: () => io.clock.wallMs(),
  });
  const stopped = Promise.withResolvers<string>();
  const unheard = (['SIGTERM', 'SIGINT'] as const).map((signal) => io.onSignal(signal, () => stopped.resolve(signal)));
  const { startCollector } = await import('./server.ts');
  const { host, port } = address;
  const none = { tlsCert: '', tlsKey: '', tokens: '', insecure: false };
  const collector = await startCollector({ ...none, ...options, host, port }, io.clock, logger);
  const shown = host.includes(':') ? `[${host}]` : host;
  logger.info('collector ready', { listen: `${shown}:${collector.port}`, dir: options.dir });
  const why = await stopped.promise;
  for (const unhear of unheard) unhear();
  logger.info('collector stopping', { why });
  await collector.stop();
  logger.info('collector stopped');
}

// `lineside collector read`: what is stored, for people or as JSON lines.

export interface ReadOptions {
  readonly dir: string;
  readonly device?: string;
  readonly log?: string;
  readonly json?: boolean;
  readonly base64?: boolean;
  readonly view: 'hex' | 'text' | 'both';
  readonly ids?: boolean;
}

/** Answers the exit status: `nothing` if nothing is stored of the device or log, `lost` if a file is damaged. */
export async function readCommand(options: ReadOptions, io: CliIo): Promise<number> {
  const out = new Output(io.stdout);
  const render = options.json === true ? jsonOf(options) : textOf(options, out, io);
  let status: number = exitStatus.nothing;
  try {
    for await (const item of readStored(options.dir, options.device, options.log)) {
      if (status === exitStatus.nothing) status = exitStatus.ok;
      if (item.kind === 'damage') {
        status = exitStatus.lost;
        io.stderr.write(`lineside: ${item.file} is damaged, and not read to its end.\n`);
      } else {
        await out.write(render(item));
      }
    }
    await out.flush();
    if (status === exitStatus.nothing) io.stderr.write('lineside: nothing is stored there of what was asked for.\n');
    return status;
  } finally {
    out.release();
  }
}

type Shown = Exclude<Item, { kind: 'damage' }>;

function jsonOf({ base64 }: ReadOptions): (item: Shown) => string {
  const form = base64 === true ? 'base64' : 'hex';
  return (item) => {
    if (item.kind === 'log') return jsonLine({ log: { deviceId: item.deviceId, logId: item.logId } });
    if (item.kind === 'gap') return jsonLine({ gap: gapObject(item.value) });
    const entry = loggedEntry(item.value);
    return jsonLine(entryJson(entry, dataJson(entry.bytes, form)));
  };
}

/** The form of `log export`, and what only this side knows. */
function gapObject(gap: GapShown): Json {
  const { cause, openEnded } = gap;
  const times = exact(gap.toMs) === 0 ? { from: null, to: null } : {};
  return { cause, ...gapJson(loggedGap(gap)), ...times, ...(openEnded ? { openEnded } : {}) };
}

function textOf({ view, ids }: ReadOptions, out: Output, io: CliIo): (item: Shown) => string {
  const colour = out.isTerminal && (io.env['NO_COLOR'] ?? '') === '';
  const look = { view, width: out.width, colour, ids: ids === true };
  let printer = new EntryPrinter(look);
  return (item) => {
    if (item.kind === 'gap') return `-- ${gapText(item.value)} --\n`;
    if (item.kind === 'entry') return printer.item(item);
    // The day is shown again for each log.
    printer = new EntryPrinter(look);
    return `== device ${safeText(item.deviceId)}, log ${safeText(item.logId)} ==\n`;
  };
}

const phrases: Readonly<Record<GapShown['cause'], string>> = {
  notStored: 'not stored on the box',
  overtaken: 'removed on the box before they could be sent',
  logReplaced: "lost with the box's log, which was replaced",
  tooLarge: 'too large to be sent',
  notHere: 'not here',
};

function gapText(gap: GapShown): string {
  const { cause, firstId, lastId, entries, openEnded, fromMs, toMs, reason } = gap;
  // Only what could not be stored was counted.
  const count = `${cause === 'notStored' ? '' : 'at most '}${counted(entries, 'entry', 'entries')}`;
  const what = openEnded ? 'an unknown number of entries' : `${count}, ids ${grouped(firstId)} to ${grouped(lastId)},`;
  const from = localTime(fromMs);
  const to = localTime(toMs);
  const times = exact(toMs) === 0 ? '' : `, ${from.date} ${from.time} to ${to.date} ${to.time}`;
  return `${what} ${phrases[cause]}${times}${reason === '' ? '' : `: ${safeText(reason)}`}`;
}

// Reading: a log in its order, each id once however often it came, what is missing as gaps, times corrected. Reads beside a running
// collector: what is being appended is simply not there yet.

const { EntryClock, UpstreamGap } = lineside.v1;

/** Corrections of one log that are held in memory: one for each boot without a clock, usually. */
const MAX_CORRECTIONS_HELD = 100_000;

type GapFields = 'firstId' | 'lastId' | 'entries' | 'bytes' | 'fromMs' | 'toMs' | 'reason' | 'openEnded';

interface GapShown extends Pick<lineside.v1.UpstreamGap, GapFields> {
  readonly cause: 'notStored' | 'overtaken' | 'logReplaced' | 'tooLarge' | 'notHere';
}

export type Item =
  | { readonly kind: 'log'; readonly deviceId: string; readonly logId: string }
  | LogItem<GapShown>
  /** A file could not be read from there on. */
  | { readonly kind: 'damage'; readonly file: string };

/** Logs in the order of their directories' names; undefined: of every device, every log. */
export async function* readStored(dir: string, deviceId?: string, logId?: string): AsyncGenerator<Item> {
  for (const device of await directories(dir, deviceId)) {
    for (const log of await directories(join(dir, device), logId)) yield* readLog(join(dir, device, log));
  }
}

async function* readLog(dir: string): AsyncGenerator<Item> {
  const corrections = await correctionsOf(dir);
  let shown: LogWalk | undefined;
  for await (const item of recordsOf(dir)) {
    if (typeof item === 'string') {
      yield { kind: 'damage', file: item };
      continue;
    }
    const batch = lineside.v1.UpstreamBatch.decode(item);
    if (shown === undefined) {
      const { deviceId, logId } = batch;
      // The directory's name may be a hash: the batches know whose they are.
      yield { kind: 'log', deviceId, logId };
      shown = new LogWalk(corrections);
    }
    yield* shown.batch(batch);
  }
}

/** What has been shown of a log so far. */
class LogWalk {
  readonly #corrections: readonly lineside.v1.ClockCorrection[];
  #position = Long.UZERO;
  readonly #openEnded = new Set<string>();

  constructor(corrections: readonly lineside.v1.ClockCorrection[]) {
    this.#corrections = corrections;
  }

  *batch(batch: lineside.v1.UpstreamBatch): Generator<Item> {
    const from = this.#position;
    if (batch.afterId.greaterThan(from)) yield { kind: 'gap', value: missing(from, batch.afterId) };
    const gaps = batch.gaps.flatMap((gap) => this.#gap(gap, from));
    const entries = batch.entries.filter(({ id }) => id.greaterThan(from)).map((entry) => this.#corrected(entry));
    yield* logItems({ entries, gaps });
    if (batch.throughId.greaterThan(this.#position)) this.#position = batch.throughId;
  }

  /** As far as it lies behind what was shown. */
  #gap(gap: lineside.v1.UpstreamGap, from: Long): GapShown[] {
    const { lastId, bytes, fromMs, toMs, reason, openEnded } = gap;
    const cause = causes[gap.cause] ?? 'notHere';
    const isNew = lastId.greaterThan(from);
    if (openEnded && !isNew) {
      // It has no ids to know it by.
      if (this.#openEnded.has(String(lastId))) return [];
      this.#openEnded.add(String(lastId));
    } else if (!isNew) return [];
    const firstId = gap.firstId.greaterThan(from) ? gap.firstId : from.add(1);
    const ids = lastId.lessThan(firstId) ? Long.UZERO : lastId.subtract(firstId).add(1);
    const entries = gap.entries.greaterThan(ids) ? ids : gap.entries;
    return [{ cause, firstId, lastId, entries, bytes, fromMs, toMs, reason, openEnded }];
  }

  /** The latest correction counts: it says what is right, not what to add to the one before. */
  #corrected(value: lineside.v1.LogEntry): lineside.v1.LogEntry {
    const { entry } = value;
    if (value.clock !== EntryClock.ENTRY_CLOCK_NOT_SET || entry == null) return value;
    const correction = this.#corrections.findLast(
      ({ firstId, lastId }) => !value.id.lessThan(firstId) && !value.id.greaterThan(lastId),
    );
    if (correction === undefined) return value;
    value.uncorrectedTimestampMs = entry.timestamp;
    const right = entry.timestamp.toSigned().add(correction.correctionMs);
    entry.timestamp = (right.isNegative() ? Long.ZERO : right).toUnsigned();
    value.clock = EntryClock.ENTRY_CLOCK_CORRECTED;
    return value;
  }
}

const causes: Readonly<Record<number, GapShown['cause']>> = {
  [UpstreamGap.Cause.NOT_STORED]: 'notStored',
  [UpstreamGap.Cause.OVERTAKEN]: 'overtaken',
  [UpstreamGap.Cause.LOG_REPLACED]: 'logReplaced',
  [UpstreamGap.Cause.TOO_LARGE]: 'tooLarge',
};

/** Files were removed from this directory, or a damaged part was. */
function missing(position: Long, afterId: Long): GapShown {
  return {
    cause: 'notHere',
    firstId: position.add(1),
    lastId: afterId,
    entries: afterId.subtract(position),
    bytes: Long.UZERO,
    fromMs: Long.UZERO,
    toMs: Long.UZERO,
    reason: '',
    openEnded: false,
  };
}

/** They come behind the entries that they are about: the log is read through for them first, without taking entries apart. */
async function correctionsOf(dir: string): Promise<lineside.v1.ClockCorrection[]> {
  const corrections: lineside.v1.ClockCorrection[] = [];
  for await (const record of recordsOf(dir)) {
    if (typeof record === 'string' || !glance(record).mayHaveExtras) continue;
    for (const one of lineside.v1.UpstreamBatch.decode(record).clockCorrections) corrections.push(one);
    if (corrections.length > MAX_CORRECTIONS_HELD) {
      throw new LinesideError('TOO_LARGE', `${dir}: more than ${MAX_CORRECTIONS_HELD} corrections of times in one log`);
    }
  }
  return corrections;
}

async function* recordsOf(dir: string): AsyncGenerator<Uint8Array | string> {
  const names = await segmentNames(dir);
  for (const [at, name] of names.entries()) {
    const path = join(dir, name);
    const file = await open(path, 'r');
    try {
      const records = readSegment(file);
      let record = await records.next();
      for (; record.done !== true; record = await records.next()) yield record.value;
      // The last one may be in the middle of being written.
      const isLast = at === names.length - 1;
      if (record.value.ending === 'damaged' || (record.value.ending === 'torn' && !isLast)) yield path;
    } finally {
      await file.close();
    }
  }
}

async function directories(dir: string, id: string | undefined): Promise<string[]> {
  const wanted = id === undefined ? undefined : directoryName(id);
  try {
    const found = await readdir(dir, { withFileTypes: true });
    return found
      .filter((one) => one.isDirectory())
      .map(({ name }) => name)
      .filter((name) => name === (wanted ?? name))
      .sort();
  } catch (error) {
    if (systemCode(error) === 'ENOENT') throw new LinesideError('NOT_FOUND', `there is no directory ${dir}`);
    throw new LinesideError('STORAGE_FAILED', `cannot read ${dir}: ${messageOf(error)}`, { cause: error });
  }
}
