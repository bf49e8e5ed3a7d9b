/**
 * The one kind of tar file that lineside writes and reads: ustar with plain files and directories, every header exactly as
 * written here, so that whatever another program made of one (links, odd names, long names, devices) is refused and nothing
 * has to be interpreted. `tar` itself reads these files. Pure.
 */
import { LinesideError } from '../shared/base/errors.ts';

export const tarBlockBytes = 512;
/** Two blocks of zeros. */
export const tarEndBytes = 2 * tarBlockBytes;
/** 11 octal digits. */
const tarFileLimitBytes = 8 * 1024 ** 3 - 1;

export interface TarEntry {
  /** Relative, "a/b"; a directory's has no slash behind it. */
  readonly path: string;
  readonly isDirectory: boolean;
  /** 0 for a directory. */
  readonly bytes: number;
  readonly mode: number;
  readonly mtimeS: number;
  /** Names, not numbers: those differ from box to box. '' where they do not matter. */
  readonly owner: string;
  readonly group: string;
}

/** Names that every file system and every shell takes; a part that is "." or ".." leads elsewhere and is none. */
const part = /^(?!\.{1,2}$)[A-Za-z0-9._@+=,~-]+$/;
const maxPathBytes = 99;
const maxDepth = 6;

export function isPlainPath(path: string): boolean {
  const parts = path.split('/');
  return path.length <= maxPathBytes && parts.length <= maxDepth && parts.every((one) => part.test(one));
}

export function tarHeader(entry: TarEntry): Buffer {
  const { path, isDirectory, bytes, mode, mtimeS, owner, group } = entry;
  if (!isPlainPath(path)) throw malformed(`the name ${JSON.stringify(path)} cannot be kept in it`);
  if (bytes > tarFileLimitBytes) throw malformed(`${path} is larger than ${tarFileLimitBytes} bytes`);
  const block = Buffer.alloc(tarBlockBytes);
  block.write(isDirectory ? `${path}/` : path, 0, 'latin1');
  block.write(`${octal(mode & 0o7777, 7)}\0${octal(0, 7)}\0${octal(0, 7)}\0`, 100, 'latin1');
  block.write(`${octal(bytes, 11)}\0${octal(mtimeS, 11)}\0`, 124, 'latin1');
  block.write(isDirectory ? '5' : '0', 156, 'latin1');
  block.write('ustar\u000000', 257, 'latin1');
  block.write(owner, 265, 31, 'latin1');
  block.write(group, 297, 31, 'latin1');
  block.write(`${octal(0, 7)}\0${octal(0, 7)}\0`, 329, 'latin1');
  block.write(`${octal(sumOf(block), 6)}\0 `, 148, 'latin1');
  return block;
}

/** undefined: a block of zeros, the end. Throws MALFORMED for anything that tarHeader does not write. */
export function parseTarHeader(block: Buffer): TarEntry | undefined {
  if (block.every((byte) => byte === 0)) return undefined;
  const name = text(block, 0, 100);
  const isDirectory = block[156] === 0x35;
  const entry = {
    path: isDirectory ? name.replace(/\/$/, '') : name,
    isDirectory,
    bytes: number(block, 124, 11),
    mode: number(block, 100, 7),
    mtimeS: number(block, 136, 11),
    owner: text(block, 265, 32),
    group: text(block, 297, 32),
  };
  if (isDirectory && entry.bytes !== 0) throw malformed(`the directory ${name} has a content`);
  if (!tarHeader(entry).equals(block)) throw malformed(`${JSON.stringify(name)} is no plain file or directory`);
  return entry;
}

/** Zeros behind a content, up to a whole block. */
export function tarPadding(bytes: number): number {
  return (tarBlockBytes - (bytes % tarBlockBytes)) % tarBlockBytes;
}

/** Of the checksum's own field the sum takes eight blanks. */
function sumOf(block: Buffer): number {
  let sum = 8 * 0x20;
  for (let at = 0; at < tarBlockBytes; at++) if (at < 148 || at >= 156) sum += block[at] ?? 0;
  return sum;
}

function octal(value: number, digits: number): string {
  return value.toString(8).padStart(digits, '0');
}

function number(block: Buffer, at: number, digits: number): number {
  const written = block.toString('latin1', at, at + digits);
  if (!/^[0-7]+$/.test(written)) throw malformed('a number of a header cannot be read');
  return Number.parseInt(written, 8);
}

function text(block: Buffer, at: number, bytes: number): string {
  const field = block.subarray(at, at + bytes);
  const end = field.indexOf(0);
  return field.toString('latin1', 0, end === -1 ? bytes : end);
}

function malformed(what: string): LinesideError {
  return new LinesideError('MALFORMED', `the archive is not one of lineside's: ${what}`);
}
