/**
 * A USB serial adapter (FTDI FT232R) that is the test itself, for the kernel's own driver: QEMU's usb-redir hands on what the
 * driver does to it. Unlike an emulated UART it receives bytes with errors, has modem inputs, and takes time to transmit.
 * Requests and status bits: drivers/usb/serial/ftdi_sio.h of Linux. Messages: usbredirproto.h of usbredir 0.7, little-endian.
 */
import type { Socket } from 'node:net';
import { addByte, type UartAct } from './uart.ts';

const [HELLO, DEVICE_CONNECT, INTERFACE_INFO, EP_INFO] = [0, 1, 4, 5];
const [SET_CONFIGURATION, CONFIGURATION_STATUS, CANCEL, CONTROL, BULK] = [6, 8, 21, 100, 101];
const [OK, CANCELLED, STALL] = [0, 1, 4];
/** Device version, largest packet of an endpoint, ids of 64 bits, lengths of 32 bits: xhci wants all of them. */
const CAPABILITIES = (1 << 1) | (1 << 4) | (1 << 5) | (1 << 6);
const VERSION_BYTES = 64;
/** type, length, id: before and after both ends have said hello. */
const [FIRST_HEADER_BYTES, HEADER_BYTES] = [12, 16];
/** Of a control packet: endpoint, request, requesttype, status, value, index, length; of a bulk packet up to length_high. */
const TRANSFER_BYTES = 10;
const FULL_SPEED = 1;
const [BULK_TYPE, NO_TYPE] = [2, 255];
const [IN, OUT] = [0x81, 0x02];
const PACKET_BYTES = 64;
/** The latency timer, whatever the driver asks for: that the transmitter is busy or empty is reported as late as this. */
const STATUS_MS = 50;

/** FT232R: vendor, product, version. */
const IDS = [0x0403, 0x6001, 0x0600] as const;
const VENDOR_SPECIFIC = 0xff;
const STRINGS = ['FTDI', 'FT232R USB UART', 'A10K5LTY'];
const descriptors: Readonly<Record<number, Buffer>> = {
  256: Buffer.from([18, 1, 0, 2, 0, 0, 0, 8, ...IDS.flatMap((id) => [id & 0xff, id >> 8]), 1, 2, 3, 1]),
  512: Buffer.concat([
    Buffer.of(9, 2, 32, 0, 1, 1, 0, 0xa0, 45),
    Buffer.of(9, 4, 0, 0, 2, VENDOR_SPECIFIC, VENDOR_SPECIFIC, VENDOR_SPECIFIC, 2),
    ...[IN, OUT].map((endpoint) => Buffer.of(7, 5, endpoint, BULK_TYPE, PACKET_BYTES, 0, 0)),
  ]),
  // English.
  768: Buffer.from([4, 3, 0x09, 0x04]),
  ...Object.fromEntries(
    STRINGS.map((text, i) => [
      769 + i,
      Buffer.concat([Buffer.of(2 + 2 * text.length, 3), Buffer.from(text, 'utf16le')]),
    ]),
  ),
};
const [DEVICE_IN, VENDOR_OUT, VENDOR_IN] = [0x80, 0x40, 0xc0];
const GET_DESCRIPTOR = 6;
const [RESET, MODEM_CONTROL, FLOW_CONTROL, BAUD_RATE, DATA, MODEM_STATUS, GET_LATENCY] = [0, 1, 2, 3, 4, 5, 10];
const inputBits = { cts: 0x10, dsr: 0x20, ri: 0x40, dcd: 0x80 };
export type Input = keyof typeof inputBits;
/** The second status byte, of the bytes behind it: all of them have the error. */
const faultBits = { none: 0, overrun: 0x02, parity: 0x04, framing: 0x08, break: 0x10 };
const [HOLDING_EMPTY, TRANSMITTER_EMPTY] = [0x20, 0x40];
/** Eighths of a divisor of 3 MHz, for the three bits in which it comes. */
const EIGHTHS = [0, 4, 2, 1, 3, 5, 6, 7];

export class UsbAdapter {
  /** In the words of uartActs(), and "7E1", "9600 baud", "flow control RTS/CTS"; "break while sending": it spoils a byte. */
  readonly acts: UartAct[] = [];
  readonly #socket: Socket;
  readonly #set = new Map<string, string>();
  #unparsed = Buffer.alloc(0);
  #isGreeted = false;
  /** Requests of the host that wait for a packet, and packets that wait for a request. */
  readonly #requests: bigint[] = [];
  #packets: Buffer[] = [];
  #inputs = 0;
  #baudRate = 9_600;
  #transmitsUntilMs = 0;
  #reported = -1;
  #ticks: NodeJS.Timeout | undefined;

  /** `socket`: QEMU's, just connected, which plugs it in; to destroy it pulls it out. */
  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('error', () => undefined).on('close', () => clearInterval(this.#ticks));
    socket.on('data', (part: Buffer) => this.#parse(part));
    const hello = Buffer.alloc(VERSION_BYTES + 4);
    hello.write('lineside');
    hello.writeUInt32LE(CAPABILITIES, VERSION_BYTES);
    const header = Buffer.alloc(FIRST_HEADER_BYTES);
    header.writeUInt32LE(HELLO);
    header.writeUInt32LE(hello.length, 4);
    socket.write(Buffer.concat([header, hello]));
    const interfaces = Buffer.alloc(4 + 4 * 32);
    interfaces.writeUInt32LE(1);
    for (const field of [1, 2, 3]) interfaces[4 + 32 * field] = VENDOR_SPECIFIC;
    this.#send(INTERFACE_INFO, 0n, interfaces);
    this.#send(EP_INFO, 0n, endpoints());
    const device = Buffer.alloc(10);
    device[0] = FULL_SPEED;
    for (const [i, id] of IDS.entries()) device.writeUInt16LE(id, 4 + 2 * i);
    this.#send(DEVICE_CONNECT, 0n, device);
    // The chip sends its status each time; only changes mean something to the driver.
    this.#ticks = setInterval(() => {
      if (this.#status().readUInt16LE() !== this.#reported) this.#report();
    }, STATUS_MS);
  }

  pull(): void {
    this.#socket.destroy();
  }

  /** Received from the line, all with this error. */
  receive(bytes: Uint8Array, fault: keyof typeof faultBits = 'none'): void {
    for (let at = 0; at < bytes.length; at += PACKET_BYTES - 2)
      this.#report(bytes.subarray(at, at + PACKET_BYTES - 2), faultBits[fault]);
  }

  setInput(name: Input, on: boolean): void {
    this.#inputs = on ? this.#inputs | inputBits[name] : this.#inputs & ~inputBits[name];
    this.#report();
  }

  get isTransmitting(): boolean {
    return performance.now() < this.#transmitsUntilMs;
  }

  #status(fault = 0): Buffer {
    const empty = this.isTransmitting ? 0 : HOLDING_EMPTY | TRANSMITTER_EMPTY;
    // The lowest bit: a packet has 64 bytes at most.
    return Buffer.of(this.#inputs | 1, empty | fault);
  }

  #report(bytes: Uint8Array = Buffer.alloc(0), fault = 0): void {
    const status = this.#status(fault);
    this.#reported = status.readUInt16LE();
    this.#packets.push(Buffer.concat([status, bytes]));
    this.#answer();
  }

  #answer(): void {
    for (let packet = this.#packets[0]; packet !== undefined; packet = this.#packets[0]) {
      const id = this.#requests.shift();
      if (id === undefined) return;
      this.#packets.shift();
      this.#sendBulk(id, IN, OK, packet.length, packet);
    }
  }

  #note(name: string, value: string): void {
    if (this.#set.get(name) === value) return;
    this.#set.set(name, value);
    this.acts.push({ atMs: performance.now(), what: this.isTransmitting ? `${value} while sending` : value });
  }

  #transmit(bytes: Buffer): void {
    const nowMs = performance.now();
    for (const byte of bytes) addByte(this.acts, nowMs, byte);
    // Start, 8 data, stop.
    this.#transmitsUntilMs = Math.max(nowMs, this.#transmitsUntilMs) + (bytes.length * 10_000) / this.#baudRate;
  }

  /** A request of the driver. */
  #vendor(request: number, value: number, index: number): void {
    if (request === RESET) this.#packets = [];
    if (request === FLOW_CONTROL) this.#note('flow', `flow control ${flowName(index >> 8)}`);
    if (request === BAUD_RATE) {
      const eighths = EIGHTHS[(value >> 14) | ((index & 1) << 2)] ?? 0;
      this.#baudRate = Math.round(3_000_000 / ((value & 0x3fff) + eighths / 8));
      this.#note('baud', `${this.#baudRate} baud`);
    }
    if (request === DATA) {
      const stopBits = ['1', '1.5', '2'][(value >> 11) & 3];
      this.#note('frame', `${value & 0xff}${'NOEMS'[(value >> 8) & 7]}${stopBits}`);
      this.#note('break', value & 0x4000 ? 'break' : 'break ends');
    }
    if (request === MODEM_CONTROL)
      for (const [name, bit] of Object.entries({ DTR: 1, RTS: 2 }))
        if ((value >> 8) & bit) this.#note(name, `${name} ${value & bit ? 'on' : 'off'}`);
  }

  /** undefined: there is no such thing. */
  #asked(type: number, request: number, value: number): Buffer | undefined {
    if (type === DEVICE_IN && request === GET_DESCRIPTOR) return descriptors[value];
    if (type === VENDOR_IN && request === MODEM_STATUS) return this.#status();
    if (type === VENDOR_IN && request === GET_LATENCY) return Buffer.of(STATUS_MS);
    return undefined;
  }

  #parse(part: Buffer): void {
    this.#unparsed = Buffer.concat([this.#unparsed, part]);
    for (;;) {
      const header = this.#isGreeted ? HEADER_BYTES : FIRST_HEADER_BYTES;
      if (this.#unparsed.length < header) return;
      const end = header + this.#unparsed.readUInt32LE(4);
      if (this.#unparsed.length < end) return;
      const body = this.#unparsed.subarray(header, end);
      if (this.#isGreeted) this.#take(this.#unparsed.readUInt32LE(), this.#unparsed.readBigUInt64LE(8), body);
      this.#isGreeted = true;
      this.#unparsed = this.#unparsed.subarray(end);
    }
  }

  #take(type: number, id: bigint, body: Buffer): void {
    if (type === CONTROL) this.#control(id, body);
    if (type === BULK) this.#bulk(id, body);
    if (type === SET_CONFIGURATION) this.#send(CONFIGURATION_STATUS, id, Buffer.of(OK, body.readUInt8()));
    if (type !== CANCEL || !this.#requests.includes(id)) return;
    this.#requests.splice(this.#requests.indexOf(id), 1);
    this.#sendBulk(id, IN, CANCELLED, 0);
  }

  #control(id: bigint, body: Buffer): void {
    const [request = 0, type = 0] = body.subarray(1);
    const [value, index, length] = [body.readUInt16LE(4), body.readUInt16LE(6), body.readUInt16LE(8)];
    if (type === VENDOR_OUT) this.#vendor(request, value, index);
    const answer = type < DEVICE_IN ? Buffer.alloc(0) : this.#asked(type, request, value)?.subarray(0, length);
    const header = Buffer.from(body.subarray(0, TRANSFER_BYTES));
    header[3] = answer === undefined ? STALL : OK;
    header.writeUInt16LE(type < DEVICE_IN ? length : (answer?.length ?? 0), 8);
    this.#send(CONTROL, id, header, answer);
  }

  #bulk(id: bigint, body: Buffer): void {
    if (body[0] === IN) {
      this.#requests.push(id);
      return this.#answer();
    }
    this.#transmit(body.subarray(TRANSFER_BYTES));
    this.#sendBulk(id, OUT, OK, body.length - TRANSFER_BYTES);
  }

  #sendBulk(id: bigint, endpoint: number, status: number, length: number, bytes?: Buffer): void {
    const header = Buffer.alloc(TRANSFER_BYTES);
    header[0] = endpoint;
    header[1] = status;
    header.writeUInt16LE(length, 2);
    this.#send(BULK, id, header, bytes);
  }

  #send(type: number, id: bigint, ...parts: readonly (Buffer | undefined)[]): void {
    const body = Buffer.concat(parts.filter((part) => part !== undefined));
    const header = Buffer.alloc(HEADER_BYTES);
    header.writeUInt32LE(type);
    header.writeUInt32LE(body.length, 4);
    header.writeBigUInt64LE(id, 8);
    this.#socket.write(Buffer.concat([header, body]));
  }
}

/** Type, interval and interface of 16 endpoints out and 16 in, and their largest packets. */
function endpoints(): Buffer {
  const info = Buffer.alloc(3 * 32 + 2 * 32);
  info.fill(NO_TYPE, 0, 32);
  for (const [at, type, bytes] of [
    [0, 0, 8],
    [16, 0, 8],
    [16 + (IN & 0x0f), BULK_TYPE, PACKET_BYTES],
    [OUT, BULK_TYPE, PACKET_BYTES],
  ] as const) {
    info[at] = type;
    info.writeUInt16LE(bytes, 96 + 2 * at);
  }
  return info;
}

function flowName(kind: number): string {
  return { 1: 'RTS/CTS', 4: 'XON/XOFF' }[kind] ?? 'none';
}
