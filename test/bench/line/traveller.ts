const TRIP_LIMIT_MS = 5_000;

/** One trip at a time: sends, and waits until the same bytes have come back, in however many pieces. */
export class Traveller {
  readonly #send: (payload: Buffer) => void;
  #awaited: Buffer = Buffer.alloc(0);
  #got = 0;
  #back: () => void = () => {};
  #fail: (error: Error) => void = () => {};
  #trips = 0;

  constructor(send: (payload: Buffer) => void) {
    this.#send = send;
  }

  /** Bytes that came from the line. */
  arrived(bytes: Uint8Array): void {
    const expected = this.#awaited.subarray(this.#got, this.#got + bytes.length);
    if (!expected.equals(bytes)) this.#fail(new Error('the echo is not what was sent'));
    this.#got += bytes.length;
    if (this.#got === this.#awaited.length) this.#back();
  }

  failed(error: Error): void {
    this.#fail(error);
  }

  /** Microseconds. */
  async trip(size: number): Promise<number> {
    this.#awaited = Buffer.alloc(size, ++this.#trips & 0xff);
    this.#got = 0;
    let limit: NodeJS.Timeout | undefined;
    const back = new Promise<number>((resolve, reject) => {
      this.#fail = reject;
      this.#back = () => resolve(performance.now());
      limit = setTimeout(() => reject(new Error('no echo')), TRIP_LIMIT_MS);
    });
    const from = performance.now();
    this.#send(this.#awaited);
    const to = await back;
    clearTimeout(limit);
    return (to - from) * 1_000;
  }
}
