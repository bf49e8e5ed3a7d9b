/** A Modbus RTU slave at the far end of a line: answers "read holding registers" (function 3) at the pace of the line's baud rate. */
import { setTimeout as sleep } from 'node:timers/promises';
import { settingsOf } from '../../src/line/port/linux/termios.ts';
import { getTermios } from '../../src/line/port/linux/tty-ioctl.ts';
import type { Pty } from '../../src/line/port/simulated/simulated-line.ts';

/** 8E1, 8N2, or 8N1 with a pause. */
const BITS_PER_CHARACTER = 11;
const REQUEST_BYTES = 8;

export interface Slave {
  /** Requests that were answered, by baud rate. */
  readonly answered: Record<number, number>;
  /** What came at once and was no request: cut, glued, or with a wrong checksum. */
  readonly faults: string[];
}

/** Register n has the value n * 257, modulo 65,536. */
export function startSlave(pty: Pty): Slave {
  const slave: Slave = { answered: {}, faults: [] };
  pty.onData((bytes) => {
    const request = Buffer.from(bytes);
    if (request.length !== REQUEST_BYTES || crc(request) !== 0 || request[1] !== 3)
      return void slave.faults.push(request.toString('hex'));
    const { baudRate } = settingsOf(getTermios(pty.masterFd), false);
    slave.answered[baudRate] = (slave.answered[baudRate] ?? 0) + 1;
    void answer(pty, request, baudRate);
  });
  return slave;
}

async function answer(pty: Pty, request: Buffer, baudRate: number): Promise<void> {
  const [from, count] = [request.readUInt16BE(2), request.readUInt16BE(4)];
  const frame = Buffer.alloc(5 + 2 * count);
  frame.set([request[0] ?? 0, 3, 2 * count]);
  for (let n = 0; n < count; n++) frame.writeUInt16BE(((from + n) * 257) & 0xffff, 3 + 2 * n);
  frame.writeUInt16LE(crc(frame.subarray(0, -2)), frame.length - 2);
  await sleep(((REQUEST_BYTES + frame.length) * BITS_PER_CHARACTER * 1_000) / baudRate);
  await pty.write(frame);
}

/** CRC-16 of Modbus; 0 of a frame with its own. */
function crc(bytes: Uint8Array): number {
  let sum = 0xffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = sum & 1 ? (sum >>> 1) ^ 0xa001 : sum >>> 1;
  }
  return sum;
}
