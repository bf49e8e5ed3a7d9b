/** What the shipper has to know of the change events, which go first: whether some wait that can go, and whether their broker is there. */
import type { Clock } from '../../shared/base/clock.ts';

interface Publishing {
  readonly waiting: number;
  readonly publishedTotal: number;
}

interface BrokerNow {
  readonly connected: boolean;
  readonly reason: string;
}

/** Rows that have not moved for so long are refused or have no partition, and are not waited for. */
const STUCK_MS = 30_000;

export class ChangeEvents {
  readonly #publishing: () => Publishing;
  readonly #broker: () => BrokerNow | undefined;
  readonly #clock: Clock;
  #published = -1;
  /** When one was published last, or none waited. */
  #movedMs: number;

  /** `broker` answers undefined where none is configured. */
  constructor(publishing: () => Publishing, broker: () => BrokerNow | undefined, clock: Clock) {
    this.#publishing = publishing;
    this.#broker = broker;
    this.#clock = clock;
    this.#movedMs = clock.monoMs();
  }

  busy(): boolean {
    const { waiting, publishedTotal } = this.#publishing();
    const nowMs = this.#clock.monoMs();
    if (waiting === 0 || publishedTotal !== this.#published) this.#movedMs = nowMs;
    this.#published = publishedTotal;
    return waiting > 0 && this.#broker()?.connected === true && nowMs - this.#movedMs < STUCK_MS;
  }

  /** Why the broker cannot be reached; '': it can, or that is not known. */
  outage(): string {
    const broker = this.#broker();
    return broker === undefined || broker.connected ? '' : broker.reason;
  }
}
