/** Compiles and steers pty-driver.c: a pseudo-terminal with a device behind it that floods, paces or echoes. */
import { type ChildProcess, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { closeSync, constants, existsSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryDirectory } from '../e2e/daemon.ts';
import { compiled } from '../e2e/uart.ts';
import { lineReader, start, stop } from './processes.ts';

/** What the drivers send, over and over: 1 MiB, so that a lost, doubled or moved byte changes the SHA-256. */
export const CONTENT_BYTES = 1_048_576;
/** The driver's ACK_BYTES. */
export const ACK_BYTES = 4_096;

interface Built {
  readonly binary: string;
  readonly contentFile: string;
  readonly content: Buffer;
}

let built: Built | undefined;

function build(): Built {
  if (built !== undefined && existsSync(built.binary)) return built;
  const binary = compiled(join(import.meta.dirname, 'pty-driver.c'));
  const contentFile = join(temporaryDirectory(), 'content');
  const content = randomBytes(CONTENT_BYTES);
  writeFileSync(contentFile, content);
  built = { binary, contentFile, content };
  return built;
}

export function content(): Buffer {
  return build().content;
}

export interface Driven {
  readonly bytes: number;
  /** CLOCK_MONOTONIC, as process.hrtime has it. */
  readonly startNs: number;
  readonly endNs: number;
  /** How far the driver fell behind its schedule: its own delay or a reader that left the line full. */
  readonly worstLateMs: number;
}

export class PtyDriver {
  readonly slavePath: string;
  readonly #child: ChildProcess;
  readonly #next: () => Promise<string | undefined>;
  readonly #fifoPath: string;
  readonly #fifo: number;

  private constructor(child: ChildProcess, slavePath: string, next: () => Promise<string | undefined>) {
    this.#child = child;
    this.slavePath = slavePath;
    this.#next = next;
    this.#fifoPath = join(temporaryDirectory(), 'acknowledged');
    if (spawnSync('mkfifo', [this.#fifoPath]).status !== 0) throw new Error(`cannot make the pipe ${this.#fifoPath}`);
    this.#fifo = openSync(this.#fifoPath, constants.O_RDWR | constants.O_NONBLOCK);
  }

  static async open(): Promise<PtyDriver> {
    const child = start(build().binary, []);
    const next = lineReader(child.stdout);
    const path = await next();
    if (path === undefined) throw new Error('the PTY driver ended at once');
    return new PtyDriver(child, path, next);
  }

  flood(bytes: number, writeBytes: number): Promise<Driven> {
    return this.#run(`flood ${build().contentFile} ${bytes} ${writeBytes}`);
  }

  /** `file`: what is sent over and over; default: random bytes. */
  pace(bytes: number, writeBytes: number, bytesPerSecond: number, file = build().contentFile): Promise<Driven> {
    return this.#run(`pace ${file} ${bytes} ${writeBytes} ${bytesPerSecond}`);
  }

  stamps(count: number, size: number, bytesPerSecond: number): Promise<Driven> {
    return this.#run(`stamps ${count} ${size} ${bytesPerSecond}`);
  }

  /** A record as soon as the one before was read, but never more than windowBytes ahead of what was acknowledged. */
  records(count: number, size: number, windowBytes: number): Promise<Driven> {
    return this.#run(`records ${build().contentFile} ${count} ${size} ${windowBytes} ${this.#fifoPath}`);
  }

  /** ACK_BYTES more have arrived. */
  acknowledge(): void {
    writeSync(this.#fifo, '.');
  }

  /** Echoes until the driver is closed. */
  async echo(): Promise<void> {
    await this.#run('echo');
  }

  async close(): Promise<void> {
    await stop(this.#child);
    closeSync(this.#fifo);
  }

  async #run(command: string): Promise<Driven> {
    this.#child.stdin?.write(`${command}\n`);
    const answer = await this.#next();
    if (answer === undefined) throw new Error(`the PTY driver ended during: ${command}`);
    const result = JSON.parse(answer) as Driven & { error?: string };
    if (result.error !== undefined) throw new Error(`${command}: ${result.error}`);
    return result;
  }
}
