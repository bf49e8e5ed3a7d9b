/** Which rows of the log are shown. Pure. */
import { bytesOfHex, bytesOfText } from './escapes.ts';
import type { Row } from './rows.ts';

export interface Wanted {
  readonly dir: 'all' | 'rx' | 'tx';
  readonly text: string;
  readonly as: 'text' | 'hex';
}

export const everything: Wanted = { dir: 'all', text: '', as: 'text' };

export interface Filter {
  /** Why what was typed cannot be searched for; '' where it can. Then everything of the direction is shown. */
  readonly fault: string;
  readonly narrows: boolean;
  readonly matches: (row: Row) => boolean;
}

/** Text is found whatever the case of its ASCII letters; a search does not reach over the end of an entry. */
export function filterFor({ dir, text, as }: Wanted): Filter {
  const typed = as === 'hex' ? bytesOfHex(text) : bytesOfText(text);
  const fault = 'fault' in typed ? typed.fault : '';
  const needle = 'bytes' in typed ? typed.bytes : new Uint8Array();
  const folded = as === 'text' ? needle.map(lower) : needle;
  /** What was looked through is not looked through again with every new entry: the page holds megabytes. */
  const known = new WeakMap<Row, boolean>();
  const finds = needle.length === 0 ? () => true : (bytes: Uint8Array) => includes(bytes, folded, as === 'text');
  return {
    fault,
    narrows: dir !== 'all' || needle.length > 0,
    // A gap is shown whatever is looked for: what was looked for may have been in it.
    matches(row) {
      if (row.kind === 'gap') return true;
      if (dir !== 'all' && row.dir !== dir) return false;
      const found = known.get(row) ?? finds(row.bytes);
      known.set(row, found);
      return found;
    },
  };
}

function includes(bytes: Uint8Array, needle: Uint8Array, folds: boolean): boolean {
  const last = bytes.length - needle.length;
  for (let at = 0; at <= last; at += 1) {
    let same = 0;
    while (same < needle.length) {
      const byte = bytes[at + same] ?? 0;
      if ((folds ? lower(byte) : byte) !== needle[same]) break;
      same += 1;
    }
    if (same === needle.length) return true;
  }
  return false;
}

function lower(byte: number): number {
  return byte >= 65 && byte <= 90 ? byte + 32 : byte;
}
