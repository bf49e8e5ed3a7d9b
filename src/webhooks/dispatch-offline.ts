/** The time without a route to anywhere: it begins with an attempt that got nowhere, and ends when there is a route again. */
import type { Clock, Timer } from '../base/clock.ts';

const pollMs = 5_000;

export class Offline {
  readonly #hasRoute: () => boolean;
  readonly #clock: Clock;
  readonly #onChanged: (is: boolean) => void;
  #timer: Timer | undefined;

  constructor(hasRoute: () => boolean, clock: Clock, onChanged: (is: boolean) => void) {
    this.#hasRoute = hasRoute;
    this.#clock = clock;
    this.#onChanged = onChanged;
  }

  get is(): boolean {
    return this.#timer !== undefined;
  }

  /** Something could not be reached: whether that was for want of a route. */
  ask(): boolean {
    if (!this.is && !this.#hasRoute()) {
      this.#poll();
      this.#onChanged(true);
    }
    return this.is;
  }

  stop(): void {
    this.#timer?.cancel();
  }

  #poll(): void {
    this.#timer = this.#clock.timer(pollMs, () => {
      if (!this.#hasRoute()) return this.#poll();
      this.#timer = undefined;
      this.#onChanged(false);
    });
  }
}

/** The subscriber is on the device itself: it needs no route. A name that only resolves to such an address is not known as one. */
export function needsNoRoute(url: string): boolean {
  const host = URL.parse(url)?.hostname ?? '';
  return /^(127\.\d+\.\d+\.\d+|\[::1\]|(.+\.)?localhost\.?)$/.test(host);
}
