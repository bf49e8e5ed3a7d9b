/** The card of these tables: what it is taken to bear, and what reaches the device below a directory. */
import { readFileSync, statSync } from 'node:fs';

const SECTOR_BYTES = 512;

/**
 * An assumption, not a measurement: a 32 GB card of the industrial kind, 3,000 erasures of each cell, and three bytes
 * written inside for each from outside (small scattered writes), so 32 TB of ours.
 */
export const CARD_BYTES = (32e9 * 3_000) / 3;

/** Written to the device that holds `dir` since the machine started, the file system's journal included; NaN: it has no account. */
export function deviceBytes(dir: string): number {
  const { dev } = statSync(dir);
  const name = `${(dev >> 8) & 0xfff}:${(dev & 0xff) | ((dev >> 12) & 0xfff00)}`;
  try {
    const sectors = readFileSync(`/sys/dev/block/${name}/stat`, 'utf8').trim().split(/\s+/)[6];
    return Number(sectors) * SECTOR_BYTES;
  } catch {
    return Number.NaN;
  }
}
