/**
 * Pseudo-terminals of Linux. It keeps of their settings the speed and the flow control alone: it drops parity, 7 data bits,
 * break and the modem lines.
 */
import { constants } from 'node:fs';
import { ioctl, ioctlValue, openMaster, writeSome } from '../../shared/base/libc.ts';
import { holdersOf } from '../../shared/base/processes.ts';
import {
  BOTHER,
  CBAUD,
  CRTSCTS,
  decodeTermios,
  encodeTermios,
  IXOFF,
  IXON,
  TCFLSH,
  TCGETS2,
  TCIFLUSH,
  TCSETS2,
  TERMIOS_BYTES,
  type Termios,
} from '../../shared/base/termios.ts';
import type { Terminals } from './pty.ts';

export const terminals: Terminals = {
  open: () => openMaster(constants.O_RDWR | constants.O_NOCTTY | constants.O_NONBLOCK),
  write: writeSome,
  settings(slave) {
    const { iflag, cflag, ospeed: baudRate } = read(slave);
    const software = (iflag & (IXON | IXOFF)) === 0 ? 0 : 2;
    return { baudRate, flowControl: (cflag & CRTSCTS) === 0 ? software : 1 };
  },
  setRaw(slave, { baudRate, flowControl }) {
    const former = read(slave);
    const iflag = flowControl === 2 ? IXON | IXOFF : 0;
    const rtsCts = flowControl === 1 ? CRTSCTS : 0;
    const cflag = ((former.cflag & ~CBAUD) | BOTHER | rtsCts) >>> 0;
    const termios = { ...former, iflag, oflag: 0, cflag, lflag: 0, ispeed: baudRate, ospeed: baudRate };
    ioctl(slave, 'TCSETS2', TCSETS2, encodeTermios(termios));
  },
  dropInput: (slave) => ioctlValue(slave, 'TCFLSH', TCFLSH, TCIFLUSH),
  isUnused: async (path) => (await holdersOf('/proc', path)).holders.length === 0,
};

function read(slave: number): Termios {
  const termios = Buffer.alloc(TERMIOS_BYTES);
  ioctl(slave, 'TCGETS2', TCGETS2, termios);
  return decodeTermios(termios);
}
