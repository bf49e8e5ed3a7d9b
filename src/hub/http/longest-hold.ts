/** How long the event loop was held: what an import or a large answer costs everybody else. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Clock } from '../../shared/base/clock.ts';
import { HOLD_RESOLUTION_MS, HOLD_WINDOW_MS } from './limits.ts';

/** Of the window that runs and the one before, so that no scrape takes it from another. */
export class LongestHold {
  readonly #clock: Clock;
  readonly #delays = monitorEventLoopDelay({ resolution: HOLD_RESOLUTION_MS });
  #windowAtMs: number;
  #before = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#windowAtMs = clock.monoMs();
    this.#delays.enable();
  }

  seconds(): number {
    // What is measured is the time from tick to tick; of that, one resolution is no delay.
    const now = Math.max(0, this.#delays.max / 1e9 - HOLD_RESOLUTION_MS / 1e3);
    const longest = Math.max(now, this.#before);
    if (this.#clock.monoMs() - this.#windowAtMs >= HOLD_WINDOW_MS) {
      this.#windowAtMs = this.#clock.monoMs();
      this.#before = now;
      this.#delays.reset();
    }
    return longest;
  }

  stop(): void {
    this.#delays.disable();
  }
}
