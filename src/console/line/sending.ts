/** What is sent to the line: the draft that is typed, repeating it, and a file in packets. Pure. */
import type { LineCommands, LineStatus } from '../../shared/gen/http.ts';
import { bytesOfHex, bytesOfText, type Typed } from '../bytes.ts';
import { countText } from '../format.ts';
import { type Problem, problemFrom } from '../problem.ts';
import { text } from '../text.ts';

export type LineCommand = LineCommands['items'][number];
/** What is typed, and how it is read. */
export type Draft = Omit<LineCommand, 'name'>;

const words = text.send;
const endings = { none: [], lf: [10], cr: [13], crlf: [13, 10] } as const;

export function isSame(one: Draft, other: Draft): boolean {
  return one.data === other.data && one.format === other.format && one.lineEnding === other.lineEnding;
}

export function bytesOf({ data, format, lineEnding }: Draft): Typed {
  if (format === 'hex') return bytesOfHex(data);
  const read = bytesOfText(data);
  if ('fault' in read || data === '') return read;
  return { bytes: Uint8Array.from([...read.bytes, ...endings[lineEnding]]) };
}

/** One back with the arrow up, one forth with the arrow down; undefined: the key is to do what it does. */
export function recalled(draft: Draft, all: readonly Draft[], key: string): Draft | undefined {
  const step = key === 'ArrowUp' ? 1 : key === 'ArrowDown' ? -1 : 0;
  const at = draft.data === '' ? -1 : all.findIndex((one) => isSame(one, draft));
  // Text that is being typed is not overwritten.
  if (step === 0 || (at === -1 && draft.data !== '')) return undefined;
  return all[at + step] ?? (step === -1 && at === 0 ? { ...draft, data: '' } : undefined);
}

/** The box did not send it. Without an answer, or after a server error, it is unknown how much was sent. */
export function isRefusal({ status }: Problem): boolean {
  return status >= 400 && status < 500;
}

const LEAST_S = 0.1;
const MOST_S = 3_600;

export function readSeconds(typed: string): { readonly seconds: number } | { readonly fault: string } {
  const seconds = /^\d{1,4}(?:[.,]\d{1,3})?$/.test(typed.trim()) ? Number(typed.trim().replace(',', '.')) : Number.NaN;
  if (seconds >= LEAST_S && seconds <= MOST_S) return { seconds };
  return { fault: words.secondsFault(typed, String(LEAST_S), countText(MOST_S)) };
}

/** The page holds the whole file; at 115,200 baud so many take 24 minutes. */
export const MAX_FILE_BYTES = 16 * 1024 * 1024;
/** A short pause of the line at each packet is better than none to cancel in. */
const LEAST_PIECE = 64;

/** Bytes of a packet: its fixed size, else up to a second of the line, so that there is progress, and cancelling ends soon. */
export function pieceBytes({ requested, effective, maxPayloadBytes }: LineStatus): number {
  const { packetSize = 0 } = requested ?? {};
  if (packetSize > 0) return packetSize;
  const { baudRate = 0 } = effective ?? requested ?? {};
  return Math.max(1, Math.min(maxPayloadBytes, Math.max(LEAST_PIECE, Math.floor(baudRate / 10))));
}

/** Why a file of so many bytes cannot be sent; undefined: it can. */
export function fileFault(bytes: number, { requested }: LineStatus): string | undefined {
  const { packetSize = 0 } = requested ?? {};
  if (bytes === 0) return words.file.empty;
  if (bytes > MAX_FILE_BYTES) return words.file.tooLarge(countText(bytes), countText(MAX_FILE_BYTES));
  if (packetSize > 0 && bytes % packetSize !== 0)
    return words.file.notWhole(countText(bytes), countText(packetSize), countText(bytes % packetSize));
  return undefined;
}

/** `accepted`: bytes from the beginning of the file. */
export interface FileOutcome {
  readonly accepted: number;
  /** Bytes of the packet after them, if that one failed. */
  readonly failed: number;
  readonly problem: Problem | undefined;
}

/** One packet after the other; the first that fails ends it, and so does cancelling, after the packet in flight. */
export async function sendPieces(
  file: Uint8Array,
  size: number,
  send: (piece: Uint8Array) => Promise<unknown>,
  goesOn: (accepted: number) => boolean,
): Promise<FileOutcome> {
  let accepted = 0;
  while (accepted < file.length && goesOn(accepted)) {
    const piece = file.subarray(accepted, accepted + size);
    try {
      await send(piece);
    } catch (error) {
      return { accepted, failed: piece.length, problem: problemFrom(error) };
    }
    accepted += piece.length;
  }
  return { accepted, failed: 0, problem: undefined };
}

/** What was accepted and what was not, in words. */
export function outcomeText({ accepted, failed, problem }: FileOutcome, all: number): string {
  if (accepted === all) return words.file.complete(countText(all));
  const part = words.file.part(countText(accepted), countText(all));
  const [first, last] = [countText(accepted + 1), countText(accepted + failed)];
  if (problem === undefined) return `${part} ${words.file.rest}`;
  const end = isRefusal(problem) ? words.file.refused(first, last) : words.file.unknown(first, last);
  return accepted + failed === all ? `${part} ${end}` : `${part} ${end} ${words.file.behind}`;
}
