/** Device numbers of ttys. Pure. Majors: Documentation/admin-guide/devices.txt of the kernel. */

export interface DeviceNumber {
  readonly major: number;
  readonly minor: number;
}

/** Takes Stats.rdev apart: 12 bits of major and 20 of minor, interleaved (makedev of glibc and the kernel). */
export function deviceNumber(rdev: number): DeviceNumber {
  return {
    major: Math.floor(rdev / 0x100) & 0xfff,
    minor: (rdev & 0xff) | (Math.floor(rdev / 0x1000) & 0xfff00),
  };
}

const PTY_SLAVE_MAJORS = { first: 136, last: 143 } as const;
const CONSOLE_MAJOR = 4;
/** Of major 4: minors below are virtual terminals, from here on ttyS. */
const FIRST_UART_MINOR = 64;
/** /dev/tty, /dev/console, /dev/ptmx. */
const ALTERNATE_TTY_MAJOR = 5;

export function isPtySlave({ major }: DeviceNumber): boolean {
  return major >= PTY_SLAVE_MAJORS.first && major <= PTY_SLAVE_MAJORS.last;
}

/** A tty that is no port: a virtual terminal, the console, or the door to a PTY. */
export function isTerminalOnly({ major, minor }: DeviceNumber): boolean {
  return major === ALTERNATE_TTY_MAJOR || (major === CONSOLE_MAJOR && minor < FIRST_UART_MINOR);
}
