/** Searches of the stored log: their rate, what a day of a slow line costs, and whether the line feels one beside its own work. */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { lineside } from '../../../src/shared/proto/services.ts';
import { type Daemon, temporaryDirectory } from '../../e2e/daemon.ts';
import { byReceived, route } from '../line/round-trip.ts';
import { cpuOf } from '../processes.ts';
import { filledLog } from '../serial-log.ts';
import { startLine, startLineside } from '../stations.ts';
import {
  type Context,
  inTurns,
  judge,
  type Line,
  median,
  medians,
  quantile,
  type Row,
  shown,
  times,
} from '../table.ts';

const BAUD = 115_200;
const READING_BYTES = 30;

/** What a line without a pause leaves: a commit each second, entries of at most a second or 4,096 bytes. */
const logs = {
  day: { what: '24 h of 9,600 baud', entryBytes: 960, entries: 86_400, atOnceBytes: 0 },
  fast: { what: '6 h of 115,200 baud', entryBytes: 3_840, entries: 64_800, atOnceBytes: 7_680 },
} as const;
type Log = (typeof logs)[keyof typeof logs];

const RATE_AIM = 150;
const DAY_CPU_AIM_S = 1;
/** "Not slowed measurably": two series of trips without a search differ by as much. */
const SLOWED_P50_AIM = 1.1;
const SLOWED_P99_AIM = 1.5;
/** Round trips whose quantiles are taken; the median of 20 such quantiles counts, as a block in which the machine did something else must not. */
const BLOCK = 1_000;
const TRIP_BYTES = 64;

type Pattern = Pick<lineside.v1.SearchLogRequest.$Properties, 'text' | 'hex' | 'regex' | 'ignoreCase'>;

/** What the log does not have, so that all of it is searched. */
const patterns = {
  'text, letter case ignored': { text: 'Pump FAULT', ignoreCase: true },
  text: { text: 'PUMP FAULT' },
  'bytes with ??': { hex: '02 ?? 10 ff 03' },
  'regular expression': { regex: 'FAULT [0-9]+' },
} as const satisfies Readonly<Record<string, Pattern>>;
type Name = keyof typeof patterns;
const names = Object.keys(patterns) as Name[];

interface Searched {
  /** Million bytes of entries a second. */
  readonly rate: number;
  readonly cpu: number;
}

const speed: Row = {
  name: 'speed',
  async run(context) {
    const found = await searched(logs.fast, context);
    const grep = await grepRate(logs.fast, context);
    return names.map((name): Line => {
      const { rate, cpu } = found[name];
      const ratio = times(rate / grep);
      return {
        row: rowOf(logs.fast, name),
        lineside: `${rate.toFixed(0)} MB/s, ${cpu.toFixed(2)} CPU s`,
        against: `gzip -dc to grep -F -i, the same bytes in one file: ${grep.toFixed(0)} MB/s`,
        ...(name === 'regular expression'
          ? shown(ratio)
          : { ratio, aim: `at least ${RATE_AIM} MB/s`, verdict: judge(rate >= RATE_AIM) }),
      };
    });
  },
};

const day: Row = {
  name: 'day',
  async run(context) {
    const found = await searched(logs.day, context);
    return names.map((name): Line => {
      const { rate, cpu } = found[name];
      return {
        row: rowOf(logs.day, name),
        lineside: `${cpu.toFixed(2)} CPU s, ${rate.toFixed(0)} MB/s`,
        against: `${DAY_CPU_AIM_S} CPU s`,
        ratio: times(cpu / DAY_CPU_AIM_S),
        aim: `at most ${DAY_CPU_AIM_S} CPU s`,
        verdict: judge(cpu <= DAY_CPU_AIM_S),
      };
    });
  },
};

function rowOf({ what, entries, entryBytes }: Log, name: Name): string {
  return `search of ${what} (${((entries * entryBytes) / 1e6).toFixed(1)} MB) for what it does not have: ${name}`;
}

/** CPU seconds are of the whole log; a quick run has a part of it. */
async function searched(log: Log, { quick, say }: Context): Promise<Readonly<Record<Name, Searched>>> {
  const share = quick ? QUICK_SHARE : 1;
  const daemon = await startLine({ dir: await filled(log, quick) });
  const contenders = Object.fromEntries(names.map((name) => [name, () => searchAll(daemon, patterns[name])]));
  const found = await inTurns({ rounds: quick ? 2 : 7, warmUp: true }, contenders, (name, { rate, cpu }) =>
    say(`${name}: ${rate.toFixed(0)} MB/s, ${cpu.toFixed(2)} CPU s`),
  );
  await daemon.stop();
  const all = names.map((name) => {
    const { rate, cpu } = medians(found[name]);
    return [name, { rate, cpu: cpu / share }];
  });
  return Object.fromEntries(all) as Readonly<Record<Name, Searched>>;
}

const QUICK_SHARE = 1 / 12;

async function filled({ entries, entryBytes, atOnceBytes }: Log, quick: boolean): Promise<string> {
  const dir = temporaryDirectory();
  await filledLog(dir, quick ? entries * QUICK_SHARE : entries, (n) => entryOf(n, entryBytes), atOnceBytes);
  return dir;
}

const beside: Row = {
  name: 'beside',
  async run(context) {
    const station = await startLineside(BAUD, { dir: await filled(logs.fast, context.quick), gapMs: 0 });
    const { traveller, close } = await route(station, byReceived);
    const block = async (): Promise<number[]> => {
      const delays: number[] = [];
      for (let n = 0; n < BLOCK; n++) delays.push(await traveller.trip(TRIP_BYTES));
      return delays;
    };
    const alone = { alone: block, 'alone again': block };
    const lines = [];
    for (const name of ['text, letter case ignored', 'regular expression'] as const)
      lines.push(await besideLine(context, name, { ...alone, beside: besideSearch(station.daemon, name, block) }));
    await close();
    return lines;
  },
};

export const rows: readonly Row[] = [speed, day, beside];

type Blocks = Readonly<Record<'alone' | 'alone again' | 'beside', () => Promise<number[]>>>;

async function besideLine({ quick, say }: Context, name: Name, blocks: Blocks): Promise<Line> {
  const found = await inTurns({ rounds: quick ? 2 : 20, warmUp: true }, blocks);
  const delays = (who: keyof Blocks): readonly [number, number] => {
    const [p50, p99] = [0.5, 0.99].map((share) => median(found[who].map((block) => quantile(block, share))));
    return [p50 ?? 0, p99 ?? 0];
  };
  const show = ([p50, p99]: readonly [number, number]): string => `${p50.toFixed(0)} / ${p99.toFixed(0)} us`;
  const [own, again, with_] = [delays('alone'), delays('alone again'), delays('beside')];
  say(`${name}: ${show(own)}, ${show(again)}, ${show(with_)}`);
  const [p50, p99] = [with_[0] / own[0], with_[1] / own[1]];
  return {
    row: `round trip of ${TRIP_BYTES} bytes over lineside.v1 Session beside one search after the other: ${name}, p50 / p99`,
    lineside: show(with_),
    against: `without a search: ${show(own)}; once more: ${show(again)}`,
    ratio: `${times(p50)} / ${times(p99)}`,
    aim: `within ${SLOWED_P50_AIM} x / ${SLOWED_P99_AIM} x`,
    verdict: judge(p50 <= SLOWED_P50_AIM && p99 <= SLOWED_P99_AIM),
  };
}

function besideSearch(daemon: Daemon, name: Name, block: () => Promise<number[]>): () => Promise<number[]> {
  return async () => {
    let isOver = false;
    const searching = (async () => {
      while (!isOver) await searchAll(daemon, patterns[name]);
    })();
    const delays = await block();
    isOver = true;
    await searching;
    return delays;
  };
}

async function searchAll({ client, pid }: Daemon, pattern: Pattern): Promise<Searched> {
  let end: lineside.v1.SearchEnd | undefined;
  const fromMs = performance.now();
  const { cpu } = await cpuOf(pid, async () => {
    for await (const answer of client.line.searchLog(pattern)) end = answer.end ?? undefined;
  });
  const seconds = (performance.now() - fromMs) / 1_000;
  if (end?.reason !== COMPLETE) throw new Error(`the search ended with the reason ${end?.reason}: ${end?.error}`);
  return { rate: Number(end.progress?.bytes) / seconds / 1e6, cpu };
}

const COMPLETE = 1;

/** Readings of a device, one after the other, of which no two are the same. */
function entryOf(n: number, bytes: number): Buffer {
  const count = bytes / READING_BYTES;
  const lines = Array.from({ length: count }, (_, i) => {
    const reading = n * count + i;
    const value = ((Math.imul(reading, 2_654_435_761) >>> 16) % 10_000) / 100;
    return `$SIM,${String(reading).padStart(7, '0')},TEMP,${value.toFixed(2).padStart(5)},C,OK\r\n`;
  });
  return Buffer.from(lines.join(''));
}

/** Million bytes a second. */
async function grepRate({ entries, entryBytes }: Log, { quick }: Context): Promise<number> {
  const file = join(temporaryDirectory(), 'log.gz');
  const count = quick ? entries * QUICK_SHARE : entries;
  const bytes = Buffer.concat(Array.from({ length: count }, (_, n) => entryOf(n, entryBytes)));
  writeFileSync(file, gzipSync(bytes));
  const { text } = patterns['text, letter case ignored'];
  const once = async (): Promise<number> => {
    const fromMs = performance.now();
    const script = 'gzip -dc "$0" | LC_ALL=C grep -a -c -F -i "$1"';
    const { stdout } = spawnSync('sh', ['-c', script, file, text], { encoding: 'utf8' });
    if (stdout.trim() !== '0') throw new Error(`grep has found ${stdout}`);
    return bytes.length / (performance.now() - fromMs) / 1_000;
  };
  const { grep } = await inTurns({ rounds: quick ? 1 : 3 }, { grep: once });
  return median(grep);
}
