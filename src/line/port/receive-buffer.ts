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

const FIRST_BYTES = 4_096;
/** Entries of dropped packets at the front of the lists; they are removed together, since removing one moves all others. */
const MAX_STALE = 1_024;

export class PacketBuffer {
  readonly #packetSize: number;
  readonly #limits: BufferLimits;
  #framer: ByteLengthParser | undefined;
  /** The packets' bytes lie from #from to #to: 65,536 tiny packets kept as arrays of their own took 120 MB. */
  #content = Buffer.alloc(0);
  #from = 0;
  #to = 0;
  /** Of each packet, the oldest at #first. */
  readonly #lengths: number[] = [];
  readonly #times: number[] = [];
  #first = 0;
  #seqId = 0;
  #droppedBefore = 0;

  /** packetSize 0: any size. */
  constructor(packetSize: number, limits: BufferLimits) {
    this.#packetSize = packetSize;
    this.#limits = limits;
    this.restartFraming();
  }

  get packets(): number {
    return this.#lengths.length - this.#first;
  }

  get bytes(): number {
    return this.#to - this.#from;
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
  add(chunk: Uint8Array, receivedAtMs: number) {
    const dropped = { packets: 0, bytes: 0 };
    for (const payload of this.#frame(chunk)) {
      this.#seqId += 1;
      this.#push(payload, receivedAtMs);
      while (this.bytes > this.#limits.maxBytes || this.packets > this.#limits.maxPackets) {
        dropped.packets += 1;
        dropped.bytes += this.#drop();
      }
    }
    this.#droppedBefore += dropped.packets;
    return dropped;
  }

  take(): ReceivedPacket | undefined {
    const receivedAtMs = this.#times[this.#first];
    if (receivedAtMs === undefined) return undefined;
    const seqId = this.#seqId - this.packets + 1;
    const from = this.#from;
    const payload = new Uint8Array(this.#content.subarray(from, from + this.#drop()));
    const droppedBefore = this.#droppedBefore;
    this.#droppedBefore = 0;
    return { payload, receivedAtMs, seqId, droppedBefore };
  }

  #frame(chunk: Uint8Array): Uint8Array[] {
    const framer = this.#framer;
    if (framer === undefined) return [chunk];
    const packets: Uint8Array[] = [];
    framer.write(chunk);
    for (let packet = framer.read(); packet !== null; packet = framer.read()) packets.push(packet);
    return packets;
  }

  #push(payload: Uint8Array, receivedAtMs: number): void {
    if (this.#to + payload.length > this.#content.length) this.#makeRoom(payload.length);
    this.#content.set(payload, this.#to);
    this.#to += payload.length;
    this.#lengths.push(payload.length);
    this.#times.push(receivedAtMs);
  }

  /** Removes the oldest packet, which there must be; answers its length. */
  #drop(): number {
    const length = this.#lengths[this.#first] ?? 0;
    this.#from += length;
    this.#first += 1;
    if (this.#first >= MAX_STALE && this.#first * 2 >= this.#lengths.length) {
      for (const list of [this.#lengths, this.#times]) list.splice(0, this.#first);
      this.#first = 0;
    }
    return length;
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
