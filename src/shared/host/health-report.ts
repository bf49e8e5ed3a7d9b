/** The reports of a process to systemd from its start to its stop: stages, readiness, status, watchdog. */
import { type Clock, endsWithin } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import type { Logger } from '../base/logger.ts';
import { Loop } from '../base/loop.ts';
import type { Notifier } from './notify.ts';

export interface Check {
  /** As the log names it: "the log worker". */
  readonly name: string;
  /** Returns or resolves if it is alive, throws or rejects if it is known not to be. */
  readonly answers: () => Promise<void> | void;
}

/** For a part of the service, or a process of it. */
export interface HealthReport {
  /** In one line, for systemctl status. */
  readonly status: () => Promise<string> | string;
  readonly checks: readonly Check[];
}

/** A stage of the start that takes longer hangs: the largest is the look through a database on a slow card. */
const STAGE_LIMIT_MS = 300_000;
/** How often the status is computed; it is sent when it has changed. */
const STATUS_MS = 5_000;

export interface SystemdReportOptions {
  /** undefined: systemd does not listen. */
  readonly notifier: Notifier | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The start or stop under way may last so long from now, whatever the unit's own limit is. */
const extended = (ms: number) => ({ EXTEND_TIMEOUT_USEC: String(ms * 1_000) });

export class SystemdReport {
  readonly #o: SystemdReportOptions;
  #healthReport: HealthReport | undefined;
  #watchdog: Watchdog | undefined;
  readonly #loop: Loop;
  #remark = '';
  #said = '';

  constructor(options: SystemdReportOptions) {
    this.#o = options;
    this.#loop = new Loop({ pass: () => this.#look(), clock: options.clock });
  }

  stage(text: string): void {
    this.#o.notifier?.notify({ STATUS: text, ...extended(STAGE_LIMIT_MS) });
  }

  failed(why: string): void {
    this.#o.notifier?.notify({ STATUS: why });
  }

  async up(healthReport: HealthReport): Promise<void> {
    const { notifier, clock, logger } = this.#o;
    if (notifier === undefined) return;
    this.#healthReport = healthReport;
    this.#ready(await this.#text());
    const { watchdogIntervalMs: intervalMs, notify } = notifier;
    const feed = (): void => notify({ WATCHDOG: '1' });
    if (intervalMs !== undefined) {
      this.#watchdog = new Watchdog({ intervalMs, feed, checks: healthReport.checks, clock, logger });
    }
    this.#loop.start(STATUS_MS);
  }

  reloading(): void {
    // CLOCK_MONOTONIC, as systemd compares it.
    this.#o.notifier?.notify({ RELOADING: '1', MONOTONIC_USEC: String(process.hrtime.bigint() / 1_000n) });
  }

  /** `remark` stays behind the status until the next reload; '' is none. */
  async reloaded(remark: string): Promise<void> {
    this.#remark = remark;
    const text = await this.#text();
    // A hub that has ended itself meanwhile is not ready.
    if (this.#healthReport !== undefined) this.#ready(text);
  }

  /** `limitMs`: what the whole stop may take. */
  stopping(limitMs: number): void {
    this.#healthReport = undefined;
    this.#watchdog?.stop();
    void this.#loop.stop();
    this.#o.notifier?.notify({ STOPPING: '1', STATUS: 'stopping', ...extended(limitMs) });
  }

  #ready(status: string): void {
    this.#said = status;
    this.#o.notifier?.notify({ READY: '1', STATUS: status });
  }

  async #look(): Promise<number> {
    const text = await this.#text();
    if (this.#healthReport !== undefined && text !== this.#said) {
      this.#o.notifier?.notify({ STATUS: text });
      this.#said = text;
    }
    return STATUS_MS;
  }

  async #text(): Promise<string> {
    let text: string;
    try {
      text = (await this.#healthReport?.status()) ?? '';
    } catch (error) {
      text = `its state is unknown: ${messageOf(error)}`;
    }
    return this.#remark === '' ? text : `${this.#remark}; ${text}`;
  }
}

export interface WatchdogOptions {
  readonly intervalMs: number;
  readonly feed: () => void;
  readonly checks: readonly Check[];
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Part of the interval: how often the watchdog is fed, and the limit of a check's answer. A part that hangs for less than the
 * interval less one such part costs a round at most, since a check in flight is not repeated: a card may take seconds for an fsync.
 */
const PART = 1 / 3;

/**
 * Feeds systemd's watchdog while everything answers. That these rounds run at all shows that the main loop runs; the
 * checks cover the rest. A part that does not answer is named in the log, the watchdog is not fed, and systemd kills the process
 * and starts it again.
 */
export class Watchdog {
  readonly #o: WatchdogOptions;
  readonly #partMs: number;
  /** Checks in flight: they are not repeated. */
  readonly #pending = new Map<Check, Promise<void>>();
  readonly #unwell = new Set<Check>();
  /** One for each round: a single lasting promise would keep all that any round has waited for. */
  #end = Promise.withResolvers<void>();
  readonly #loop: Loop;
  #stopped = false;

  constructor(options: WatchdogOptions) {
    this.#o = options;
    this.#partMs = options.intervalMs * PART;
    this.#loop = new Loop({ pass: () => this.#round(), clock: options.clock });
    this.#loop.start();
  }

  stop(): void {
    this.#stopped = true;
    void this.#loop.stop();
    // A limit that still runs would keep the process.
    this.#end.resolve();
  }

  async #round(): Promise<number> {
    const { clock, feed, checks } = this.#o;
    const fromMs = clock.monoMs();
    this.#end = Promise.withResolvers<void>();
    const answers = await Promise.all(checks.map((check) => this.#look(check)));
    if (answers.every(Boolean) && !this.#stopped) feed();
    return this.#partMs - (clock.monoMs() - fromMs);
  }

  async #look(check: Check): Promise<boolean> {
    const { clock, logger } = this.#o;
    let why = `no answer within ${Math.round(this.#partMs)} ms`;
    let isWell = false;
    try {
      isWell = await endsWithin(clock, this.#partMs, Promise.race([this.#answer(check), this.#end.promise]));
    } catch (error) {
      why = messageOf(error);
    }
    if (isWell !== this.#unwell.has(check) || this.#stopped) return isWell;
    if (isWell) {
      this.#unwell.delete(check);
      logger.info('watchdog: it answers again', { who: check.name });
    } else {
      this.#unwell.add(check);
      logger.error('watchdog: not fed, one does not answer', { who: check.name, why });
    }
    return isWell;
  }

  #answer(check: Check): Promise<void> {
    const pending = this.#pending.get(check);
    if (pending !== undefined) return pending;
    const asked = (async () => check.answers())().finally(() => this.#pending.delete(check));
    this.#pending.set(check, asked);
    return asked;
  }
}
