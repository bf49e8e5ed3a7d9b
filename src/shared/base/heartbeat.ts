/** The beat of a loop that has a period of its own: whether it still turns, for who looks from outside. */
import type { Clock } from './clock.ts';

export class Heartbeat {
  readonly #clock: Clock;
  readonly #limitMs: number;
  #beatMs: number | undefined;

  /** `limitMs`: the longest between two turns that is not a stalled loop, its own waits included. */
  constructor(clock: Clock, limitMs: number) {
    this.#clock = clock;
    this.#limitMs = limitMs;
  }

  /** The loop turns. */
  beat(): void {
    this.#beatMs = this.#clock.monoMs();
  }

  /** It ends on purpose, and is not missed. */
  rest(): void {
    this.#beatMs = undefined;
  }

  /** Throws where the loop has begun and stalls. */
  check(): void {
    if (this.#beatMs === undefined) return;
    const stillMs = this.#clock.monoMs() - this.#beatMs;
    if (stillMs > this.#limitMs) throw new Error(`it has not turned for ${Math.round(stillMs / 1_000)} s`);
  }
}
