/** Messages that were taken and are not settled: each leaves exactly once. Pure. */
export interface Taken {
  readonly topic: string;
  readonly bytes: number;
  /** Monotonic milliseconds. */
  readonly takenMs: number;
}

export class Outstanding {
  #taken = new Map<number, Taken>();
  #bytes = 0;

  get size(): number {
    return this.#taken.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  has(id: number): boolean {
    return this.#taken.has(id);
  }

  take(id: number, message: Taken): void {
    this.#taken.set(id, message);
    this.#bytes += message.bytes;
  }

  /** undefined: it was settled before, or never taken. */
  settle(id: number): Taken | undefined {
    const message = this.#taken.get(id);
    if (message === undefined) return undefined;
    this.#taken.delete(id);
    this.#bytes -= message.bytes;
    return message;
  }

  ids(): number[] {
    return [...this.#taken.keys()];
  }
}
