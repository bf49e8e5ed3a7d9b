/** The increase of a counter within a window, from samples of it; a counter that fell restarted at 0. Pure. */

/** Samples that are kept: the window is exact to a sixtieth of itself. */
const KEPT = 60;

export class RollingIncrease {
  readonly #windowMs: number;
  /** Oldest first; `rise`: since the look before it. */
  #looks: { readonly atMs: number; rise: number }[] = [];
  #last: number | undefined;

  constructor(windowMs: number) {
    this.#windowMs = windowMs;
  }

  /** The counter as it is now. The first sample counts for nothing: when that was counted is not known. */
  note(value: number, nowMs: number): void {
    const before = this.#last;
    this.#last = value;
    if (before === undefined || value === before) return;
    const rise = value > before ? value - before : value;
    const latest = this.#looks.at(-1);
    if (latest !== undefined && nowMs - latest.atMs < this.#windowMs / KEPT) latest.rise += rise;
    else this.#looks.push({ atMs: nowMs, rise });
  }

  within(nowMs: number): number {
    this.#looks = this.#looks.filter(({ atMs }) => nowMs - atMs < this.#windowMs);
    return this.#looks.reduce((sum, { rise }) => sum + rise, 0);
  }
}
