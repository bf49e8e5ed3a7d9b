/** The boards of the image, as image/boards declares them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Board {
  readonly tree: string;
  /** Kernel modules; undefined: the board has none. */
  readonly usb: string;
  readonly ethernet: string | undefined;
  /** Number in the names of its firmware's files. */
  readonly wifi: string | undefined;
  readonly name: string;
}

export const boards: readonly Board[] = readFileSync(join(import.meta.dirname, '../../image/boards'), 'utf8')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'))
  .map((line) => {
    const [tree = '', usb = '', ethernet, wifi, name = ''] = line.split('|').map((cell) => cell.trim());
    return {
      tree,
      usb,
      ethernet: ethernet === '-' ? undefined : ethernet,
      wifi: wifi === '-' ? undefined : wifi,
      name,
    };
  });
