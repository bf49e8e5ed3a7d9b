/** The shipper's counters, and the few events that it logs for the operator. */
import type { Logger } from '../../shared/base/logger.ts';
import { FailureLog } from '../../shared/base/loop.ts';
import type { Gap, Packed } from './packer.ts';
import { Cause } from './packer.ts';
import type { Transport } from './transport.ts';

const causes: Readonly<Record<number, string>> = {
  [Cause.NOT_STORED]: 'not stored',
  [Cause.OVERTAKEN]: 'overtaken by retention',
  [Cause.LOG_REPLACED]: 'the log was replaced',
  [Cause.TOO_LARGE]: 'too large',
};

export class UpstreamStats {
  readonly #logger: Logger;
  readonly #transport: Transport['name'];
  /** Since the start of the process. */
  readonly counters = {
    sentEntries: 0,
    /** Bytes of the serial line in the entries sent. */
    sentBytes: 0,
    /** Bytes on the link: compressed, with what the protocol adds, and whatever had to be sent again. */
    wireBytes: 0,
    batches: 0,
    /** Batches that were not stored at the first try, and were sent again. */
    repeatedBatches: 0,
    gapsSent: 0,
    /** Entries in the gaps that were sent: the central side will never have them. */
    entriesLost: 0,
  };
  readonly line: FailureLog;
  readonly positionFile: FailureLog;
  /** Ends when something is stored. */
  readonly unexpected: FailureLog;
  readonly #budget: FailureLog;
  /** undefined: not tried yet. */
  #connected: boolean | undefined;
  #refused = false;

  constructor(logger: Logger, transport: Transport['name']) {
    this.#logger = logger;
    this.#transport = transport;
    const outage = (failed: string, recovered: string): FailureLog =>
      new FailureLog(logger, `upstream: ${failed}`, `upstream: ${recovered}`);
    this.line = outage('the line does not answer', 'the line answers again');
    this.positionFile = outage(
      'the position could not be saved: after a restart some batches are sent again',
      'the position can be saved again',
    );
    this.unexpected = outage('unexpected failure, retrying', 'the serial log is sent again');
    this.#budget = outage('the data budget of 24 h is used up, the serial log waits', 'the data budget has room again');
  }

  /** The remote answers; after a refusal this does not mean that it accepts batches again. */
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

  /** Logged once, until something is stored again. */
  refused(reason: string): void {
    if (!this.#refused) this.#logger.warn('upstream: the remote refuses the serial log, which waits', { reason });
    this.#refused = true;
    this.#connected = false;
  }

  budget(isAffordable: boolean, used: number, limit: number): void {
    if (isAffordable) this.#budget.recovered();
    else this.#budget.failed(`${used} of ${limit} bytes are used`);
  }

  replaced(logId: string): void {
    this.#logger.warn('upstream: the log of the line was replaced by another', { log: logId });
  }

  wentBack(logId: string, endsAt: number, sent: number): void {
    this.#logger.warn(
      'upstream: the log ends before what was sent of it (was an earlier copy restored?): its next entries reuse ids',
      { log: logId, ends_at: endsAt, sent },
    );
  }

  moved(from: number, to: number): void {
    this.#logger.warn('upstream: the remote has another position than expected, resuming there', { from, to });
  }

  sent({ entries, lineBytes, gaps }: Packed): void {
    this.unexpected.recovered();
    this.counters.batches += 1;
    this.counters.sentEntries += entries;
    this.counters.sentBytes += lineBytes;
    for (const gap of gaps) this.#lost(gap);
  }

  #lost({ cause, firstId, lastId, entries, reason }: Gap): void {
    this.counters.gapsSent += 1;
    this.counters.entriesLost += entries;
    this.#logger.warn('upstream: a gap was sent: the remote will never get these entries', {
      cause: causes[cause] ?? String(cause),
      first: firstId,
      last: lastId,
      entries,
      reason,
    });
  }
}
