/**
 * What is to be open after a restart, however the service stopped: line-state.json beside the log. Written whole to a
 * new file, synced and renamed, so that a pulled plug leaves the old state or the new one.
 */
import { mkdir, open, readFile, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { LinesideError, messageOf, systemCode } from '../../shared/base/errors.ts';
import { type LineConfig, validateOpen } from './line-config.ts';

interface Stored {
  readonly open: LineConfig | null;
}

export class LineMemory {
  readonly #path: string;
  /** One write after the other: the last word wins. */
  #writing: Promise<void> = Promise.resolve();

  constructor(path: string) {
    this.#path = path;
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
      const stored = JSON.parse(text) as Partial<Stored>;
      return stored.open == null ? undefined : validateOpen(stored.open);
    } catch (cause) {
      throw new LinesideError('CONFIG_INVALID', `${this.#path}: ${messageOf(cause)}`, { cause });
    }
  }

  remember(config: LineConfig | undefined): Promise<void> {
    const stored: Stored = { open: config ?? null };
    this.#writing = this.#writing.catch(() => undefined).then(() => this.#write(`${JSON.stringify(stored)}\n`));
    return this.#writing;
  }

  async #write(text: string): Promise<void> {
    const next = `${this.#path}.new`;
    await mkdir(dirname(this.#path), { recursive: true });
    const file = await open(next, 'w', 0o640);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(next, this.#path);
    const directory = await open(dirname(this.#path), 'r');
    try {
      await directory.sync();
    } finally {
      await directory.close();
    }
  }
}
