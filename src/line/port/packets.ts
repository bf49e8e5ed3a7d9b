/**
 * The receive buffer behind ReceivePacket: chunks in, packets out. With a packet size the bytes are framed by
 * serialport's byte-length parser; without one every chunk is a packet. Bounded in bytes and in packets (each costs
 * memory beyond its bytes); when full the oldest packet goes, and is counted.
 */
import { ByteLengthParser } from '@serialport/parser-byte-length';
import { PacketRing } from './packet-ring.ts';

export interface BufferLimits {
  readonly maxBytes: number;
  readonly maxPackets: number;
}

export interface BufferedPacket {
  readonly seqId: number;
  readonly payload: Uint8Array;
  readonly receivedAtMs: number;
  readonly droppedBefore: number;
}

export interface Dropped {
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
