/** The reports of a process to systemd from its start to its stop: stages, readiness, status, heartbeat. */
import type { Clock, Timer } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import type { Logger } from '../base/logger.ts';
import type { Notifier } from './notify.ts';
import { type Check, startWatchdog, type Watchdog } from './watchdog.ts';

/** For a part of the service, or a process of it. */
export interface HealthReport {
  /** In one line, for systemctl status. */
  readonly status: () => Promise<string> | string;
  readonly checks: readonly Check[];
}

/** A stage of the start that takes longer hangs: the largest is the look through a database on a slow card. */
const STAGE_LIMIT_MS = 300_000;
/** How often the status is looked at; it is sent when it has changed. */
const STATUS_MS = 5_000;

export interface SystemdReportOptions {
  readonly notifier: Notifier;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class SystemdReport {
  readonly #o: SystemdReportOptions;
  #healthReport: HealthReport | undefined;
  #watchdog: Watchdog | undefined;
  #timer: Timer | undefined;
  #remark = '';
  #said = '';

  constructor(options: SystemdReportOptions) {
    this.#o = options;
  }

  /** The step of the start under way. */
  stage(text: string): void {
    const { notifier } = this.#o;
    notifier.status(text);
    notifier.extendTimeout(STAGE_LIMIT_MS);
  }

  /** The start has failed. */
  failed(why: string): void {
    this.#o.notifier.status(why);
  }

  /** The start is done. */
  async up(healthReport: HealthReport): Promise<void> {
    const { notifier, clock, logger } = this.#o;
    if (!notifier.enabled) return;
    this.#healthReport = healthReport;
    this.#said = await this.#text();
    notifier.ready(this.#said);
    this.#watchdog = startWatchdog({ notifier, checks: healthReport.checks, clock, logger });
    this.#arm();
  }

  reloading(): void {
    this.#o.notifier.reloading();
  }

  /** `remark` stays behind the status until the next reload; '' is none. */
  async reloaded(remark: string): Promise<void> {
    const { notifier } = this.#o;
    if (!notifier.enabled) return;
    this.#remark = remark;
    const text = await this.#text();
    // A hub that has ended itself meanwhile is not ready.
    if (this.#healthReport === undefined) return;
    this.#said = text;
    notifier.ready(text);
  }

  /** `limitMs`: what the whole stop may take. */
  stopping(limitMs: number): void {
    this.#healthReport = undefined;
    this.#watchdog?.stop();
    this.#timer?.cancel();
    this.#o.notifier.stopping('stopping');
    this.#o.notifier.extendTimeout(limitMs);
  }

  async #look(): Promise<void> {
    const text = await this.#text();
    if (this.#healthReport === undefined) return;
    if (text !== this.#said) this.#o.notifier.status(text);
    this.#said = text;
    this.#arm();
  }

  #arm(): void {
    this.#timer = this.#o.clock.timer(STATUS_MS, () => void this.#look());
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
