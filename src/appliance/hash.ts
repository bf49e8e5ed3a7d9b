/** SHA-256, in lower-case hex, of what is read and written piece by piece. */
import { createHash, type Hash } from 'node:crypto';

export function sha256(bytes: Uint8Array | string): string {
  return createHash('sha256').update(bytes).digest('hex');
}

export interface Measured {
  readonly bytes: number;
  readonly sha256: string;
}

export function measured(pieces: Iterable<Buffer>, onPiece: (piece: Buffer) => void = () => undefined): Measured {
  const hash = createHash('sha256');
  let bytes = 0;
  for (const piece of hashed(pieces, hash)) {
    bytes += piece.length;
    onPiece(piece);
  }
  return { bytes, sha256: hash.digest('hex') };
}

/** Passes the pieces on; `hash` includes every piece that was read. */
export function* hashed(pieces: Iterable<Buffer>, hash: Hash): Generator<Buffer, void, void> {
  for (const piece of pieces) {
    hash.update(piece);
    yield piece;
  }
}
