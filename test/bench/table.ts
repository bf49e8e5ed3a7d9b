/** The table: a line is a figure of lineside's, what it is held against, and whether the aim is met. */
import { readFileSync } from 'node:fs';
import { cpus, release } from 'node:os';

export type Verdict = 'met' | 'missed' | 'shown' | 'SKIPPED';

export interface Line {
  readonly row: string;
  readonly lineside: string;
  readonly against: string;
  readonly ratio: string;
  readonly aim: string;
  readonly verdict: Verdict;
}

export interface Context {
  /** Shorter windows and smaller logs: to see that everything runs. */
  readonly quick: boolean;
  readonly say: (text: string) => void;
}

/** A row of the table; it may take several lines. */
export interface Row {
  readonly name: string;
  /** Why an aim of it is missed: what a profile showed, what was tried. Printed while one is missed. */
  readonly whyMissed?: string;
  run(context: Context): Promise<readonly Line[]>;
}

/** Of a backlog: from the first message offered to the last one acknowledged. */
export interface Drained {
  readonly ms: number;
  /** CPU seconds of the sending processes meanwhile. */
  readonly cpu: number;
}

type Judged = Pick<Line, 'ratio' | 'aim' | 'verdict'>;

export function judge(ok: boolean): Verdict {
  return ok ? 'met' : 'missed';
}

/** Held against a peer: `ratio` is lineside's figure divided by the peer's. */
export function atLeast(ratio: number, aim: number, unit = ''): Judged {
  return { ratio: times(ratio), aim: `at least ${aim} x${unit}`, verdict: judge(ratio >= aim) };
}

/** More than the peer's, in milliseconds or megabytes. */
export function atMost(found: number, aim: number, unit: string): Judged {
  return { ratio: `${Math.round(found)} ${unit}`, aim: `at most ${aim} ${unit}`, verdict: judge(found <= aim) };
}

export function more(difference: number, digits: number, unit: string, aim: string, ok: boolean): Judged {
  const sign = difference >= 0 ? '+' : '';
  return { ratio: `${sign}${difference.toFixed(digits)} ${unit}`, aim, verdict: judge(ok) };
}

export function shown(ratio: string, aim = 'shown beside it'): Judged {
  return { ratio, aim, verdict: 'shown' };
}

/**
 * What each contender gives in each round: they take turns, so that the machine's noise falls on all. `warmUp`: one more
 * round before the first, which is -1 and does not count.
 */
export async function inTurns<Name extends string, Result>(
  { rounds, warmUp = false }: { readonly rounds: number; readonly warmUp?: boolean },
  contenders: Readonly<Record<Name, (round: number) => Promise<Result>>>,
  heard: (name: Name, result: Result) => void = () => undefined,
): Promise<Readonly<Record<Name, Result[]>>> {
  const names = Object.keys(contenders) as Name[];
  const found = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<Name, Result[]>;
  for (let round = warmUp ? -1 : 0; round < rounds; round++) {
    for (const name of names) {
      const result = await contenders[name](round);
      heard(name, result);
      if (round >= 0) found[name].push(result);
    }
  }
  return found;
}

/** Changes a second, by so many clients at once. */
export async function rate(count: number, clients: number, change: (n: number) => unknown): Promise<number> {
  let next = 0;
  const begin = performance.now();
  const client = async (): Promise<void> => {
    while (next < count) await change(next++);
  };
  await Promise.all(Array.from({ length: clients }, client));
  return (count / (performance.now() - begin)) * 1_000;
}

interface DrainRow {
  readonly row: string;
  readonly rounds: number;
  readonly say: Context['say'];
  /** What was sent, in so many milliseconds. */
  readonly rate: (ms: number) => string;
  readonly own: () => Promise<Drained>;
  readonly ownNote: string;
  readonly bare: () => Promise<Drained>;
  readonly bareWhat: string;
  readonly aim: number;
}

/** What had piled up, sent by lineside and by a bare client in turns. */
export async function drainLine({ row, rounds, say, rate, aim, ...drains }: DrainRow): Promise<Line> {
  const show = ({ ms, cpu }: Drained): string => `${rate(ms)}, ${cpu.toFixed(1)} CPU s`;
  const { bare, own } = drains;
  const found = await inTurns({ rounds }, { bare, own }, (who, one) => say(`${row}, ${who}: ${show(one)}`));
  const [ours, theirs] = [medians(found.own), medians(found.bare)];
  const against = `${drains.bareWhat}: ${show(theirs)}`;
  return { row, lineside: `${show(ours)}${drains.ownNote}`, against, ...atLeast(theirs.ms / ours.ms, aim) };
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

export function medianOf<T>(all: readonly T[], figure: (one: T) => number): number {
  return median(all.map(figure));
}

/** The median of each figure. */
export function medians<Figures extends object>(all: readonly Figures[] = []): Figures {
  const [first = {}] = all;
  const names = Object.keys(first) as (keyof Figures)[];
  return Object.fromEntries(names.map((name) => [name, medianOf(all, (one) => Number(one[name]))])) as Figures;
}

export function rounded(values: readonly number[]): string {
  return values.map((value) => Math.round(value)).join(' ');
}

export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN;
}

export function times(ratio: number): string {
  return `${ratio.toFixed(2)} x`;
}

export function machine(): readonly string[] {
  const models = cpus();
  const memory = /MemTotal:\s+(\d+)/.exec(readFileSync('/proc/meminfo', 'utf8'))?.[1];
  return [
    `${models.length} cores, ${models[0]?.model.trim() ?? 'unknown CPU'}, ${(Number(memory) / 1_048_576).toFixed(1)} GiB`,
    `Linux ${release()}, Node ${process.version}`,
  ];
}

const header: Line = {
  row: 'row',
  lineside: 'lineside',
  against: 'against',
  ratio: 'ratio',
  aim: 'aim',
  verdict: 'shown',
};

export function render(lines: readonly Line[]): string {
  const cells = (line: Line, verdict: string): string =>
    `| ${[line.row, line.lineside, line.against, line.ratio, line.aim, verdict].join(' | ')} |`;
  return [cells(header, ''), '|---|---|---|---|---|---|', ...lines.map((line) => cells(line, line.verdict))].join('\n');
}
