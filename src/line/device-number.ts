/** Major and minor of a device node. Pure. */

/** Takes Stats.rdev apart: 12 bits of major and 20 of minor, interleaved (makedev of glibc and the kernel). */
export function deviceNumber(rdev: number): { readonly major: number; readonly minor: number } {
  return {
    major: Math.floor(rdev / 0x100) & 0xfff,
    minor: (rdev & 0xff) | (Math.floor(rdev / 0x1000) & 0xfff00),
  };
}
