/** Rows read a few hundred at a time and handled one by one. Pure: the reading is given to it. */
export interface Read<R> {
  readonly rows: readonly R[];
  /** Every row up to here was read, those left out included. */
  readonly readTo: number;
  /** None waits behind. */
  readonly ended: boolean;
}

export class ReadAhead<R> {
  readonly #read: (after: number) => Read<R>;
  #rows: readonly R[] = [];
  #index = 0;
  #readTo = 0;
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
      this.#readTo = after;
    }
    while (this.#index >= this.#rows.length) {
      const { rows, readTo, ended } = this.#read(this.#readTo);
      this.#rows = rows;
      this.#index = 0;
      this.#readTo = readTo;
      if (ended) break;
    }
    return this.#rows[this.#index];
  }

  consumed(): void {
    this.#index++;
  }

  drop(): void {
    this.#rows = [];
    this.#index = 0;
    this.#pass = undefined;
  }
}
