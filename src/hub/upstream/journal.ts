/** What the shipper counts, and the few things of which it makes a line in the log. */
import type { Logger } from '../../shared/base/logger.ts';
import type { Transport } from './face.ts';
import type { Gap, Packed } from './packer.ts';
import { Cause } from './packer.ts';

const causes: Readonly<Record<number, string>> = {
  [Cause.NOT_STORED]: 'not stored',
  [Cause.OVERTAKEN]: 'overtaken by retention',
  [Cause.LOG_REPLACED]: 'the log was replaced',
  [Cause.TOO_LARGE]: 'too large',
};

export class Journal {
  readonly #logger: Logger;
  readonly #transport: Transport['name'];
  sentEntries = 0;
  sentBytes = 0;
  wireBytes = 0;
  batches = 0;
  repeatedBatches = 0;
  gapsSent = 0;
  entriesLost = 0;
  /** undefined: not tried yet. */
  #connected: boolean | undefined;
  #refused = false;
  #lineAnswers = true;
  #affordable = true;
  #saves = true;
  #trouble = '';

  constructor(logger: Logger, transport: Transport['name']) {
    this.#logger = logger;
    this.#transport = transport;
  }

  /** It answers; of one that has refused a batch that says nothing. */
  reached(): void {
    if (!this.#refused) this.connected();
  }

  connected(): void {
    this.#refused = false;
    if (this.#connected !== true) this.#logger.info('upstream: connected', { transport: this.#transport });
    this.#connected = true;
  }

  disconnected(reason: string): void {
    if (this.#connected !== false) {
      this.#logger.warn('upstream: not connected, the serial log waits', { transport: this.#transport, reason });
    }
    this.#connected = false;
  }

  /** Told once, until something is stored again. */
  refused(reason: string): void {
    if (!this.#refused) this.#logger.warn('upstream: the other side refuses the serial log, which waits', { reason });
    this.#refused = true;
    this.#connected = false;
  }

  line(reason: string): void {
    const answers = reason === '';
    if (!answers && this.#lineAnswers) this.#logger.warn('upstream: the line does not answer', { reason });
    if (answers && !this.#lineAnswers) this.#logger.info('upstream: the line answers again');
    this.#lineAnswers = answers;
  }

  budget(affordable: boolean, used: number, limit: number): void {
    if (affordable === this.#affordable) return;
    this.#affordable = affordable;
    if (affordable) this.#logger.info('upstream: the data budget has room again');
    else this.#logger.warn('upstream: the data budget of 24 h is used up, the serial log waits', { used, limit });
  }

  saved(error: string): void {
    if (error !== '' && this.#saves) {
      this.#logger.warn('upstream: the position could not be saved: after a restart some batches go again', { error });
    }
    this.#saves = error === '';
  }

  replaced(logId: string): void {
    this.#logger.warn('upstream: the log of the line was replaced by another', { log: logId });
  }

  wentBack(logId: string, endsAt: number, sent: number): void {
    this.#logger.warn(
      'upstream: the log ends before what was sent of it (was an earlier copy put back?): its next entries bear ids that were used',
      { log: logId, ends_at: endsAt, sent },
    );
  }

  moved(from: number, to: number): void {
    this.#logger.warn('upstream: the other side is not where this one left it, and is followed', { from, to });
  }

  /** Told once, until something is stored. */
  trouble(error: string): void {
    if (error === this.#trouble) return;
    this.#trouble = error;
    this.#logger.error('upstream: unexpected failure, it is tried again', { error });
  }

  sent({ entries, lineBytes, gaps }: Packed): void {
    this.#trouble = '';
    this.batches += 1;
    this.sentEntries += entries.length;
    this.sentBytes += lineBytes;
    for (const gap of gaps) this.#lost(gap);
  }

  #lost({ cause, firstId, lastId, entries, reason }: Gap): void {
    this.gapsSent += 1;
    this.entriesLost += entries;
    this.#logger.warn('upstream: the central side was told of entries that it will not get', {
      cause: causes[cause] ?? String(cause),
      first: firstId,
      last: lastId,
      entries,
      reason,
    });
  }
}
