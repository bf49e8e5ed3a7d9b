/**
 * What is to be open after a restart, however the service stopped: line-state.json beside the log. Written whole to a
 * new file, synced and renamed, so that a pulled plug leaves the old state or the new one.
 */
import { mkdir, open, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type Clock, endsWithin } from '../../shared/base/clock.ts';
import { LinesideError, messageOf, systemCode } from '../../shared/base/errors.ts';
import type { Logger } from '../../shared/base/logger.ts';
import { type LineConfig, validateOpen } from './line-config.ts';

/** Open and Close wait no longer than this for the disk: a Close behind an Open waits for two of them, and has 2 s. */
const REMEMBER_LIMIT_MS = 900;

export class LineMemory {
  readonly #path: string;
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** One write after the other: the last one wins. */
  #writing: Promise<void> = Promise.resolve();

  constructor(path: string, clock: Clock, logger: Logger) {
    this.#path = path;
    this.#clock = clock;
    this.#logger = logger;
  }

  /** undefined: nothing was open, or there is no file. Throws when the file makes no sense. */
  async recall(): Promise<LineConfig | undefined> {
    let text: string;
    try {
      text = await readFile(this.#path, 'utf8');
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return undefined;
      throw error;
    }
    try {
      const { open: stored } = JSON.parse(text) as { readonly open?: LineConfig | null };
      return stored == null ? undefined : validateOpen(stored);
    } catch (cause) {
      throw new LinesideError('CONFIG_INVALID', `${this.#path}: ${messageOf(cause)}`, { cause });
    }
  }

  /** Never rejects: a disk that stalls or fails must not keep a port from opening or closing. It costs the resume, and is logged. */
  async remember(config: LineConfig | undefined): Promise<void> {
    const stored = JSON.stringify({ open: config ?? null });
    this.#writing = this.#writing.catch(() => undefined).then(() => this.#write(`${stored}\n`));
    try {
      if (await endsWithin(this.#clock, REMEMBER_LIMIT_MS, this.#writing)) return;
      this.#logger.warn('remembering what is open takes long: the disk is slow', { limitMs: REMEMBER_LIMIT_MS });
    } catch (error) {
      this.#logger.error('cannot remember what is open over a restart', { error: messageOf(error) });
    }
  }

  async #write(text: string): Promise<void> {
    const next = `${this.#path}.new`;
    await mkdir(dirname(this.#path), { recursive: true });
    await writeFile(next, text, { mode: 0o640, flush: true });
    await rename(next, this.#path);
    await using directory = await open(dirname(this.#path), 'r');
    await directory.sync();
  }
}
