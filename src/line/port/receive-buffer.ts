/**
 * The receive buffer behind ReceivePacket: chunks in, packets out. With a packet size the bytes are framed by
 * serialport's byte-length parser; without one every chunk is a packet. Bounded in bytes and in packets (each costs
 * memory beyond its bytes); when full the oldest packet goes, and is counted.
 */
import { ByteLengthParser } from '@serialport/parser-byte-length';

interface BufferLimits {
  readonly maxBytes: number;
  readonly maxPackets: number;
}

interface BufferedPacket {
  readonly seqId: number;
  readonly payload: Uint8Array;
  readonly receivedAtMs: number;
  readonly droppedBefore: number;
}

interface Dropped {
  readonly packets: number;
  readonly bytes: number;
}

export class PacketBuffer {
  readonly #packetSize: number;
  #framer: ByteLengthParser | undefined;
  readonly #store: PacketRing;
  #seqId = 0;
  #droppedBefore = 0;

  /** packetSize 0: any size. */
  constructor(packetSize: number, limits: BufferLimits) {
    this.#packetSize = packetSize;
    this.#store = new PacketRing(limits);
    this.restartFraming();
  }

  get packets(): number {
    return this.#store.packets;
  }

  get bytes(): number {
    return this.#store.bytes;
  }

  /** Drops the beginning of an unfinished packet: what comes next belongs to another connection. */
  restartFraming(): void {
    this.#framer?.destroy();
    if (this.#packetSize === 0) return;
    // Object mode keeps packets apart. The mark leaves room for a whole chunk of one-byte packets.
    this.#framer = new ByteLengthParser({
      length: this.#packetSize,
      readableObjectMode: true,
      readableHighWaterMark: 8_192,
    });
  }

  /** Takes a chunk, and says what had to be dropped for it. */
  add(chunk: Uint8Array, receivedAtMs: number): Dropped {
    let packets = 0;
    let bytes = 0;
    for (const payload of this.#frame(chunk)) {
      this.#seqId += 1;
      while (!this.#store.fits(payload.length)) {
        const oldest = this.#store.drop();
        if (oldest === undefined) break;
        packets += 1;
        bytes += oldest;
      }
      if (this.#store.fits(payload.length)) this.#store.push(payload, receivedAtMs);
      else {
        // Larger than the whole buffer.
        packets += 1;
        bytes += payload.length;
      }
    }
    this.#droppedBefore += packets;
    return { packets, bytes };
  }

  take(): BufferedPacket | undefined {
    const seqId = this.#seqId - this.#store.packets + 1;
    const oldest = this.#store.take();
    if (oldest === undefined) return undefined;
    const droppedBefore = this.#droppedBefore;
    this.#droppedBefore = 0;
    return { ...oldest, seqId, droppedBefore };
  }

  /** Ends it: nothing can be taken any more. */
  clear(): void {
    this.#framer?.destroy();
    this.#framer = undefined;
    this.#store.clear();
  }

  #frame(chunk: Uint8Array): Uint8Array[] {
    if (this.#packetSize === 0) return [chunk];
    const framer = this.#framer;
    if (framer === undefined) return [];
    const packets: Uint8Array[] = [];
    framer.write(chunk);
    for (let packet = framer.read(); packet !== null; packet = framer.read()) packets.push(packet);
    return packets;
  }
}

// Packets as bytes in one ring, with their lengths and times beside it: 65,536 tiny packets kept as arrays of their own
// took 120 MB. Grows by doubling, up to its limits.

const FIRST_BYTES = 4_096;
const FIRST_PACKETS = 64;

interface RingLimits {
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
