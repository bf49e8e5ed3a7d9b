/**
 * Back-pressure: true while entries come in faster than a healthy store takes them. A store that makes no progress
 * never presses: the line goes on and entries are dropped from storage instead.
 */
import type { Clock, Timer } from '../../shared/base/clock.ts';

/** An fsync of half a second is a slow card; nothing for longer is a hang. */
const progressMs = 500;

export class Pressure {
  readonly #clock: Clock;
  readonly #pressAt: number;
  readonly #relieveAt: number;
  readonly #calls: (() => void)[] = [];
  #progressAt = Number.NEGATIVE_INFINITY;
  #timer: Timer | undefined;
  #pressed = false;

  constructor(clock: Clock, queueBytes: number) {
    this.#clock = clock;
    this.#pressAt = queueBytes / 2;
    this.#relieveAt = queueBytes / 4;
  }

  get pressed(): boolean {
    return this.#pressed;
  }

  onRelieved(call: () => void): void {
    this.#calls.push(call);
  }

  /** A batch was handed over or acknowledged. */
  progress(): void {
    this.#progressAt = this.#clock.monoMs();
  }

  measure(bytes: number, healthy: boolean): void {
    const left = this.#progressAt + progressMs - this.#clock.monoMs();
    const moving = healthy && left > 0;
    const limit = this.#pressed ? this.#relieveAt : this.#pressAt;
    this.#set(moving && bytes > limit);
    if (this.#pressed) this.#timer ??= this.#clock.timer(left, () => this.#expire(bytes, healthy));
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#set(false);
  }

  #expire(bytes: number, healthy: boolean): void {
    this.#timer = undefined;
    this.measure(bytes, healthy);
  }

  #set(pressed: boolean): void {
    if (pressed === this.#pressed) return;
    this.#pressed = pressed;
    if (pressed) return;
    this.#timer?.cancel();
    this.#timer = undefined;
    for (const call of this.#calls) call();
  }
}
