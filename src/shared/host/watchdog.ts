/**
 * Feeds systemd's watchdog while everything answers. That these rounds are made at all shows that the main loop turns; the
 * checks ask the rest. A part that does not answer is named in the log, the watchdog is not fed, and systemd kills the process
 * and starts it again.
 */
import { type Clock, endsWithin, type Timer } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import type { Logger } from '../base/logger.ts';
import type { Notifier } from './notify.ts';

export interface Check {
  /** As the log names it: "the log worker". */
  readonly name: string;
  /** Returns or resolves where it is at work, throws or rejects where it is known not to be. */
  readonly answers: () => Promise<void> | void;
}

export interface WatchdogOptions {
  readonly notifier: Notifier;
  readonly checks: readonly Check[];
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface Watchdog {
  stop(): void;
}

/**
 * Part of the interval: how often it is fed, and the limit of a check's answer. A part that hangs for less than the interval less
 * one such part costs a round at most, since the question stays asked: a card may take seconds for an fsync.
 */
const PART = 1 / 3;

/** Does nothing without a watchdog. */
export function startWatchdog(options: WatchdogOptions): Watchdog {
  const { watchdogIntervalMs } = options.notifier;
  return watchdogIntervalMs === undefined ? { stop() {} } : new WatchdogLoop(options, watchdogIntervalMs * PART);
}

class WatchdogLoop implements Watchdog {
  readonly #o: WatchdogOptions;
  readonly #partMs: number;
  readonly #asked: readonly Asked[];
  /** One for each round: a single lasting promise would keep all that any round has waited for. */
  #end = Promise.withResolvers<void>();
  #timer: Timer | undefined;
  #stopped = false;

  constructor(options: WatchdogOptions, partMs: number) {
    this.#o = options;
    this.#partMs = partMs;
    this.#asked = options.checks.map((check) => new Asked(check));
    void this.#round();
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    // A limit that still runs would keep the process.
    this.#end.resolve();
  }

  async #round(): Promise<void> {
    const { clock, notifier } = this.#o;
    const fromMs = clock.monoMs();
    this.#end = Promise.withResolvers<void>();
    const answers = await Promise.all(this.#asked.map((asked) => this.#look(asked)));
    if (this.#stopped) return;
    if (answers.every(Boolean)) notifier.watchdog();
    const tookMs = clock.monoMs() - fromMs;
    this.#timer = clock.timer(Math.max(0, this.#partMs - tookMs), () => void this.#round());
  }

  async #look(asked: Asked): Promise<boolean> {
    const { clock, logger } = this.#o;
    let why = `no answer within ${Math.round(this.#partMs)} ms`;
    let isWell = false;
    try {
      isWell = await endsWithin(clock, this.#partMs, Promise.race([asked.answer(), this.#end.promise]));
    } catch (error) {
      why = messageOf(error);
    }
    if (isWell === asked.isWell || this.#stopped) return isWell;
    asked.isWell = isWell;
    if (isWell) logger.info('watchdog: it answers again', { who: asked.name });
    else logger.error('watchdog: not fed, one does not answer', { who: asked.name, why });
    return isWell;
  }
}

/** One question at a time: a question that has not been answered is not asked again. */
class Asked {
  readonly #check: Check;
  #pending: Promise<void> | undefined;
  isWell = true;

  constructor(check: Check) {
    this.#check = check;
  }

  get name(): string {
    return this.#check.name;
  }

  answer(): Promise<void> {
    this.#pending ??= this.#ask().finally(() => {
      this.#pending = undefined;
    });
    return this.#pending;
  }

  async #ask(): Promise<void> {
    await this.#check.answers();
  }
}
