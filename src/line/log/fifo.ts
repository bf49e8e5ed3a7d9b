/** First in, first out, in one array: taking from the front is cheap, and what was taken is let go of. Pure. */
export class Fifo<T> {
  #items: (T | undefined)[] = [];
  #start = 0;

  get length(): number {
    return this.#items.length - this.#start;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** Counted from the front. */
  at(index: number): T | undefined {
    return this.#items[this.#start + index];
  }

  shift(): T | undefined {
    if (this.length === 0) return undefined;
    const item = this.#items[this.#start];
    this.#items[this.#start++] = undefined;
    // Half of the array is dead: copying the rest costs one move an item in the long run.
    if (this.#start >= 1024 && this.#start * 2 >= this.#items.length) this.#compact();
    return item;
  }

  slice(from: number, to: number): T[] {
    const items: T[] = [];
    for (let i = from; i < Math.min(to, this.length); i++) {
      const item = this.at(i);
      if (item !== undefined) items.push(item);
    }
    return items;
  }

  replaceAll(items: readonly T[]): void {
    this.#items = [...items];
    this.#start = 0;
  }

  #compact(): void {
    this.#items = this.#items.slice(this.#start);
    this.#start = 0;
  }
}
