/**
 * Traffic and errors of the line, temperature and card writes of the box, minute by minute for 30 days of uptime. Sampled every ten
 * seconds; the running hour is in memory and is stored when it is over, or at the stop. An hour in which nothing changed waits in memory
 * for the next one in which something did: a power failure loses up to an hour, and such hours before it.
 */
import { randomUUID } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { type Clock, withLimit } from '../../shared/base/clock.ts';
import { messageOf } from '../../shared/base/errors.ts';
import type { Logger } from '../../shared/base/logger.ts';
import { FailureLog, Loop } from '../../shared/base/loop.ts';
import type { ClockSync } from '../../shared/host/clock-sync.ts';
import type { HostFacts } from '../../shared/host/host-facts.ts';
import { type LineNumbers, statusNumbers } from '../../shared/proto/line-status.ts';
import type { lineside } from '../../shared/proto/services.ts';
import { HistoryFile, type Hour, type HourHead, MAX_STORED_MINUTES } from './history-file.ts';
import { increase, intervalOf } from './interval.ts';
import {
  type Column,
  columns,
  MINUTES_OF_ROW,
  type Minutes,
  noMinutes,
  packMinutes,
  unpackMinutes,
} from './minutes.ts';
import {
  deciKelvin,
  type Gap,
  gapsOf,
  MINUTE_MS,
  type Placed,
  type Placement,
  placements,
  type Series,
  SeriesSums,
  spanOf,
} from './series.ts';

const INTERVAL_MS = 10_000;
/** A line that works answers in milliseconds. */
const ANSWER_LIMIT_MS = 2_000;
/** A temperature that differs so much from the one before is a change. */
const CHANGE_DECI_KELVIN = 50;
/** An answer for 30 days unpacks 720: between so many of them the hub does its other work, which waits 1 to 3 ms. */
const HOURS_PER_TURN = 24;
/** The newest; older ones are seen in the series. */
const MAX_GAPS = 100;

export interface HistoryOptions {
  /** Holds history.db. */
  readonly dir: string;
  /** Rejects if the line does not answer. */
  readonly askLine: (signal: AbortSignal) => Promise<lineside.v1.LineStatus>;
  readonly host: { facts(): HostFacts };
  readonly clockSync: Pick<ClockSync, 'bootId' | 'bootMs' | 'offsetMs' | 'state'>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Default: 30 days of them, which are 0.2 to 0.8 MB. */
  readonly maxWaitingHours?: number;
}

/** What is asked for; untilMs and sinceMs are Unix milliseconds. */
export interface HistoryRequest {
  readonly sinceMs: number;
  readonly untilMs: number;
  readonly stepMs: number;
}

export interface HistoryAnswer extends Series {
  readonly fromMs: number;
  readonly stepS: number;
  /** Begin of the oldest hour that is known; null: there is none. */
  readonly firstMs: number | null;
  readonly isClockVerified: boolean;
  readonly gaps: readonly Gap[];
  /** Why hours are not stored now; '': they are. */
  readonly fault: string;
}

export interface HistoryHealth {
  /** Why hours are not stored now; '': they are. */
  readonly fault: string;
  /** Of the hours that wait for a commit. */
  readonly unstoredMinutes: number;
  readonly lostHours: number;
  readonly commits: number;
}

interface Sample {
  readonly atMs: number;
  /** undefined: it did not answer. */
  readonly line: LineNumbers | undefined;
  /** Tenths of a kelvin; 0: unknown. */
  readonly heat: number;
  /** Since the boot; null: unknown. */
  readonly cardBytes: number | null;
}

interface RunningHour {
  readonly firstMinute: number;
  readonly minutes: Minutes;
}

type Known = readonly [head: HourHead, minutes: () => Minutes];

export class History {
  readonly #o: HistoryOptions;
  readonly #boot: string;
  readonly #file: HistoryFile;
  readonly #failures: FailureLog;
  readonly #loop: Loop;
  #running: RunningHour | undefined;
  /** While the disk is full, or nothing changes. */
  #waiting: Hour[] = [];
  #before: Sample | undefined;
  /** State of the port and temperature, as they were when they last changed. */
  #noted: Sample | undefined;
  /** In the running hour. The first one since the start is stored in any case: it shows the start. */
  #isChanged = true;
  #fault = '';
  #lostHours = 0;
  #commits = 0;

  constructor(options: HistoryOptions) {
    const { dir, clockSync, clock, logger } = options;
    this.#o = options;
    // Where the kernel does not say, each run is a boot of its own.
    this.#boot = clockSync.bootId || randomUUID();
    this.#file = new HistoryFile(dir, logger);
    this.#failures = new FailureLog(logger, 'history is not stored', 'history is stored again');
    this.#loop = new Loop({ pass: (signal) => this.#pass(signal), clock });
  }

  start(): void {
    this.#try(() => this.#resume());
    this.#loop.start();
  }

  async stop(): Promise<void> {
    await this.#loop.stop();
    this.#endHour();
    if (this.#waiting.length > 0) this.#store();
    this.#file.close();
  }

  health(): HistoryHealth {
    const unstoredMinutes = this.#waiting.reduce((sum, { minutes }) => sum + minutes, 0);
    return { fault: this.#fault, unstoredMinutes, lostHours: this.#lostHours, commits: this.#commits };
  }

  async read({ sinceMs, untilMs, stepMs }: HistoryRequest): Promise<HistoryAnswer> {
    const known = this.#known();
    const now = this.#placement();
    const places = placements(known.map(([head]) => head));
    // The clock of this boot may have been set since its last hour.
    places.set(this.#boot, now);
    const span = spanOf(sinceMs, untilMs, stepMs);
    const sums = new SeriesSums(span);
    const rows: Placed[] = [];
    let isClockVerified = true;
    let unpackedHours = 0;
    for (const [head, minutes] of known) {
      const { offsetMs, clock } = places.get(head.boot) ?? now;
      const startMs = head.firstMinute * MINUTE_MS + offsetMs;
      const endMs = startMs + head.minutes * MINUTE_MS;
      if (endMs <= span.fromMs || startMs >= untilMs) {
        rows.push({ boot: head.boot, startMs, endMs });
        continue;
      }
      unpackedHours += 1;
      if (unpackedHours % HOURS_PER_TURN === 0) await setImmediate();
      isClockVerified &&= clock !== 'unsynced';
      const values = minutes();
      sums.add(values, startMs);
      rows.push(...runsOf(head.boot, values, startMs));
    }
    const gaps = gapsOf(rows).filter((gap) => gap.untilMs > span.fromMs && gap.fromMs < untilMs);
    return {
      ...sums.end(),
      fromMs: span.fromMs,
      stepS: stepMs / 1_000,
      firstMs: rows.length === 0 ? null : Math.min(...rows.map(({ startMs }) => startMs)),
      isClockVerified,
      gaps: gaps.slice(-MAX_GAPS),
      fault: this.#fault,
    };
  }

  /** Oldest first. */
  #known(): Known[] {
    const stored: Known[] = [];
    this.#try(() => {
      for (const head of this.#file.heads()) stored.push([head, () => unpacked(this.#file.body(head.id))]);
    });
    const waiting = this.#waiting.map((hour): Known => [hour, () => unpacked(hour.body)]);
    const { minutes } = this.#running ?? {};
    const running: Known[] = minutes === undefined ? [] : [[this.#headOf(this.#running as RunningHour), () => minutes]];
    const isWritten = ({ boot, firstMinute }: HourHead): boolean =>
      boot !== this.#boot || firstMinute !== this.#running?.firstMinute;
    return [...stored.filter(([head]) => isWritten(head)), ...waiting, ...running];
  }

  #placement(): Placement {
    const { clockSync } = this.#o;
    return { offsetMs: Math.round(clockSync.offsetMs()), clock: clockSync.state() };
  }

  #headOf({ firstMinute, minutes }: RunningHour): HourHead {
    return { boot: this.#boot, firstMinute, minutes: minutes.upS.length, ...this.#placement() };
  }

  /** After a restart of the hub within the hour its row is continued. */
  #resume(): void {
    const last = this.#file.last();
    if (last === undefined || last.boot !== this.#boot) return;
    const minute = Math.floor(this.#o.clockSync.bootMs() / MINUTE_MS);
    if (hourOf(last.firstMinute) !== hourOf(minute)) return;
    this.#running = { firstMinute: last.firstMinute, minutes: unpacked(last.body) };
  }

  async #pass(signal: AbortSignal): Promise<number> {
    const { askLine, host, clock, clockSync } = this.#o;
    const line = await withLimit(clock, ANSWER_LIMIT_MS, signal, askLine).then(statusNumbers, () => undefined);
    if (signal.aborted) return INTERVAL_MS;
    const { temperatureCelsius, disk } = host.facts();
    const heat = temperatureCelsius === null ? 0 : deciKelvin(temperatureCelsius);
    const now: Sample = { atMs: clock.monoMs(), line, heat, cardBytes: disk.writtenBytes };
    const before = this.#before;
    this.#before = now;
    if (before === undefined) return INTERVAL_MS;
    // The minute of its middle: an interval that ends with a minute is of that minute.
    const minute = Math.floor((clockSync.bootMs() - (now.atMs - before.atMs) / 2) / MINUTE_MS);
    if (this.#running !== undefined && hourOf(this.#running.firstMinute) !== hourOf(minute)) this.#hourIsOver();
    this.#running ??= { firstMinute: minute, minutes: noMinutes() };
    const { firstMinute, minutes } = this.#running;
    // A boot's clock does not step back.
    const at = Math.max(0, minute - firstMinute);
    for (const name of columns) while (minutes[name].length <= at) minutes[name].push(0);
    if (record(minutes, at, before, now)) this.#isChanged = true;
    if (this.#isOther(now)) {
      this.#noted = now;
      this.#isChanged = true;
    }
    return INTERVAL_MS;
  }

  #isOther({ line, heat }: Sample): boolean {
    const { line: lineBefore, heat: heatBefore = 0 } = this.#noted ?? {};
    return line?.portState !== lineBefore?.portState || Math.abs(heat - heatBefore) >= CHANGE_DECI_KELVIN;
  }

  #hourIsOver(): void {
    this.#endHour();
    if (this.#isChanged || this.#fault !== '') this.#store();
    this.#isChanged = false;
  }

  #endHour(): void {
    if (this.#running === undefined) return;
    this.#waiting.push({ ...this.#headOf(this.#running), body: packMinutes(this.#running.minutes) });
    this.#running = undefined;
    const { maxWaitingHours = MAX_STORED_MINUTES / MINUTES_OF_ROW } = this.#o;
    if (this.#waiting.length <= maxWaitingHours) return;
    this.#waiting.shift();
    this.#lostHours += 1;
  }

  #store(): void {
    this.#try(() => {
      this.#file.write(this.#waiting);
      this.#commits += 1;
      this.#waiting = [];
      this.#fault = '';
      this.#failures.recovered();
    });
  }

  /** The history is no reason to end the hub. */
  #try(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#fault = messageOf(error);
      this.#failures.failed(this.#fault);
    }
  }
}

/** Adds what lies between two samples to a minute. Answers whether there was any traffic or error. */
function record(minutes: Minutes, at: number, before: Sample, now: Sample): boolean {
  const add = (name: Column, value: number): void => {
    minutes[name][at] = (minutes[name][at] ?? 0) + value;
  };
  const seconds = (now.atMs - before.atMs) / 1_000;
  add('upS', seconds);
  if (now.heat > 0) minutes.temperatureDeciKelvin[at] = now.heat;
  if (before.cardBytes !== null && now.cardBytes !== null) {
    if (minutes.cardWrittenBytesPlus1[at] === 0) add('cardWrittenBytesPlus1', 1);
    add('cardWrittenBytesPlus1', increase(before.cardBytes, now.cardBytes));
  }
  if (before.line === undefined || now.line === undefined) return false;
  const { isOpen, ...counts } = intervalOf(before.line, now.line);
  add('lineS', seconds);
  if (isOpen) add('portOpenS', seconds);
  for (const [name, count] of Object.entries(counts)) add(name as keyof typeof counts, count);
  return Object.values(counts).some((count) => count > 0);
}

/** A row of an unknown format is one of which nothing is known. */
function unpacked(body: Uint8Array | undefined): Minutes {
  try {
    return body === undefined ? noMinutes() : unpackMinutes(body);
  } catch (error) {
    if (error instanceof RangeError) return noMinutes();
    throw error;
  }
}

const hourOf = (minute: number): number => Math.floor(minute / MINUTES_OF_ROW);

/** The parts of a row in which the hub ran. */
function runsOf(boot: string, { upS }: Minutes, startMs: number): Placed[] {
  const runs: Placed[] = [];
  let from = -1;
  for (let at = 0; at <= upS.length; at += 1) {
    const isUp = (upS[at] ?? 0) > 0;
    if (isUp && from < 0) from = at;
    if (isUp || from < 0) continue;
    runs.push({ boot, startMs: startMs + from * MINUTE_MS, endMs: startMs + at * MINUTE_MS });
    from = -1;
  }
  return runs;
}
