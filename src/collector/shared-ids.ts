/**
 * Notices two running boxes with one device.id, as after a backup of one was restored on the other: their logs would be taken
 * for one box's. A box has one connection at a time and never returns to an earlier one; two boxes take turns on two.
 */
import type { Clock } from '../shared/base/clock.ts';
import type { Logger } from '../shared/base/logger.ts';

/** One port number that NAT gives a second time is no second box: each of the two has to come back. */
const RETURNS = 2;
const REPORT_EVERY_MS = 3_600_000;
/** Without tokens a caller may name any device; of the oldest one nothing is known then. */
const MAX_DEVICES = 10_000;

interface Seen {
  latest: string;
  former: string;
  /** How often the former one came back since a third was seen. */
  returns: number;
  reportedMs: number;
}

export class SharedIds {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #devices = new Map<string, Seen>();

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock;
    this.#logger = logger;
  }

  /** A call of the device over this connection ("address:port"). */
  seen(device: string, peer: string): void {
    const one = this.#devices.get(device);
    if (one === undefined) {
      const [oldest] = this.#devices.keys();
      if (this.#devices.size >= MAX_DEVICES && oldest !== undefined) this.#devices.delete(oldest);
      this.#devices.set(device, { latest: peer, former: '', returns: 0, reportedMs: Number.NEGATIVE_INFINITY });
      return;
    }
    if (peer === one.latest) return;
    one.returns = peer === one.former ? one.returns + 1 : 0;
    one.former = one.latest;
    one.latest = peer;
    const nowMs = this.#clock.monoMs();
    if (one.returns < RETURNS || nowMs - one.reportedMs < REPORT_EVERY_MS) return;
    one.reportedMs = nowMs;
    this.#logger.error('two boxes use one device.id: give one of them another', {
      device,
      first: one.former,
      second: one.latest,
    });
  }
}
