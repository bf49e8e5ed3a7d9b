/** Standard output and error of a command: waits when the reader is slow, and ends quietly when the reader has gone. And the pager. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { systemCode } from '../../shared/base/errors.ts';
import { fileFailure } from '../input.ts';
import type { CliIo, CliOutput } from '../io.ts';

/** The reader of standard output has gone (`| head`): the command has nothing left to do, and nothing to complain about. */
export class OutputClosed extends Error {
  override readonly name = 'OutputClosed';
}

/** Columns when the terminal does not say. */
const usualColumns = 80;

export class Output {
  readonly #stream: CliOutput;
  #error: Error | undefined;
  /** Nothing more will be taken. */
  readonly #ended = new AbortController();

  constructor(stream: CliOutput) {
    this.#stream = stream;
    stream.on('error', this.#onError);
    // The stream of a pager that has ended is destroyed without an error, and never drains.
    stream.on('close', this.#onClose);
  }

  get isTerminal(): boolean {
    return this.#stream.isTTY === true;
  }

  /** 0 when it is no terminal: lines are not cut then. */
  get width(): number {
    return this.isTerminal ? (this.#stream.columns ?? usualColumns) : 0;
  }

  /** Resolves when more may be written. Throws OutputClosed, or a CliFailure that says what is wrong with the stream. */
  async write(data: string | Uint8Array): Promise<void> {
    this.#check();
    if (data.length === 0 || this.#stream.write(data)) return;
    await once(this.#stream, 'drain', { signal: this.#ended.signal }).catch(() => undefined);
    this.#check();
  }

  /** Resolves when all that was written has left the process. */
  async flush(): Promise<void> {
    if (this.#error !== undefined || !this.#stream.writable) return;
    await new Promise<void>((resolve) => this.#stream.write('', () => resolve()));
  }

  release(): void {
    this.#stream.off('error', this.#onError);
    this.#stream.off('close', this.#onClose);
  }

  readonly #onError = (error: Error): void => {
    this.#error ??= error;
    this.#onClose();
  };

  readonly #onClose = (): void => this.#ended.abort();

  #check(): void {
    if (this.#error === undefined && this.#stream.destroyed) throw new OutputClosed();
    if (this.#error === undefined) return;
    throw systemCode(this.#error) === 'EPIPE' ? new OutputClosed() : fileFailure('write', 'the output', this.#error);
  }
}

/** Long output on a terminal goes through a pager, as with git: less leaves output alone that fits. undefined: there is no terminal, or no pager. */
export async function openPager(io: CliIo) {
  const { stdin, stdout, env } = io;
  const [program = '', ...words] = (env['PAGER'] ?? 'less').trim().split(/\s+/);
  const isTerminal = stdin.isTTY === true && stdout.isTTY === true && env['TERM'] !== 'dumb';
  if (!isTerminal || program === '' || program === 'cat') return undefined;
  // F: quits if one screen holds it, R: colours, X: leaves it on the screen.
  const child = spawn(program, words, { stdio: ['pipe', 'inherit', 'inherit'], env: { LESS: 'FRX', ...env } });
  try {
    await once(child, 'spawn');
  } catch {
    return undefined;
  }
  const closed = once(child, 'close');
  // Ctrl-C is for the pager, which does not end by it.
  const off = io.onSignal('SIGINT', () => undefined);
  return {
    stream: Object.assign(child.stdin, { isTTY: true, columns: stdout.columns ?? 80 }),
    /** Resolves when the reader has left it. */
    async close(): Promise<void> {
      child.stdin.end();
      await closed;
      off();
    },
  };
}
