/**
 * The one kind of tar file that lineside writes and reads, piece by piece whatever its size: ustar with plain files and
 * directories, every header exactly as written here, so that whatever another program made of one (links, odd names, long
 * names, devices) is refused and nothing has to be interpreted. `tar` itself reads these files.
 *
 * Not the package "tar": it brings five more, follows the extensions (pax, GNU long names) that are to be refused, and
 * reads whole files, not the part of an update bundle. These lines would become the checks of what it let through.
 */
import { fstatSync, readSync } from 'node:fs';
import { LinesideError } from '../shared/base/errors.ts';
import { opened } from './disk.ts';

const blockBytes = 512;
export const tarEndBytes = 2 * blockBytes;
/** 11 octal digits. */
const fileLimitBytes = 8 * 1024 ** 3 - 1;
/** Of a piece. The smallest board has 512 MB, most of them the service's; larger pieces gain nothing on a card. */
const pieceBytes = 1024 * 1024;

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

/** A file whose owner does not matter. */
export function plainFile(path: string, bytes: number, mtimeS: number, mode = 0o600): TarEntry {
  return { path, isDirectory: false, bytes, mode, mtimeS, owner: '', group: '' };
}

/** Names that every file system and every shell accepts; "." and ".." would lead elsewhere and are refused. */
const part = /^(?!\.{1,2}$)[A-Za-z0-9._@+=,~-]+$/;
const maxPathBytes = 99;
const maxDepth = 6;

export function isPlainPath(path: string): boolean {
  const parts = path.split('/');
  return path.length <= maxPathBytes && parts.length <= maxDepth && parts.every((one) => part.test(one));
}

export function tarHeader({ path, isDirectory, bytes, mode, mtimeS, owner, group }: TarEntry): Buffer {
  if (!isPlainPath(path)) throw malformed(`the name ${JSON.stringify(path)} cannot be kept in it`);
  if (bytes > fileLimitBytes) throw malformed(`${path} is larger than ${fileLimitBytes} bytes`);
  const block = Buffer.alloc(blockBytes);
  block.write(isDirectory ? `${path}/` : path, 0, 'latin1');
  block.write(`${octal(mode & 0o7777, 7)}\0${octal(0, 7)}\0${octal(0, 7)}\0`, 100, 'latin1');
  block.write(`${octal(bytes, 11)}\0${octal(mtimeS, 11)}\0`, 124, 'latin1');
  block.write(isDirectory ? '5' : '0', 156, 'latin1');
  block.write('ustar\u000000', 257, 'latin1');
  block.write(owner, 265, 31, 'latin1');
  block.write(group, 297, 31, 'latin1');
  block.write(`${octal(0, 7)}\0${octal(0, 7)}\0`, 329, 'latin1');
  // In the sum, the checksum's own field counts as eight blanks.
  block.fill(' ', 148, 156);
  const sum = block.reduce((all, byte) => all + byte, 0);
  block.write(`${octal(sum, 6)}\0 `, 148, 'latin1');
  return block;
}

export function tarPadding(bytes: number): number {
  return (blockBytes - (bytes % blockBytes)) % blockBytes;
}

/** undefined: a block of zeros, the end. Throws MALFORMED for anything that tarHeader does not write. */
function parseHeader(block: Buffer): TarEntry | undefined {
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

function octal(value: number, digits: number): string {
  return value.toString(8).padStart(digits, '0');
}

function number(block: Buffer, at: number, digits: number): number {
  const written = block.toString('latin1', at, at + digits);
  if (!/^[0-7]+$/.test(written)) throw malformed('a number of a header cannot be read');
  return Number.parseInt(written, 8);
}

function text(block: Buffer, at: number, bytes: number): string {
  return block.toString('latin1', at, at + bytes).replace(/\0.*$/s, '');
}

/** The bytes of one entry; `content` has as many as the entry says. */
export function* tarEntryPieces(entry: TarEntry, content: Iterable<Buffer>): Generator<Buffer, void, void> {
  yield tarHeader(entry);
  yield* content;
  yield Buffer.alloc(tarPadding(entry.bytes));
}

export function* tarPieces(entries: readonly (TarEntry & { readonly content: () => Iterable<Buffer> })[]) {
  for (const entry of entries) yield* tarEntryPieces(entry, entry.content());
  yield Buffer.alloc(tarEndBytes);
}

/** Throws CONFLICT if the file is not as long as it was. */
export function* filePieces(path: string, bytes: number): Generator<Buffer, void, void> {
  using file = opened(path, 'r');
  if (fstatSync(file.fd).size !== bytes) throw new LinesideError('CONFLICT', `${path} was changed meanwhile`);
  yield* new Cursor(file.fd, 0, bytes).pieces(bytes);
}

export class Cursor {
  readonly #fd: number;
  readonly #end: number;
  readonly #buffer = Buffer.allocUnsafe(pieceBytes);
  readonly #onRead: (piece: Buffer) => void;
  #at: number;

  /** `onRead` receives every byte in its order. */
  constructor(fd: number, from: number, bytes: number, onRead: (piece: Buffer) => void = () => undefined) {
    this.#fd = fd;
    this.#onRead = onRead;
    this.#at = from;
    this.#end = from + bytes;
  }

  get left(): number {
    return this.#end - this.#at;
  }

  /** At most a piece; valid until the next call. Throws MALFORMED if the file ends before. */
  take(wanted: number): Buffer {
    const bytes = Math.min(wanted, pieceBytes);
    if (bytes > this.left) throw cutShort();
    for (let done = 0; done < bytes; ) {
      const read = readSync(this.#fd, this.#buffer, done, bytes - done, this.#at + done);
      if (read === 0) throw cutShort();
      done += read;
    }
    this.#at += bytes;
    const piece = this.#buffer.subarray(0, bytes);
    this.#onRead(piece);
    return piece;
  }

  *pieces(bytes: number): Generator<Buffer, void, void> {
    for (let left = bytes; left > 0; ) {
      const piece = this.take(left);
      left -= piece.length;
      yield piece;
    }
  }
}

/** The entries in order; the content of an entry must be read before the next entry is requested. Nothing may follow the end. */
export function* tarEntries(cursor: Cursor) {
  for (;;) {
    const entry = parseHeader(cursor.take(blockBytes));
    if (entry === undefined) break;
    const before = cursor.left;
    yield { entry, content: cursor.pieces(entry.bytes) };
    for (const _ of cursor.pieces(entry.bytes - (before - cursor.left)));
    zeros(cursor, tarPadding(entry.bytes));
  }
  zeros(cursor, tarEndBytes - blockBytes);
  if (cursor.left > 0) throw new LinesideError('MALFORMED', `${cursor.left} bytes follow the end of the archive`);
}

function zeros(cursor: Cursor, bytes: number): void {
  if (bytes > 0 && cursor.take(bytes).some((byte) => byte !== 0)) {
    throw new LinesideError('MALFORMED', 'there is something in the archive between its files');
  }
}

function malformed(what: string): LinesideError {
  return new LinesideError('MALFORMED', `the archive is not one of lineside's: ${what}`);
}

function cutShort(): LinesideError {
  return new LinesideError('MALFORMED', 'the file is cut short');
}
