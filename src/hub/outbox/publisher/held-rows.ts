/** Rows kept in memory until the row of their key before them has gone: bounded in rows and bytes. Pure. */
export class HeldRows<Lane, R extends { readonly id: number; readonly bytes: number }> {
  readonly #maxRows: number;
  readonly #maxBytes: number;
  readonly #byLane = new Map<Lane, R[]>();
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

  /** Lanes for which rows are held. */
  lanes(): Iterable<Lane> {
    return this.#byLane.keys();
  }

  /** Behind those held for the lane already. False: there is no room. */
  hold(lane: Lane, row: R): boolean {
    if (this.#ids.size >= this.#maxRows || this.#bytes + row.bytes > this.#maxBytes) return false;
    const rows = this.#byLane.get(lane);
    if (rows === undefined) this.#byLane.set(lane, [row]);
    else rows.push(row);
    this.#ids.add(row.id);
    this.#bytes += row.bytes;
    return true;
  }

  /** The next row of the lane, which is no longer held. */
  takeNext(lane: Lane): R | undefined {
    const rows = this.#byLane.get(lane);
    const row = rows?.shift();
    if (row !== undefined) this.#forget(row);
    if (rows?.length === 0) this.#byLane.delete(lane);
    return row;
  }

  /** Holds nothing more for the lane; answers the first row that was held. */
  letGo(lane: Lane): R | undefined {
    const rows = this.#byLane.get(lane) ?? [];
    for (const row of rows) this.#forget(row);
    this.#byLane.delete(lane);
    return rows[0];
  }

  #forget(row: R): void {
    this.#ids.delete(row.id);
    this.#bytes -= row.bytes;
  }
}
