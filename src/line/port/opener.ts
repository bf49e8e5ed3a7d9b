/** Opens devices, one at a time, without making the owner wait: each attempt has one outcome, or fails at its limit. */
import { type Clock, endsWithin } from '../../shared/base/clock.ts';
import { asLinesideError, LinesideError } from '../../shared/base/errors.ts';
import type { Port } from './inventory.ts';
import type { Device, openTty } from './linux/tty.ts';
import type { Target } from './state.ts';

/** No driver in use takes this long to open; one that hangs must not hold the caller for ever. */
const OPEN_LIMIT_MS = 10_000;
/** How long a new attempt waits for an abandoned one, which may still hold the same port. */
const ABANDONED_LIMIT_MS = 5_000;

export type OpenDevice = typeof openTty;

export type Outcome =
  | { readonly kind: 'opened'; readonly target: Target; readonly device: Device }
  | { readonly kind: 'openFailed'; readonly error: LinesideError };

/** Gets each outcome, also those of abandoned attempts; resolves when it was handled. */
type Report = (attempt: symbol, outcome: Outcome) => Promise<void>;

export class Opener {
  readonly #clock: Clock;
  readonly #openDevice: OpenDevice;
  readonly #report: Report;
  /** undefined: abandoned, or claimed. */
  #current: symbol | undefined;
  #underWay: Promise<void> = Promise.resolve();

  constructor(clock: Clock, openDevice: OpenDevice, report: Report) {
    this.#clock = clock;
    this.#openDevice = openDevice;
    this.#report = report;
  }

  /** `locate` finds the port first. */
  start(target: Target, locate: () => Promise<Port | undefined>): void {
    const attempt = Symbol('attempt');
    this.#current = attempt;
    const limit = this.#clock.timer(OPEN_LIMIT_MS, () => {
      const error = new LinesideError('PORT_IO', `${target.config.portName} did not open within ${OPEN_LIMIT_MS} ms`);
      void this.#report(attempt, { kind: 'openFailed', error });
    });
    this.#underWay = this.#attempt(target, locate, this.#underWay).then((outcome) => {
      limit.cancel();
      return this.#report(attempt, outcome);
    });
  }

  /** True once: for the first outcome of the current attempt. */
  claim(attempt: symbol): boolean {
    if (this.#current !== attempt) return false;
    this.#current = undefined;
    return true;
  }

  abandon(): void {
    this.#current = undefined;
  }

  /** Resolves when no attempt is in flight (abandoned ones included), within a limit. */
  async idle(): Promise<void> {
    await endsWithin(this.#clock, ABANDONED_LIMIT_MS, this.#underWay);
  }

  async #attempt(target: Target, locate: () => Promise<Port | undefined>, before: Promise<void>): Promise<Outcome> {
    try {
      await endsWithin(this.#clock, ABANDONED_LIMIT_MS, before);
      const port = await locate();
      if (port === undefined)
        throw new LinesideError('PORT_NOT_FOUND', `${target.config.portName} is not there`, { hint: 'plug it in' });
      const device = await this.#openDevice(port, target.config);
      return { kind: 'opened', target: { config: target.config, port }, device };
    } catch (error) {
      return { kind: 'openFailed', error: asLinesideError(error) };
    }
  }
}
