/**
 * Packets as bytes in one ring, with their lengths and times beside it: 65,536 tiny packets kept as arrays of their own
 * took 120 MB. Grows by doubling, up to its limits.
 */
const FIRST_BYTES = 4_096;
const FIRST_PACKETS = 64;

export interface RingLimits {
  readonly maxBytes: number;
  readonly maxPackets: number;
}

export class PacketRing {
  readonly #limits: RingLimits;
  #content = Buffer.alloc(0);
  #lengths = new Uint32Array(0);
  #times = new Float64Array(0);
  /** Where the oldest packet's bytes, length and time are. */
  #from = 0;
  #first = 0;
  #bytes = 0;
  #packets = 0;

  constructor(limits: RingLimits) {
    this.#limits = limits;
  }

  get packets(): number {
    return this.#packets;
  }

  get bytes(): number {
    return this.#bytes;
  }

  fits(length: number): boolean {
    return this.#bytes + length <= this.#limits.maxBytes && this.#packets < this.#limits.maxPackets;
  }

  /** Only what fits. */
  push(payload: Uint8Array, receivedAtMs: number): void {
    if (this.#bytes + payload.length > this.#content.length) this.#growBytes(this.#bytes + payload.length);
    if (this.#packets === this.#lengths.length) this.#growPackets();
    const at = (this.#from + this.#bytes) % Math.max(1, this.#content.length);
    const untilEnd = Math.min(payload.length, this.#content.length - at);
    this.#content.set(payload.subarray(0, untilEnd), at);
    this.#content.set(payload.subarray(untilEnd), 0);
    const slot = (this.#first + this.#packets) % this.#lengths.length;
    this.#lengths[slot] = payload.length;
    this.#times[slot] = receivedAtMs;
    this.#bytes += payload.length;
    this.#packets += 1;
  }

  take(): { readonly payload: Uint8Array; readonly receivedAtMs: number } | undefined {
    if (this.#packets === 0) return undefined;
    const payload = new Uint8Array(this.#copy(this.#lengths[this.#first] ?? 0).buffer);
    const receivedAtMs = this.#times[this.#first] ?? 0;
    this.drop();
    return { payload, receivedAtMs };
  }

  /** Drops the oldest packet and says how long it was; undefined when there is none. */
  drop(): number | undefined {
    if (this.#packets === 0) return undefined;
    const length = this.#lengths[this.#first] ?? 0;
    this.#from = (this.#from + length) % Math.max(1, this.#content.length);
    this.#first = (this.#first + 1) % this.#lengths.length;
    this.#bytes -= length;
    this.#packets -= 1;
    return length;
  }

  clear(): void {
    this.#content = Buffer.alloc(0);
    this.#lengths = new Uint32Array(0);
    this.#times = new Float64Array(0);
    this.#from = this.#first = this.#bytes = this.#packets = 0;
  }

  /** The first `length` bytes, which may lie around the ring's end. */
  #copy(length: number): Buffer {
    const out = Buffer.allocUnsafeSlow(length);
    const untilEnd = this.#content.copy(out, 0, this.#from, Math.min(this.#content.length, this.#from + length));
    this.#content.copy(out, untilEnd, 0, length - untilEnd);
    return out;
  }

  #growBytes(wanted: number): void {
    const size = Math.min(this.#limits.maxBytes, Math.max(FIRST_BYTES, this.#content.length * 2, wanted));
    const grown = Buffer.allocUnsafeSlow(size);
    grown.set(this.#copy(this.#bytes));
    this.#content = grown;
    this.#from = 0;
  }

  #growPackets(): void {
    const size = Math.min(this.#limits.maxPackets, Math.max(FIRST_PACKETS, this.#lengths.length * 2));
    const lengths = new Uint32Array(size);
    const times = new Float64Array(size);
    for (let i = 0; i < this.#packets; i++) {
      const slot = (this.#first + i) % this.#lengths.length;
      lengths[i] = this.#lengths[slot] ?? 0;
      times[i] = this.#times[slot] ?? 0;
    }
    this.#lengths = lengths;
    this.#times = times;
    this.#first = 0;
  }
}
