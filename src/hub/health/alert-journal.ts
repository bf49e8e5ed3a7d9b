/** Alerts in the operator's log: one line when one fires, one when it has ended, however often they are read. */
import type { Alert } from '../../shared/base/alerts.ts';
import type { Clock } from '../../shared/base/clock.ts';
import type { Logger } from '../../shared/base/logger.ts';

/** One that wavers about its limit is reported as one: at most two lines in so long, whatever it does. */
const QUIET_MS = 60_000;

interface Told {
  readonly firedMs: number;
  /** When it was seen last. */
  seenMs: number;
}

export class AlertJournal {
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** By name: as many as there are rules at most. */
  readonly #told = new Map<string, Told>();

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock;
    this.#logger = logger;
  }

  /** What fires now. */
  look(alerts: readonly Alert[]): void {
    const nowMs = this.#clock.monoMs();
    for (const alert of alerts) {
      const told = this.#told.get(alert.name);
      if (told !== undefined) {
        told.seenMs = nowMs;
        continue;
      }
      this.#told.set(alert.name, { firedMs: nowMs - alert.forSeconds * 1_000, seenMs: nowMs });
      this.#fired(alert);
    }
    for (const [name, { firedMs, seenMs }] of this.#told) {
      if (nowMs - seenMs < QUIET_MS) continue;
      this.#told.delete(name);
      this.#logger.info('alert ended', { alert: name, lasted_s: Math.floor((seenMs - firedMs) / 1_000) });
    }
  }

  #fired({ name, severity, summary }: Alert): void {
    const fields = { alert: name, severity, summary };
    if (severity === 'critical') this.#logger.error('alert fired', fields);
    else if (severity === 'warning') this.#logger.warn('alert fired', fields);
    else this.#logger.info('alert fired', fields);
  }
}
