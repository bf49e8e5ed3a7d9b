/** What the monitor shows of the line: text or hex, times, line ends, a copy in a file, and notices in between. */
import { type FileHandle, open } from 'node:fs/promises';
import { systemClock } from '../../shared/base/clock.ts';
import { fileFailure } from '../input.ts';
import { EntryPrinter, type LogItem } from '../output/entries.ts';
import { liveText } from '../output/hex.ts';
import { directionName } from '../output/json.ts';
import { exact, localTime } from '../output/numbers.ts';
import type { Output } from '../output/output.ts';

/** How a line of the device ends: CR LF and LF are shown as they come; CR: each begins a new line; no-cr: CR is left out. */
export const newlines = ['as-is', 'cr', 'no-cr'] as const;
type Newline = (typeof newlines)[number];

export interface Look {
  hex: boolean;
  echo: boolean;
  timestamps: boolean;
  newline: Newline;
  /** The line drives the terminal. */
  readonly raw: boolean;
}

export class Screen {
  readonly look: Look;
  readonly #out: Output;
  readonly #err: Output;
  readonly #printer: EntryPrinter;
  #column = 0;
  /** The last text ended with a CR that was shown as a line end: an LF belongs to it. */
  #endedByCr = false;
  #copy: { readonly path: string; readonly file: FileHandle } | undefined;

  constructor(out: Output, err: Output, look: Look) {
    this.#out = out;
    this.#err = err;
    this.look = look;
    this.#printer = new EntryPrinter({ view: 'both', width: out.width, colour: false, ids: false });
  }

  async item(item: LogItem): Promise<void> {
    const { hex, echo } = this.look;
    if (item.kind === 'gap') return this.notice(this.#printer.item(item).trim());
    const { entry } = item.value;
    const isSent = directionName(entry.dir) === 'tx';
    if (hex && (!isSent || echo)) {
      await this.freshLine();
      await this.#write(this.#printer.item(item));
    } else if (!hex && !isSent) await this.#text(entry.rawData, Number(exact(entry.timestamp)));
  }

  /** Bytes as they come, in text; in hex they are shown as an entry. */
  async live(bytes: Uint8Array): Promise<void> {
    if (!this.look.hex) await this.#text(bytes, systemClock.wallMs());
  }

  async typed(bytes: Uint8Array): Promise<void> {
    if (this.look.echo) await this.live(bytes);
  }

  async #text(data: Uint8Array, atMs: number): Promise<void> {
    const shown = this.look.raw ? data : this.#stamped(this.#withNewlines(liveText(data)), atMs);
    if (shown.length === 0) return;
    const last = typeof shown === 'string' ? shown.at(-1) : String.fromCharCode(shown.at(-1) ?? 0);
    this.#column = last === '\n' || last === '\r' ? 0 : 1;
    await this.#write(shown);
  }

  #withNewlines(text: string): string {
    const { newline } = this.look;
    if (newline === 'as-is') return text;
    if (newline === 'no-cr') return text.replaceAll('\r', '');
    const rest = this.#endedByCr && text.startsWith('\n') ? text.slice(1) : text;
    this.#endedByCr = text.endsWith('\r');
    return rest.replace(/\r\n?/g, '\n');
  }

  /** Each line begins with the time of the entry in which it begins. */
  #stamped(text: string, atMs: number): string {
    if (!this.look.timestamps) return text;
    const stamp = `[${localTime(atMs).time}] `;
    const lines = text.split('\n');
    return lines.map((line, at) => (line === '' || (at === 0 && this.#column !== 0) ? line : stamp + line)).join('\n');
  }

  async #write(shown: string | Uint8Array): Promise<void> {
    await this.#out.write(shown);
    if (this.#copy === undefined) return;
    const { path, file } = this.#copy;
    try {
      await file.appendFile(shown);
    } catch (error) {
      await this.endCopy();
      await this.notice(`no longer logging: ${fileFailure('write', path, error).message}`);
    }
  }

  get isCopied(): boolean {
    return this.#copy !== undefined;
  }

  /** From now on the file gets what the line shows, after what is in it. Throws CliFailure. */
  async copyTo(path: string): Promise<void> {
    await this.endCopy();
    try {
      this.#copy = { path, file: await open(path, 'a') };
    } catch (error) {
      throw fileFailure('write', path, error);
    }
  }

  async endCopy(): Promise<void> {
    const copy = this.#copy;
    this.#copy = undefined;
    await copy?.file.close();
  }

  async notice(text: string): Promise<void> {
    await this.freshLine();
    await this.#err.write(`[lineside: ${text}]\n`);
  }

  /** To be answered on the same line. */
  async ask(question: string): Promise<void> {
    await this.freshLine();
    await this.edit(`[lineside: ${question}] `);
  }

  /** Of an answer, or of progress that overwrites itself: what follows begins on a line of its own. */
  async edit(text: string | Uint8Array): Promise<void> {
    this.#column = 1;
    await this.#err.write(text);
  }

  async freshLine(): Promise<void> {
    if (this.#column !== 0 && this.#out.isTerminal) await this.#err.write('\n');
    this.#column = 0;
  }
}
