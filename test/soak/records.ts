/**
 * Numbered records that show whether they are whole: what the device behind the line sends, what
 * SendPacket callers send, and what LogRaw callers store.
 */
import { createHash } from 'node:crypto';
import type { Random } from './random.ts';

const DIGEST_CHARS = 12;
/** A run of records that were cut: they are looked for again after the next line end. */
const recordForm = /^([A-Z]\d*)\.(\d+)\.([0-9a-f]*)\.([0-9a-f]{12})$/;

export interface Record {
  /** Who sent it: R for the device, T1, T2, ... for callers. */
  readonly sender: string;
  readonly number: number;
}

export interface Streamed extends Record {
  /** Nothing lay between it and the record before. */
  readonly follows: boolean;
}

export function encodeRecord(sender: string, number: number, random: Random, maxFiller: number): Buffer {
  const body = `${sender}.${number}.${random.bytes(random.between(0, maxFiller)).toString('hex')}`;
  return Buffer.from(`${body}.${digest(body)}\n`);
}

/** One line without its end; undefined when it is not a whole record. */
export function decodeRecord(line: string): Record | undefined {
  const [, sender, number, filler, sum] = recordForm.exec(line) ?? [];
  if (sender === undefined || number === undefined || digest(`${sender}.${number}.${filler}`) !== sum) return undefined;
  return { sender, number: Number(number) };
}

/** The records of a byte stream that comes in pieces. */
export class RecordStream {
  #rest = '';
  /** True once a whole line was seen since the last cut. */
  #inStep = false;
  #follows = false;

  /** Bytes are missing before the next piece: what has begun does not count, nor does the line that ends first. */
  cut(): void {
    this.#rest = '';
    this.#inStep = false;
    this.#follows = false;
  }

  /** Throws at a line that is not a record. */
  feed(bytes: Uint8Array): Streamed[] {
    const lines = (this.#rest + Buffer.from(bytes).toString('latin1')).split('\n');
    this.#rest = lines.pop() ?? '';
    const records: Streamed[] = [];
    for (const line of lines) {
      const record = decodeRecord(line);
      if (record !== undefined) {
        records.push({ ...record, follows: this.#follows });
        this.#follows = true;
      } else if (this.#inStep) {
        throw new Error(`torn record: ${JSON.stringify(line)}`);
      }
      this.#inStep = true;
    }
    return records;
  }
}

/** A note that holds its entry's content to account. */
export function noteFor(sender: string, number: number, data: Uint8Array): string {
  return `${sender} ${number} ${digest(data)}`;
}

export function decodeNote(note: string): { sender: string; number: number; sum: string } | undefined {
  const [, sender, number, sum] = /^(\S+) (\d+) ([0-9a-f]+)$/.exec(note) ?? [];
  return sender === undefined || number === undefined || sum === undefined
    ? undefined
    : { sender, number: Number(number), sum };
}

export function digest(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex').slice(0, DIGEST_CHARS);
}
