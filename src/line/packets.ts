/**
 * The receive buffer behind ReceivePacket: chunks in, packets out. With a packet size the bytes are framed by
 * serialport's byte-length parser; without one every chunk is a packet. Bounded in bytes and in packets (each costs
 * memory beyond its bytes); when full the oldest packet goes, and is counted.
 */
import { ByteLengthParser } from '@serialport/parser-byte-length';

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

interface Waiting {
  readonly seqId: number;
  readonly payload: Uint8Array;
  readonly receivedAtMs: number;
}

export interface Dropped {
  readonly packets: number;
  readonly bytes: number;
}

export class PacketBuffer {
  readonly #limits: BufferLimits;
  readonly #packetSize: number;
  #framer: ByteLengthParser | undefined;
  #waiting: Waiting[] = [];
  /** Index of the oldest in #waiting: shifting a long array for each packet would cost its length. */
  #head = 0;
  #bytes = 0;
  #seqId = 0;
  #droppedBefore = 0;

  /** packetSize 0: any size. */
  constructor(packetSize: number, limits: BufferLimits) {
    this.#packetSize = packetSize;
    this.#limits = limits;
    this.restartFraming();
  }

  get packets(): number {
    return this.#waiting.length - this.#head;
  }

  get bytes(): number {
    return this.#bytes;
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
      this.#waiting.push({ seqId: this.#seqId, payload, receivedAtMs });
      this.#bytes += payload.length;
      while (this.#bytes > this.#limits.maxBytes || this.packets > this.#limits.maxPackets) {
        const oldest = this.#shift();
        if (oldest === undefined) break;
        packets += 1;
        bytes += oldest.payload.length;
      }
    }
    this.#droppedBefore += packets;
    return { packets, bytes };
  }

  take(): BufferedPacket | undefined {
    const oldest = this.#shift();
    if (oldest === undefined) return undefined;
    const droppedBefore = this.#droppedBefore;
    this.#droppedBefore = 0;
    return { ...oldest, droppedBefore };
  }

  /** Ends it: nothing can be taken any more. */
  clear(): void {
    this.#framer?.destroy();
    this.#framer = undefined;
    this.#waiting = [];
    this.#head = 0;
    this.#bytes = 0;
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

  #shift(): Waiting | undefined {
    const oldest = this.#waiting[this.#head];
    if (oldest === undefined) return undefined;
    this.#head += 1;
    this.#bytes -= oldest.payload.length;
    // Give the taken part back once it is the larger one: constant cost a packet.
    if (this.#head > 64 && this.#head * 2 > this.#waiting.length) {
      this.#waiting = this.#waiting.slice(this.#head);
      this.#head = 0;
    }
    return oldest;
  }
}
