/**
 * A real pseudo-terminal of this process's own: a master to play the device with, and the path of a slave to open as a
 * port. Reading the master is event-driven; writing to it never blocks.
 */
import { closeSync, constants, openSync } from 'node:fs';
import { ReadStream } from 'node:tty';
import { systemClock } from '../../../shared/base/clock.ts';
import { openMaster, writeSome } from '../../../shared/base/libc.ts';
import { Parity, StopBits } from '../line-config.ts';
import { rawTermios } from '../linux/termios.ts';
import { getTermios, setTermios, untaken } from '../linux/tty-ioctl.ts';
import { TtyWriter, type WriteResult } from '../linux/writer.ts';

const FLAGS = constants.O_RDWR | constants.O_NOCTTY | constants.O_NONBLOCK;
const rawLine = { baudRate: 115_200, dataBits: 8, parity: Parity.none, stopBits: StopBits.one } as const;

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
