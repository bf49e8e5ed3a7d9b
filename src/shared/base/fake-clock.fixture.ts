import type { Clock, Timer } from './clock.ts';

/** A clock for tests: time advances only by `advance`; `stepWall` moves the wall clock alone, as NTP does. */
export class FakeClock implements Clock {
  #wall = 1_700_000_000_000;
  #mono = 0;
  #timers: { at: number; call: () => void }[] = [];

  wallMs(): number {
    return this.#wall;
  }

  monoMs(): number {
    return this.#mono;
  }

  timer(delayMs: number, call: () => void): Timer {
    const entry = { at: this.#mono + delayMs, call };
    this.#timers.push(entry);
    return {
      cancel: () => {
        this.#timers = this.#timers.filter((t) => t !== entry);
      },
    };
  }

  get pendingTimers(): number {
    return this.#timers.length;
  }

  stepWall(ms: number): void {
    this.#wall += ms;
  }

  /** Runs every timer that falls due, in order. */
  advance(ms: number): void {
    const end = this.#mono + ms;
    for (;;) {
      const due = this.#timers.filter((t) => t.at <= end).sort((a, b) => a.at - b.at)[0];
      if (due === undefined) break;
      this.#timers = this.#timers.filter((t) => t !== due);
      this.#move(due.at);
      due.call();
    }
    this.#move(end);
  }

  /** When the next timer is due; Infinity: there is none. */
  get nextMs(): number {
    return Math.min(...this.#timers.map(({ at }) => at));
  }

  /** Up to each timer, and what follows from it, one after the other. */
  async pass(ms: number): Promise<void> {
    const end = this.#mono + ms;
    await settled();
    while (this.nextMs <= end) {
      this.advance(this.nextMs - this.#mono);
      await settled();
    }
    this.advance(end - this.#mono);
  }

  /** From timer to timer until it is so. */
  async passUntil(what: string, isSo: () => boolean, limitMs = 400_000_000): Promise<void> {
    const end = this.#mono + limitMs;
    await settled();
    while (!isSo()) {
      if (this.nextMs > end) throw new Error(`never: ${what}`);
      this.advance(this.nextMs - this.#mono);
      await settled();
    }
  }

  /** Time in which the process does not run: the timers that fell due are run at its end. */
  stop(ms: number): void {
    this.#move(this.#mono + ms);
    this.advance(0);
  }

  #move(to: number): void {
    if (to <= this.#mono) return;
    this.#wall += to - this.#mono;
    this.#mono = to;
  }
}

/** As many turns of the loop as what is due needs. */
export async function settled(): Promise<void> {
  for (let n = 0; n < 8; n++) await new Promise(setImmediate);
}
