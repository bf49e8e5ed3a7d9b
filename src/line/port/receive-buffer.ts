/**
 * The receive buffer behind ReceivePacket: chunks in, packets out. With a packet size the bytes are framed by
 * serialport's byte-length parser; without one every chunk is a packet. Bounded in bytes and in packets (each costs
 * memory beyond its bytes); when full the oldest packet is dropped and counted.
 */
import { ByteLengthParser } from '@serialport/parser-byte-length';
import type { ReceivedPacket } from './line.ts';

interface BufferLimits {
  readonly maxBytes: number;
  readonly maxPackets: number;
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

  /** Answers what was dropped to make room. */
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

  take(): ReceivedPacket | undefined {
    const seqId = this.#seqId - this.#store.packets + 1;
    const oldest = this.#store.take();
    if (oldest === undefined) return undefined;
    const droppedBefore = this.#droppedBefore;
    this.#droppedBefore = 0;
    return { ...oldest, seqId, droppedBefore };
  }

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

// Packets as bytes in one buffer, with their lengths and times beside it: 65,536 tiny packets kept as arrays of their own
// took 120 MB.

const FIRST_BYTES = 4_096;
/** Entries of dropped packets at the front of the lists; they are removed together, since removing one moves all others. */
const MAX_STALE = 1_024;

export class PacketRing {
  readonly #limits: BufferLimits;
  /** The packets' bytes lie from #from to #to. */
  #content = Buffer.alloc(0);
  #from = 0;
  #to = 0;
  /** Of each packet, the oldest at #first. */
  #lengths: number[] = [];
  #times: number[] = [];
  #first = 0;

  constructor(limits: BufferLimits) {
    this.#limits = limits;
  }

  get packets(): number {
    return this.#lengths.length - this.#first;
  }

  get bytes(): number {
    return this.#to - this.#from;
  }

  fits(length: number): boolean {
    return this.bytes + length <= this.#limits.maxBytes && this.packets < this.#limits.maxPackets;
  }

  /** Only what fits. */
  push(payload: Uint8Array, receivedAtMs: number): void {
    if (this.#to + payload.length > this.#content.length) this.#makeRoom(payload.length);
    this.#content.set(payload, this.#to);
    this.#to += payload.length;
    this.#lengths.push(payload.length);
    this.#times.push(receivedAtMs);
  }

  take(): { readonly payload: Uint8Array; readonly receivedAtMs: number } | undefined {
    const receivedAtMs = this.#times[this.#first];
    const from = this.#from;
    const length = this.drop();
    if (receivedAtMs === undefined || length === undefined) return undefined;
    return { payload: new Uint8Array(this.#content.subarray(from, from + length)), receivedAtMs };
  }

  /** Answers the length of the dropped packet; undefined when there is none. */
  drop(): number | undefined {
    const length = this.#lengths[this.#first];
    if (length === undefined) return undefined;
    this.#from += length;
    this.#first += 1;
    if (this.#first >= MAX_STALE && this.#first * 2 >= this.#lengths.length) {
      for (const list of [this.#lengths, this.#times]) list.splice(0, this.#first);
      this.#first = 0;
    }
    return length;
  }

  clear(): void {
    this.#content = Buffer.alloc(0);
    this.#lengths = [];
    this.#times = [];
    this.#from = this.#to = this.#first = 0;
  }

  /** Moves the bytes to the front, of a larger buffer unless half of this one is free: each byte is moved once on average. */
  #makeRoom(length: number): void {
    const kept = this.#content.subarray(this.#from, this.#to);
    const size = Math.max(FIRST_BYTES, 2 * (kept.length + length));
    if (size > this.#content.length) this.#content = Buffer.allocUnsafeSlow(size);
    kept.copy(this.#content);
    this.#from = 0;
    this.#to = kept.length;
  }
}
