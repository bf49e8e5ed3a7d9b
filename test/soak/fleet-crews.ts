/**
 * The crews of a fleet seen from the outside: starts them, adds up what they say, and names one that has fallen silent,
 * with what its threads wait for and, where it can still give one, its report.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { KafkaOptions } from '../../src/hub/kafka/face.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { monotonicMs } from '../gate.ts';

export interface CrewOrders {
  readonly dir: string;
  /** Numbers of its boxes: from the first, so many. */
  readonly first: number;
  readonly count: number;
  readonly seed: number;
  readonly kafka: Omit<KafkaOptions, 'clientId'>;
}

export type ToCrew =
  | { readonly kind: 'begin'; readonly orders: CrewOrders }
  /** Each box writes a change now and then; 0: none of them any more. */
  | { readonly kind: 'write'; readonly everyMs: number }
  | { readonly kind: 'end' };

/** Of a crew that has no boxes yet. */
const nothing = {
  connected: 0,
  started: 0,
  written: 0,
  waiting: 0,
  unreached: 0,
  replaced: 0,
  rssBytes: 0,
  cpuMs: 0,
};
export type Totals = Readonly<typeof nothing>;
export type Tally = Totals & { readonly kind: 'tally' };
/** A box found its broker, or lost it. */
export interface Turn {
  readonly kind: 'turn';
  readonly box: string;
  readonly connected: boolean;
  /** monotonicMs() */
  readonly atMs: number;
}
/** Boxes and how many changes each has written. */
export interface Ended {
  readonly kind: 'ended';
  readonly written: Readonly<Record<string, number>>;
}
export type FromCrew = Tally | Turn | Ended;

/** A tally comes each second; with a thousand boxes on two cores some are late. */
const SILENT_MS = 60_000;
const REPORT_MS = 2_000;

interface Crew {
  readonly child: ChildProcess;
  readonly first: number;
  heardMs: number;
  tally: Tally | undefined;
  written: Readonly<Record<string, number>> | undefined;
  /** Why it has ended, when it should not have. */
  fault: string;
}

export class Crews {
  /** Of every box, in the order in which they were heard of. */
  readonly turns: Turn[] = [];
  readonly #crews: Crew[] = [];
  readonly #dir: string;

  constructor(dir: string) {
    this.#dir = dir;
  }

  start(orders: Omit<CrewOrders, 'dir'>): void {
    const dir = join(this.#dir, `crew-${orders.first}`);
    mkdirSync(dir);
    const child = fork(join(import.meta.dirname, 'fleet-crew.ts'), {
      execArgv: ['--import', 'tsx/esm', '--max-semi-space-size=1', `--report-directory=${dir}`, '--report-on-signal'],
      // A lookup of an unreachable broker holds a thread for seconds.
      env: { ...process.env, UV_THREADPOOL_SIZE: String(orders.count + 8), NODE_TEST_CONTEXT: undefined },
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    const { first } = orders;
    const crew: Crew = { child, first, heardMs: monotonicMs(), tally: undefined, written: undefined, fault: '' };
    child.on('message', (message: FromCrew) => this.#heard(crew, message));
    child.on('exit', (status, signal) => {
      if (crew.written === undefined) crew.fault = `ended with ${status ?? signal}`;
    });
    this.#crews.push(crew);
    this.#send(crew, { kind: 'begin', orders: { ...orders, dir } });
  }

  get size(): number {
    return this.#crews.length;
  }

  write(everyMs: number): void {
    for (const crew of this.#crews) this.#send(crew, { kind: 'write', everyMs });
  }

  totals(): Totals {
    const sums = { ...nothing };
    const names = Object.keys(sums) as (keyof Totals)[];
    for (const { tally } of this.#crews) for (const name of names) sums[name] += tally?.[name] ?? 0;
    return sums;
  }

  /** As until(), but fails sooner where a crew has ended or says nothing any more. */
  async until(what: string, look: () => boolean, limitMs: number): Promise<void> {
    await until(
      what,
      async () => {
        await this.#check();
        return look();
      },
      limitMs,
    ).catch((error: unknown) => {
      throw new Error(`${String(error)}\n${JSON.stringify(this.totals())}`);
    });
  }

  /** Ends all of them; how many changes each box has written. */
  async end(limitMs: number): Promise<ReadonlyMap<string, number>> {
    for (const crew of this.#crews) this.#send(crew, { kind: 'end' });
    await this.until('all crews have ended', () => this.#crews.every(({ written }) => written !== undefined), limitMs);
    return new Map(this.#crews.flatMap(({ written }) => Object.entries(written ?? {})));
  }

  /** Whatever still runs. */
  kill(): void {
    for (const { child } of this.#crews) child.kill('SIGKILL');
  }

  #send(crew: Crew, message: ToCrew): void {
    // One that has ended says so by its exit.
    crew.child.send(message, () => {});
  }

  #heard(crew: Crew, message: FromCrew): void {
    crew.heardMs = monotonicMs();
    if (message.kind === 'tally') crew.tally = message;
    else if (message.kind === 'turn') this.turns.push(message);
    else crew.written = message.written;
  }

  async #check(): Promise<void> {
    for (const crew of this.#crews) {
      const name = `the crew of boxes from ${crew.first} on, process ${crew.child.pid},`;
      if (crew.fault !== '') throw new Error(`${name} ${crew.fault}`);
      if (crew.written !== undefined || monotonicMs() - crew.heardMs < SILENT_MS) continue;
      crew.child.kill('SIGUSR2');
      await sleep(REPORT_MS);
      throw new Error(`${name} says nothing any more\n${standing(crew.child.pid ?? 0)}`);
    }
  }
}

/** What each thread of a process is doing, as the kernel sees it: name, state, and what it waits for. */
function standing(pid: number): string {
  const threads = new Map<string, number>();
  for (const tid of readdirSync(`/proc/${pid}/task`)) {
    const read = (file: string): string => {
      try {
        return readFileSync(`/proc/${pid}/task/${tid}/${file}`, 'utf8').trim();
      } catch {
        return '?';
      }
    };
    const state = /\) (\S)/.exec(read('stat'))?.[1] ?? '?';
    const line = `${tid === String(pid) ? 'main thread' : read('comm')} ${state} ${read('wchan')} ${read('syscall').split(' ')[0]}`;
    threads.set(line, (threads.get(line) ?? 0) + 1);
  }
  return [...threads].map(([line, times]) => `  ${times} x ${line}`).join('\n');
}
