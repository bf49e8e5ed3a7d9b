/**
 * The simulated line: a real pseudo-terminal with a chatty device behind it, under a name that stays the same. Loads koffi, so it is
 * imported when it is wanted.
 */
import { closeSync, constants, openSync } from 'node:fs';
import { mkdir, readlink, rename, symlink, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { ReadStream } from 'node:tty';
import { type Clock, systemClock, type Timer } from '../../../shared/base/clock.ts';
import { openMaster, writeSome } from '../../../shared/base/libc.ts';
import { rawTermios } from '../linux/termios.ts';
import { getTermios, setTermios, untaken } from '../linux/tty-ioctl.ts';
import { TtyWriter, type WriteResult } from '../linux/writer.ts';

const LINK_NAME = 'sim0';
/** Half of what the terminal holds for its reader (4,096 bytes): with more unread, answers are dropped. */
const MAX_UNREAD_BYTES = 2_048;
/** How soon "SET RATE" after a pause is noticed when reports are off. */
const IDLE_LOOK_MS = 1_000;

/** `runtimeDir`: gets the link sim0; made if it is not there. */
export async function startSimulatedLine(runtimeDir: string, clock: Clock) {
  const portName = join(runtimeDir, LINK_NAME);
  await mkdir(runtimeDir, { recursive: true });
  const pty = openPty();
  try {
    await placeLink(pty.slavePath, portName);
  } catch (thrown) {
    pty.close();
    throw thrown;
  }
  const device = new ChattyDevice(clock.monoMs());
  let timer: Timer;

  const say = (bytes: Uint8Array, unreadLimit: number): void => {
    if (bytes.length === 0 || pty.unread() > unreadLimit) return;
    // What does not fit at once is dropped: a device does not wait for its listener.
    const now = new AbortController();
    void pty.write(bytes, now.signal);
    now.abort();
  };
  const tick = (): void => {
    // Unread since the last report: no client listens, and a later one wants no old temperatures.
    say(device.report(clock.monoMs()), 0);
    plan();
  };
  const plan = (): void => {
    const nextMs = device.nextMs ?? clock.monoMs() + IDLE_LOOK_MS;
    timer = clock.timer(Math.max(0, nextMs - clock.monoMs()), tick);
  };
  pty.onData((bytes) => {
    say(device.receive(bytes, clock.monoMs()), MAX_UNREAD_BYTES);
    // A new rate counts at once.
    timer.cancel();
    plan();
  });
  plan();

  return {
    /** For serial.extra_ports. */
    portName,
    description: 'Simulated line',
    async close() {
      timer.cancel();
      pty.close();
      // Not if another instance has put its own there meanwhile.
      const target = await readlink(portName).catch(() => '');
      if (target === pty.slavePath) await unlink(portName).catch(() => {});
    },
  };
}

/** Replaces what an earlier run left, in one step. */
async function placeLink(target: string, link: string): Promise<void> {
  const fresh = `${link}.${process.pid}`;
  await unlink(fresh).catch(() => {});
  await symlink(target, fresh);
  await rename(fresh, link);
}

// A real pseudo-terminal of this process's own: a master to play the device with, and the path of a slave to open as a port.
// Reading the master is event-driven; writing to it never blocks.

const FLAGS = constants.O_RDWR | constants.O_NOCTTY | constants.O_NONBLOCK;
const rawLine = { baudRate: 115_200, dataBits: 8, parity: 0, stopBits: 0, flowControl: 0 } as const;

export interface Pty {
  readonly slavePath: string;
  readonly masterFd: number;
  /** Every byte that the slave's user wrote; until this is called they stay in the kernel (a peer that never reads). */
  onData(call: (bytes: Uint8Array) => void): void;
  /** Stops and resumes reading. */
  pause(): void;
  resume(): void;
  /** Writes all of it unless the signal fires or the PTY is closed. */
  write(data: Uint8Array, signal?: AbortSignal): Promise<WriteResult>;
  /** Bytes written here that the slave's user has not read (of those the terminal holds, 4,095 at most). */
  unread(): number;
  /** Closes the master: for the slave's user the device is unplugged. Idempotent. */
  close(): void;
}

export function openPty(): Pty {
  const { master, slavePath } = openMaster(FLAGS);
  // With a slave held open the master never reads EIO when the port is closed and opened again.
  const slave = openSync(slavePath, FLAGS);
  setTermios(slave, rawTermios(rawLine, getTermios(slave)));
  // libuv does not reopen a master: the stream has this very descriptor, and closes it.
  const stream = new ReadStream(master);
  const writer = new TtyWriter({ write: (data) => writeSome(master, data), clock: systemClock, onDead: () => {} });
  const never = new AbortController().signal;
  stream.on('error', () => {});
  let open = true;
  return {
    slavePath,
    masterFd: master,
    onData: (call) => void stream.on('data', call),
    pause: () => void stream.pause(),
    resume: () => void stream.resume(),
    write: (data, signal) => writer.write(data, signal ?? never),
    unread: () => (open ? untaken(slave) : 0),
    close() {
      if (!open) return;
      open = false;
      writer.end(new Error('the pseudo-terminal was closed'));
      closeSync(slave);
      stream.destroy();
    },
  };
}

// The device at the far end of the simulated line: a thermometer that sends reports and answers a few commands.
// Pure: bytes and time in, bytes out.
//
// PING          PONG
// ID?           what it is
// SET RATE n    a report every n ms (100 to 60,000; 0: none)
// anything else ?

/** A line that a person can follow on the screen. */
const FIRST_RATE_MS = 1_000;
const MIN_RATE_MS = 100;
const MAX_RATE_MS = 60_000;
/** Longer than any command; what exceeds it is noise. */
const MAX_LINE_BYTES = 128;
const CR = 13;
const LF = 10;

export const DEVICE_ID = 'LINESIDE-SIM thermometer 1';

export class ChattyDevice {
  #line: number[] = [];
  #overlong = false;
  #reports = 0;
  #rateMs = FIRST_RATE_MS;
  #nextMs: number;

  constructor(nowMs: number) {
    this.#nextMs = nowMs + this.#rateMs;
  }

  /** When the next report is due; undefined: reports are off. */
  get nextMs(): number | undefined {
    return this.#rateMs === 0 ? undefined : this.#nextMs;
  }

  /** Takes what came over the line and gives the answers to the commands in it. */
  receive(bytes: Uint8Array, nowMs: number): Uint8Array {
    let answers = '';
    for (const byte of bytes) {
      if (byte === CR || byte === LF) answers += this.#endLine(nowMs);
      else if (this.#line.length < MAX_LINE_BYTES) this.#line.push(byte);
      else this.#overlong = true;
    }
    return ascii(answers);
  }

  /** The report that is due now, or nothing. */
  report(nowMs: number): Uint8Array {
    if (this.#rateMs === 0 || nowMs < this.#nextMs) return new Uint8Array();
    // From now on, not from when it was due: after a pause of the process there is no burst.
    this.#nextMs = nowMs + this.#rateMs;
    this.#reports += 1;
    const body = `SIM,${String(this.#reports).padStart(6, '0')},TEMP,${temperature(this.#reports).toFixed(2)},C`;
    return ascii(`$${body}*${checksum(body)}\r\n`);
  }

  #endLine(nowMs: number): string {
    const command = this.#overlong ? '\0' : String.fromCharCode(...this.#line).trim();
    this.#line = [];
    this.#overlong = false;
    // The second half of CR LF; and our own words, which a line with echo would send back without end.
    if (command === '' || command.startsWith('?') || command.startsWith('$')) return '';
    return `${this.#answer(command.toUpperCase(), nowMs)}\r\n`;
  }

  #answer(command: string, nowMs: number): string {
    if (command === 'PING') return 'PONG';
    if (command === 'ID?') return DEVICE_ID;
    const rate = /^SET RATE (\d{1,6})$/.exec(command)?.[1];
    return rate === undefined ? '?' : this.#setRate(Number(rate), nowMs);
  }

  #setRate(rateMs: number, nowMs: number): string {
    if (rateMs !== 0 && (rateMs < MIN_RATE_MS || rateMs > MAX_RATE_MS)) return '?';
    this.#rateMs = rateMs;
    this.#nextMs = nowMs + rateMs;
    return 'OK';
  }
}

/** A room that warms and cools by 2 degrees in 200 reports, with a ripple of the sensor's own. */
function temperature(report: number): number {
  const slow = Math.sin((report / 200) * 2 * Math.PI) * 2;
  const ripple = ((report * 7919) % 23) / 100;
  return 21 + slow + ripple;
}

/** As in NMEA 0183: all characters between $ and * by exclusive or, two hex digits. */
export function checksum(body: string): string {
  let sum = 0;
  for (const character of body) sum ^= character.charCodeAt(0);
  return sum.toString(16).toUpperCase().padStart(2, '0');
}

function ascii(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}
