/** What the broker refuses, in the operator's log: a line for each kind of reason, not one for each row or attempt. */
import type { Clock } from '../../../shared/base/clock.ts';
import type { Logger } from '../../../shared/base/logger.ts';
import type { RowUpdate } from './publish-scheduler.ts';

/** A reason that did not occur for so long is logged again. */
const QUIET_MS = 3_600_000;
/** Reasons remembered; librdkafka has some two hundred error codes, of which a broker uses a few. */
const MAX_REASONS = 20;

export class BrokerRejectLog {
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** By kind of ending and reason without its numbers: when it was heard last, monotonic. */
  readonly #heard = new Map<string, number>();

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock;
    this.#logger = logger;
  }

  /** The row by its id only: keys of records are not for the journal. */
  note(write: RowUpdate): void {
    if (write.kind === 'published') return;
    const { kind, id, attempts, reason } = write;
    const nowMs = this.#clock.monoMs();
    const about = `${kind} ${reason.replaceAll(/\d+/g, '')}`;
    const heardMs = this.#heard.get(about);
    if (heardMs === undefined && !this.#hasRoom(nowMs)) return;
    this.#heard.set(about, nowMs);
    if (heardMs !== undefined && nowMs - heardMs < QUIET_MS) return;
    const fields = { outboxId: id, attempts, reason };
    if (kind === 'dead') this.#logger.error('a change cannot be published: it is a dead letter', fields);
    else this.#logger.warn('the broker refuses a change: it and later ones of its key wait', fields);
  }

  #hasRoom(nowMs: number): boolean {
    for (const [about, heardMs] of this.#heard) if (nowMs - heardMs >= QUIET_MS) this.#heard.delete(about);
    return this.#heard.size < MAX_REASONS;
  }
}
