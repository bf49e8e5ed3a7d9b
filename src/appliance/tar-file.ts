/** A tar file piece by piece, whatever its size: what is in memory is one piece. */
import { closeSync, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { LinesideError } from '../shared/base/errors.ts';
import { parseTarHeader, type TarEntry, tarBlockBytes, tarEndBytes, tarHeader, tarPadding } from './tar.ts';

/** Of a piece. The smallest board has 512 MB, most of them the service's; larger pieces gain nothing on a card. */
const pieceBytes = 1024 * 1024;

/** A part of a file, read once from its beginning to its end. */
export class Cursor {
  readonly #fd: number;
  readonly #end: number;
  readonly #buffer = Buffer.allocUnsafe(pieceBytes);
  readonly #onRead: (piece: Buffer) => void;
  #at: number;

  /** `onRead`: told of every byte in its order. */
  constructor(fd: number, from: number, bytes: number, onRead: (piece: Buffer) => void = () => undefined) {
    this.#fd = fd;
    this.#onRead = onRead;
    this.#at = from;
    this.#end = from + bytes;
  }

  get left(): number {
    return this.#end - this.#at;
  }

  /** At most a piece; valid until the next call. Throws MALFORMED where the file ends before. */
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

  /** `bytes` from here, in pieces. */
  *pieces(bytes: number): Generator<Buffer, void, void> {
    for (let left = bytes; left > 0; ) {
      const piece = this.take(left);
      left -= piece.length;
      yield piece;
    }
  }
}

/** The entries in order; the content of one is gone once the next is asked for, read or not. Nothing may follow the end. */
export function* tarEntries(
  cursor: Cursor,
): Generator<{ readonly entry: TarEntry; readonly content: Iterable<Buffer> }, void, void> {
  for (;;) {
    const entry = parseTarHeader(cursor.take(tarBlockBytes));
    if (entry === undefined) break;
    const before = cursor.left;
    yield { entry, content: cursor.pieces(entry.bytes) };
    for (const _ of cursor.pieces(entry.bytes - (before - cursor.left)));
    zeros(cursor, tarPadding(entry.bytes));
  }
  zeros(cursor, tarEndBytes - tarBlockBytes);
  if (cursor.left > 0) throw new LinesideError('MALFORMED', `${cursor.left} bytes follow the end of the archive`);
}

function zeros(cursor: Cursor, bytes: number): void {
  if (bytes > 0 && cursor.take(bytes).some((byte) => byte !== 0)) {
    throw new LinesideError('MALFORMED', 'there is something in the archive between its files');
  }
}

/** The bytes of an archive; a file's are read from `path`, which must not change its size meanwhile. */
export function* tarPieces(
  entries: readonly (TarEntry & { readonly source: string })[],
): Generator<Buffer, void, void> {
  for (const entry of entries) {
    yield tarHeader(entry);
    if (!entry.isDirectory) yield* filePieces(entry.source, entry.bytes);
    yield Buffer.alloc(tarPadding(entry.bytes));
  }
  yield Buffer.alloc(tarEndBytes);
}

/** Throws CONFLICT where the file is not as long as it was. */
export function* filePieces(path: string, bytes: number): Generator<Buffer, void, void> {
  const fd = openSync(path, 'r');
  try {
    if (fstatSync(fd).size !== bytes) throw new LinesideError('CONFLICT', `${path} was changed meanwhile`);
    yield* new Cursor(fd, 0, bytes).pieces(bytes);
  } finally {
    closeSync(fd);
  }
}

/** All of it, wherever the kernel stops in between. */
export function writeWhole(fd: number, piece: Uint8Array, at: number | null = null): void {
  for (let done = 0; done < piece.length; ) {
    done += writeSync(fd, piece, done, piece.length - done, at === null ? null : at + done);
  }
}

function cutShort(): LinesideError {
  return new LinesideError('MALFORMED', 'the file is cut short');
}
