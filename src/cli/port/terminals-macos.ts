/**
 * Pseudo-terminals of macOS. Its calls and `struct termios` are those of Apple's headers (64-bit, both processors); not
 * run on a Mac yet.
 */
import { execFile } from 'node:child_process';
import { constants, openSync } from 'node:fs';
import { constants as system } from 'node:os';
import { getSystemErrorName, promisify } from 'node:util';
import koffi from 'koffi';
import type { PtySettings, Terminals } from './pty.ts';

// <termios.h>: four flag words of 64 bits, c_cc[20], two speeds of 64 bits. A speed is its number of baud.
const TERMIOS_BYTES = 72;
const IFLAG_AT = 0;
const OFLAG_AT = 8;
const CFLAG_AT = 16;
const LFLAG_AT = 24;
const ISPEED_AT = 56;
const OSPEED_AT = 64;
const IXON = 0x200n;
const IXOFF = 0x400n;
const CRTSCTS = 0x3_0000n;
const TCSANOW = 0;
const TCIFLUSH = 1;
/** "/dev/ttys003". */
const NAME_BYTES = 128;
const LSOF_LIMIT_MS = 5_000;

type Call<Arguments extends unknown[]> = (...values: Arguments) => number;
const library = koffi.load(null);
const callGrantPt: Call<[number]> = library.func('int grantpt(int)');
const callUnlockPt: Call<[number]> = library.func('int unlockpt(int)');
const callPtsName: Call<[number, Uint8Array, number]> = library.func('int ptsname_r(int, void *, size_t)');
const callGet: Call<[number, Uint8Array]> = library.func('int tcgetattr(int, void *)');
const callSet: Call<[number, number, Uint8Array]> = library.func('int tcsetattr(int, int, void *)');
const callFlush: Call<[number, number]> = library.func('int tcflush(int, int)');
const callWrite: Call<[number, Uint8Array, number]> = library.func('intptr_t write(int, void *, size_t)');

function checked(call: string, result: number): void {
  if (result !== 0) throw new Error(`${call}: ${getSystemErrorName(-koffi.errno())}`);
}

export const terminals: Terminals = {
  open() {
    const master = openSync('/dev/ptmx', constants.O_RDWR | constants.O_NOCTTY | constants.O_NONBLOCK);
    checked('grantpt', callGrantPt(master));
    checked('unlockpt', callUnlockPt(master));
    const name = Buffer.alloc(NAME_BYTES);
    checked('ptsname_r', callPtsName(master, name, name.length));
    return { master, slavePath: name.toString('utf8', 0, name.indexOf(0)) };
  },
  write(master, bytes) {
    const taken = callWrite(master, bytes, bytes.length);
    const { EAGAIN, EINTR } = system.errno;
    if (taken === -1 && ![EAGAIN, EINTR].includes(koffi.errno())) checked('write', taken);
    return Math.max(0, taken);
  },
  settings: (slave) => settingsIn(read(slave)),
  setRaw: (slave, settings) => checked('tcsetattr', callSet(slave, TCSANOW, rawWith(settings, read(slave)))),
  dropInput: (slave) => checked('tcflush', callFlush(slave, TCIFLUSH)),
  async isUnused(path) {
    // Its exit status is 1 also where it could not see everything.
    const { stdout } = await promisify(execFile)('/usr/sbin/lsof', ['-t', path], { timeout: LSOF_LIMIT_MS }).catch(
      (error: { stdout?: string }) => ({ stdout: error.stdout ?? '' }),
    );
    // This process holds it: if even that is not seen, nothing is known.
    return stdout.trim() === String(process.pid);
  },
};

function read(slave: number): Buffer {
  const termios = Buffer.alloc(TERMIOS_BYTES);
  checked('tcgetattr', callGet(slave, termios));
  return termios;
}

export function settingsIn(termios: Buffer): PtySettings {
  const software = (termios.readBigUInt64LE(IFLAG_AT) & (IXON | IXOFF)) === 0n ? 0 : 2;
  const isHardware = (termios.readBigUInt64LE(CFLAG_AT) & CRTSCTS) !== 0n;
  return { baudRate: Number(termios.readBigUInt64LE(OSPEED_AT)), flowControl: isHardware ? 1 : software };
}

export function rawWith({ baudRate, flowControl }: PtySettings, former: Buffer): Buffer {
  const termios = Buffer.from(former);
  const cflag = former.readBigUInt64LE(CFLAG_AT) & ~CRTSCTS;
  termios.writeBigUInt64LE(flowControl === 2 ? IXON | IXOFF : 0n, IFLAG_AT);
  termios.writeBigUInt64LE(0n, OFLAG_AT);
  termios.writeBigUInt64LE(cflag | (flowControl === 1 ? CRTSCTS : 0n), CFLAG_AT);
  termios.writeBigUInt64LE(0n, LFLAG_AT);
  for (const at of [ISPEED_AT, OSPEED_AT]) termios.writeBigUInt64LE(BigInt(baudRate), at);
  return termios;
}
