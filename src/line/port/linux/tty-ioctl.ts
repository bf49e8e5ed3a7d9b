/** The ioctls of a Linux tty with names and types. Numbers: asm-generic/ioctls.h, the same on x64 and arm64. */

import { ioctl, ioctlValue } from '../../../shared/base/libc.ts';
import {
  decodeTermios,
  encodeTermios,
  TCFLSH,
  TCGETS2,
  TCIFLUSH,
  TCSETS2,
  TERMIOS_BYTES,
  type Termios,
} from '../../../shared/base/termios.ts';
import type { KernelCounters, ModemChanges, ModemLines } from '../line.ts';
import type { OutgoingLines } from '../line-config.ts';

const TIOCEXCL = 0x540c;
const TIOCNXCL = 0x540d;
const TIOCGEXCL = 0x80045440;
const TIOCOUTQ = 0x5411;
const FIONREAD = 0x541b;
const TIOCMGET = 0x5415;
const TIOCMSET = 0x5418;
const TIOCGSERIAL = 0x541e;
const TIOCSSERIAL = 0x541f;
const TIOCSBRK = 0x5427;
const TIOCCBRK = 0x5428;
const TIOCSERGETLSR = 0x5459;
const TIOCGICOUNT = 0x545d;

/** What TCFLSH discards. */
const flushed = { input: TCIFLUSH, output: 1, both: 2 } as const;

/** The transmitter's shift register is empty. */
const TIOCSER_TEMT = 1;

/** TIOCM_DTR and so on. */
const modemBits: Readonly<Record<keyof ModemLines, number>> = {
  dtr: 0x002,
  rts: 0x004,
  cts: 0x020,
  dsr: 0x100,
  dcd: 0x040,
  ri: 0x080,
};

/** struct serial_struct on a 64-bit kernel, and its `flags` field. */
const SERIAL_STRUCT_BYTES = 72;
const SERIAL_FLAGS_AT = 16;
const ASYNC_LOW_LATENCY = 1 << 13;
/** struct serial_icounter_struct: eleven counters and nine spare ints. */
const ICOUNTER_BYTES = 80;
/** Ints 0 to 3: changes of the modem lines. */
const changeNames = ['cts', 'dsr', 'ri', 'dcd'] as const satisfies (keyof ModemChanges)[];
/** From int 4 on. */
const counterNames = [
  'rx',
  'tx',
  'frame',
  'overrun',
  'parity',
  'brk',
  'bufOverrun',
] as const satisfies (keyof KernelCounters)[];

export function getTermios(fd: number): Termios {
  const bytes = Buffer.alloc(TERMIOS_BYTES);
  ioctl(fd, 'TCGETS2', TCGETS2, bytes);
  return decodeTermios(bytes);
}

export function setTermios(fd: number, termios: Termios): void {
  ioctl(fd, 'TCSETS2', TCSETS2, encodeTermios(termios));
}

/** Bytes that were not read, or not transmitted. */
export function discard(fd: number, what: keyof typeof flushed): void {
  ioctlValue(fd, 'TCFLSH', TCFLSH, flushed[what]);
}

export function setExclusive(fd: number, on: boolean): void {
  ioctl(fd, on ? 'TIOCEXCL' : 'TIOCNXCL', on ? TIOCEXCL : TIOCNXCL, null);
}

export function isExclusive(fd: number): boolean {
  return readInt(fd, 'TIOCGEXCL', TIOCGEXCL) !== 0;
}

/** Bytes that have arrived and were not read. */
export function untaken(fd: number): number {
  return readInt(fd, 'FIONREAD', FIONREAD);
}

/** Bytes that were written and are not yet with the hardware. */
export function unsent(fd: number): number {
  return readInt(fd, 'TIOCOUTQ', TIOCOUTQ);
}

/** Whether the hardware has sent all it was given. Throws where the driver does not know (most USB adapters). */
export function isTransmitterEmpty(fd: number): boolean {
  return (readInt(fd, 'TIOCSERGETLSR', TIOCSERGETLSR) & TIOCSER_TEMT) !== 0;
}

export function getModemLines(fd: number): ModemLines {
  const bits = readInt(fd, 'TIOCMGET', TIOCMGET);
  return Object.fromEntries(Object.entries(modemBits).map(([name, bit]) => [name, (bits & bit) !== 0])) as ModemLines;
}

export function setOutgoingLines(fd: number, lines: OutgoingLines): void {
  let bits = readInt(fd, 'TIOCMGET', TIOCMGET);
  for (const name of ['dtr', 'rts'] as const)
    if (lines[name] !== undefined) bits = lines[name] ? bits | modemBits[name] : bits & ~modemBits[name];
  // Both in one step: a device that they reset sees no state in between.
  ioctl(fd, 'TIOCMSET', TIOCMSET, intBytes(bits));
}

export function setBreak(fd: number, on: boolean): void {
  ioctl(fd, on ? 'TIOCSBRK' : 'TIOCCBRK', on ? TIOCSBRK : TIOCCBRK, null);
}

export function getCounters(fd: number): KernelCounters {
  return readCounts(fd, counterNames, 4);
}

/** How often each incoming modem line has changed; 32 bits, wrapping. Throws where the driver does not count. */
export function getModemChanges(fd: number): ModemChanges {
  return readCounts(fd, changeNames, 0);
}

function readCounts<Name extends string>(fd: number, names: readonly Name[], from: number) {
  const bytes = Buffer.alloc(ICOUNTER_BYTES);
  ioctl(fd, 'TIOCGICOUNT', TIOCGICOUNT, bytes);
  const counts = names.map((name, i) => [name, bytes.readUInt32LE((from + i) * 4)]);
  return Object.fromEntries(counts) as Record<Name, number>;
}

/** The driver is to pass bytes on at once (FTDI: latency timer 1 ms instead of 16). Throws where it cannot. */
export function setLowLatency(fd: number): void {
  const bytes = Buffer.alloc(SERIAL_STRUCT_BYTES);
  ioctl(fd, 'TIOCGSERIAL', TIOCGSERIAL, bytes);
  bytes.writeInt32LE(bytes.readInt32LE(SERIAL_FLAGS_AT) | ASYNC_LOW_LATENCY, SERIAL_FLAGS_AT);
  ioctl(fd, 'TIOCSSERIAL', TIOCSSERIAL, bytes);
}

function readInt(fd: number, name: string, request: number): number {
  const bytes = Buffer.alloc(4);
  ioctl(fd, name, request, bytes);
  return bytes.readInt32LE(0);
}

function intBytes(value: number): Uint8Array {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
}
