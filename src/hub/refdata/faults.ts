/** Every fault of something, up to a limit, and how many there were beyond. Pure. */

/** Faults of a bundle are listed up to here; the rest is counted. */
const maxListedFaults = 10_000;

export class Faults {
  readonly #listed: string[] = [];
  #more = 0;

  add(...faults: readonly string[]): void {
    for (const fault of faults) {
      if (this.#listed.length < maxListedFaults) this.#listed.push(fault);
      else this.#more++;
    }
  }

  get count(): number {
    return this.#listed.length + this.#more;
  }

  get reasons(): readonly string[] {
    return this.#more === 0 ? this.#listed : [...this.#listed, `and ${this.#more} more`];
  }
}
