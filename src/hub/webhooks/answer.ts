/** An answer's body is read within bounds, whatever the other side sends: what it says beyond its status is for people alone. */
import type { Readable } from 'node:stream';

/** Enough of an error page to see what it is about. */
const keptAnswerBytes = 4 * 1024;
/** Read on so far, so that the connection of an ordinary answer can be kept; then it is cut. */
const readAnswerBytes = 64 * 1024;

export interface Answer {
  /** The first keptAnswerBytes. */
  readonly kept: Buffer;
  /** whole: to its end. cut: by us, at readAnswerBytes. broken: by the other side, before its end. */
  readonly end: 'whole' | 'cut' | 'broken';
}

/** Never rejects. `body` is destroyed where it is cut. */
export function readAnswer(body: Readable): Promise<Answer> {
  const pieces: Buffer[] = [];
  let kept = 0;
  let read = 0;
  return new Promise((resolve) => {
    const settle = (end: Answer['end']): void => resolve({ kept: Buffer.concat(pieces), end });
    body.on('data', (piece: Buffer) => {
      read += piece.length;
      if (kept < keptAnswerBytes) {
        // A copy: the piece is a view that would hold the socket's whole buffer.
        const first = Buffer.from(piece.subarray(0, keptAnswerBytes - kept));
        pieces.push(first);
        kept += first.length;
      }
      if (read <= readAnswerBytes) return;
      settle('cut');
      body.destroy();
    });
    body.once('end', () => settle('whole'));
    body.once('error', () => settle('broken'));
    body.once('close', () => settle('broken'));
  });
}
