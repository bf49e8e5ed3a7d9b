/** What the line's settings are in a struct termios2 of Linux. Pure. */

import { LinesideError } from '../../../shared/base/errors.ts';
import { BOTHER, CBAUD, CRTSCTS, IXOFF, IXON, type Termios } from '../../../shared/base/termios.ts';
import type { PortToOpen } from '../inventory.ts';
import {
  type DataBits,
  FlowControl,
  flowControlNames,
  type LineSettings,
  Parity,
  StopBits,
  stopBitsNames,
} from '../line-config.ts';

const VTIME = 5;
const VMIN = 6;
const VSTART = 8;
const VSTOP = 9;
const XON = 0x11;
const XOFF = 0x13;
// c_iflag.
const PARMRK = 0o000010;
const INPCK = 0o000020;

// c_cflag, octal as in the kernel's header.
const CSIZE = 0o000060;
/** There the data bits above this number. */
const MIN_DATA_BITS = 5;
const CSIZE_SHIFT = 4;
const CSTOPB = 0o000100;
const CREAD = 0o000200;
const PARENB = 0o000400;
const PARODD = 0o001000;
const CLOCAL = 0o004000;
const CMSPAR = 0o10000000000;
const parityFlags: Readonly<Record<Parity, number>> = {
  [Parity.none]: 0,
  [Parity.even]: PARENB,
  [Parity.odd]: PARENB | PARODD,
  [Parity.mark]: PARENB | CMSPAR | PARODD,
  [Parity.space]: PARENB | CMSPAR,
};
const PARITY_MASK = PARENB | PARODD | CMSPAR;

/** Rates with a code of their own, in the order of the codes: other programs then read an ordinary rate. All others: BOTHER. */
const codedRates: readonly (readonly [firstCode: number, rates: readonly number[]])[] = [
  [0o1, [50, 75, 110, 134, 150, 200, 300, 600, 1200, 1800, 2400, 4800, 9600, 19200, 38400]],
  [0o10001, [57600, 115200, 230400, 460800, 500000, 576000, 921600, 1000000, 1152000]],
  [0o10012, [1500000, 2000000, 2500000, 3000000, 3500000, 4000000]],
];
const rateCodes: ReadonlyMap<number, number> = new Map(
  codedRates.flatMap(([first, rates]) => rates.map((rate, i) => [rate, first + i] as const)),
);

/**
 * A raw line with these settings. Whatever an earlier user left behind is cleared: HUPCL, CMSPAR, PARODD, flow control that was
 * not asked for. With every other input flag off a byte with a parity or framing error is delivered as it came and counted by
 * the kernel, and a break reads as one NUL, as pyserial has it.
 */
export function rawTermios(settings: LineSettings, former: Termios): Termios {
  const cc = Uint8Array.from(former.cc);
  cc[VMIN] = 1;
  cc[VTIME] = 0;
  cc[VSTART] = XON;
  cc[VSTOP] = XOFF;
  const stop = settings.stopBits === StopBits.one ? 0 : CSTOPB;
  const rate = rateCodes.get(settings.baudRate) ?? BOTHER;
  const dataBits = (settings.dataBits - MIN_DATA_BITS) << CSIZE_SHIFT;
  // CIBAUD, the input speed, stays 0: as the output speed.
  const rtsCts = settings.flowControl === FlowControl.rtscts ? CRTSCTS : 0;
  const cflag = rate | dataBits | parityFlags[settings.parity] | stop | rtsCts | CREAD | CLOCAL;
  return {
    iflag: settings.flowControl === FlowControl.xonxoff ? IXON | IXOFF : 0,
    oflag: 0,
    cflag: cflag >>> 0,
    lflag: 0,
    line: former.line,
    cc,
    ispeed: settings.baudRate,
    ospeed: settings.baudRate,
  };
}

/** The same line with marks of its errors between the received bytes (see LineErrorDecoder), or without. */
export function withMarks(termios: Termios, on: boolean): Termios {
  const marks = INPCK | PARMRK;
  return { ...termios, iflag: on ? termios.iflag | marks : termios.iflag & ~marks };
}

/** The settings that the kernel reports. `onePointFive`: whether CSTOPB with 5 data bits is 1.5 on this hardware. */
export function settingsOf(termios: Termios, onePointFive: boolean): LineSettings {
  const { cflag, iflag } = termios;
  const dataBits = (((cflag & CSIZE) >> CSIZE_SHIFT) + MIN_DATA_BITS) as DataBits;
  const twoStopBits = onePointFive && dataBits === MIN_DATA_BITS ? StopBits.onePointFive : StopBits.two;
  const stopBits = (cflag & CSTOPB) === 0 ? StopBits.one : twoStopBits;
  const software = (iflag & (IXON | IXOFF)) === 0 ? FlowControl.none : FlowControl.xonxoff;
  const flowControl = (cflag & CRTSCTS) === 0 ? software : FlowControl.rtscts;
  return { baudRate: baudOf(termios), dataBits, parity: parityOf(cflag), stopBits, flowControl };
}

function parityOf(cflag: number): Parity {
  const bits = (cflag & PARITY_MASK) >>> 0;
  // PARODD and CMSPAR mean nothing without PARENB.
  return Object.values(Parity).find((parity) => parityFlags[parity] === bits) ?? Parity.none;
}

function baudOf(termios: Termios): number {
  const code = termios.cflag & CBAUD;
  if (code === BOTHER) return termios.ospeed;
  for (const [rate, known] of rateCodes) if (known === code) return rate;
  return termios.ospeed;
}

/** 8N1 receivers sample wrongly past about 5 % between both ends: half of that for ours. */
const SPEED_TOLERANCE = 0.025;

const parityNames = Object.keys(Parity);

/** The first setting the driver did not take, in words; undefined when it took all. */
export function settingNotTaken(asked: LineSettings, got: LineSettings): string | undefined {
  const say = (setting: string, a: string | number | undefined, g: string | number | undefined): string =>
    `the driver did not take ${setting}: asked ${a}, got ${g}`;
  if (Math.abs(got.baudRate - asked.baudRate) > asked.baudRate * SPEED_TOLERANCE)
    return say('the baud rate', asked.baudRate, got.baudRate);
  if (got.dataBits !== asked.dataBits) return say('data bits', asked.dataBits, got.dataBits);
  if (got.parity !== asked.parity) return say('parity', parityNames[asked.parity], parityNames[got.parity]);
  if (got.stopBits !== asked.stopBits)
    return say('stop bits', stopBitsNames[asked.stopBits], stopBitsNames[got.stopBits]);
  if (got.flowControl !== asked.flowControl)
    return say('flow control', flowControlNames[asked.flowControl], flowControlNames[got.flowControl]);
  return undefined;
}

/**
 * Drivers whose hardware sends 1.5 stop bits for CSTOPB with 5 data bits: the 16550 (its line control register has no
 * other meaning for it) under the names of its glue drivers, and two USB chips made after it.
 */
const oneAndAHalf = /^(serial|serial8250|8250.*|of_serial|dw-apb-uart|bcm2835-aux-uart|pl2303|ch341.*)$/;

export function hasOnePointFive(driver: string): boolean {
  return oneAndAHalf.test(driver);
}

/** Throws SETTING_REFUSED for what this port cannot do, saying why. */
export function checkSettings(port: PortToOpen, settings: LineSettings): void {
  const fault = stopBitsFault(port, settings);
  if (fault !== undefined) throw new LinesideError('SETTING_REFUSED', `stop_bits: ${fault}`);
}

function stopBitsFault(port: PortToOpen, settings: LineSettings): string | undefined {
  const here = hasOnePointFive(port.driver);
  if (settings.stopBits === StopBits.onePointFive) {
    if (settings.dataBits !== 5) return `1.5 exists only with 5 data bits, asked ${settings.dataBits}`;
    if (port.isPty || here) return undefined;
    return `asked 1.5, which the driver of ${port.devicePath} (${port.driver || 'unknown'}) does not have`;
  }
  if (settings.stopBits === StopBits.two && settings.dataBits === 5 && here)
    return `asked 2, but with 5 data bits this hardware (${port.driver}) sends 1.5: ask for 1.5 or 1`;
  return undefined;
}
