/** Rows read a few hundred at a time and looked at one by one. Pure but for the reading it is given. */
export interface Read<R> {
  readonly rows: readonly R[];
  /** Every row up to here was looked at, those left out included. */
  readonly lookedTo: number;
  /** None waits behind. */
  readonly ended: boolean;
}

export class ReadAhead<R> {
  readonly #read: (after: number) => Read<R>;
  #rows: readonly R[] = [];
  #at = 0;
  #lookedTo = 0;
  /** The pass the rows were read for; undefined: none were. */
  #pass: number | undefined;

  constructor(read: (after: number) => Read<R>) {
    this.#read = read;
  }

  /** The next row behind `after`; undefined: none waits. What was read for another pass is dropped. */
  peek({ after, pass }: { readonly after: number; readonly pass: number }): R | undefined {
    if (pass !== this.#pass) {
      this.drop();
      this.#pass = pass;
      this.#lookedTo = after;
    }
    while (this.#at >= this.#rows.length) {
      const { rows, lookedTo, ended } = this.#read(this.#lookedTo);
      this.#rows = rows;
      this.#at = 0;
      this.#lookedTo = lookedTo;
      if (ended) break;
    }
    return this.#rows[this.#at];
  }

  consumed(): void {
    this.#at++;
  }

  drop(): void {
    this.#rows = [];
    this.#at = 0;
    this.#pass = undefined;
  }
}
