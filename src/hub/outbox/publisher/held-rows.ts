/** Rows kept in memory until the row of their key before them is done with: bounded in rows and bytes. Pure. */
export class HeldRows<Queue, R extends { readonly id: number; readonly bytes: number }> {
  readonly #maxRows: number;
  readonly #maxBytes: number;
  readonly #byQueue = new Map<Queue, R[]>();
  readonly #ids = new Set<number>();
  #bytes = 0;

  constructor(maxRows: number, maxBytes: number) {
    this.#maxRows = maxRows;
    this.#maxBytes = maxBytes;
  }

  get size(): number {
    return this.#ids.size;
  }

  get isFull(): boolean {
    return this.#ids.size >= this.#maxRows || this.#bytes >= this.#maxBytes;
  }

  has(id: number): boolean {
    return this.#ids.has(id);
  }

  /** Queues for which rows are held. */
  queues(): Iterable<Queue> {
    return this.#byQueue.keys();
  }

  /** Behind those held for the queue already. False: there is no room. */
  hold(queue: Queue, row: R): boolean {
    if (this.#ids.size >= this.#maxRows || this.#bytes + row.bytes > this.#maxBytes) return false;
    const rows = this.#byQueue.get(queue);
    if (rows === undefined) this.#byQueue.set(queue, [row]);
    else rows.push(row);
    this.#ids.add(row.id);
    this.#bytes += row.bytes;
    return true;
  }

  /** The next row of the queue, which is no longer held. */
  takeNext(queue: Queue): R | undefined {
    const rows = this.#byQueue.get(queue);
    const row = rows?.shift();
    if (row !== undefined) this.#forget(row);
    if (rows?.length === 0) this.#byQueue.delete(queue);
    return row;
  }

  /** Holds nothing more for the queue; returns the first row that was held. */
  drop(queue: Queue): R | undefined {
    const rows = this.#byQueue.get(queue) ?? [];
    for (const row of rows) this.#forget(row);
    this.#byQueue.delete(queue);
    return rows[0];
  }

  #forget(row: R): void {
    this.#ids.delete(row.id);
    this.#bytes -= row.bytes;
  }
}
