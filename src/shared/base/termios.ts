/**
 * struct termios2 of Linux (asm-generic/termbits.h), and its ioctls; the same on x64 and arm64. Pure: bytes in, bytes out.
 */

export const TCGETS2 = 0x802c542a;
export const TCSETS2 = 0x402c542b;
export const TCFLSH = 0x540b;
export const TCIFLUSH = 0;

export interface Termios {
  readonly iflag: number;
  readonly oflag: number;
  readonly cflag: number;
  readonly lflag: number;
  /** Line discipline; 0 is the ordinary tty. */
  readonly line: number;
  /** NCCS bytes of control characters. */
  readonly cc: Uint8Array;
  readonly ispeed: number;
  readonly ospeed: number;
}

/** Four flag words, c_line, c_cc[19], two speeds: no padding. */
export const TERMIOS_BYTES = 44;
const NCCS = 19;
const LINE_AT = 16;
const CC_AT = 17;
const ISPEED_AT = 36;
const OSPEED_AT = 40;
// c_iflag.
export const IXON = 0o002000;
export const IXOFF = 0o010000;

// c_cflag, octal as in the kernel's header.
export const CBAUD = 0o010017;
export const BOTHER = 0o010000;
export const CRTSCTS = 0o20000000000;

export function decodeTermios(bytes: Uint8Array): Termios {
  const view = new DataView(bytes.buffer, bytes.byteOffset, TERMIOS_BYTES);
  return {
    iflag: view.getUint32(0, true),
    oflag: view.getUint32(4, true),
    cflag: view.getUint32(8, true),
    lflag: view.getUint32(12, true),
    line: view.getUint8(LINE_AT),
    cc: bytes.slice(CC_AT, CC_AT + NCCS),
    ispeed: view.getUint32(ISPEED_AT, true),
    ospeed: view.getUint32(OSPEED_AT, true),
  };
}

export function encodeTermios(termios: Termios): Uint8Array {
  const bytes = new Uint8Array(TERMIOS_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, termios.iflag, true);
  view.setUint32(4, termios.oflag, true);
  view.setUint32(8, termios.cflag, true);
  view.setUint32(12, termios.lflag, true);
  view.setUint8(LINE_AT, termios.line);
  bytes.set(termios.cc.subarray(0, NCCS), CC_AT);
  view.setUint32(ISPEED_AT, termios.ispeed, true);
  view.setUint32(OSPEED_AT, termios.ospeed, true);
  return bytes;
}
