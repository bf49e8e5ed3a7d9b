/** Where an export goes: standard output, or a file that appears under its name only when it is complete. */
import { randomBytes } from 'node:crypto';
import { type FileHandle, open, realpath, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { systemCode } from '../shared/base/errors.ts';
import type { Output } from './output.ts';
import { fileFailure } from './secrets.ts';

export interface Sink {
  write(data: Uint8Array | string): Promise<void>;
  /** All is written: the file gets its name. */
  finish(): Promise<void>;
  /** Removes what an unfinished export left; does nothing after `finish`. */
  discard(): Promise<void>;
}

export function outputSink(out: Output): Sink {
  return { write: (data) => out.write(data), finish: () => out.flush(), discard: () => Promise.resolve() };
}

export async function fileSink(path: string): Promise<Sink> {
  const target = await realpath(path).catch((error: unknown) => {
    if (systemCode(error) === 'ENOENT') return path;
    throw fileFailure('write', path, error);
  });
  const info = await stat(target).catch(() => undefined);
  try {
    if (info !== undefined && !info.isFile()) return new FileSink(path, await open(target, 'w'), undefined);
    const temporary = join(dirname(target), `.${basename(target)}.${randomBytes(4).toString('hex')}.part`);
    return new FileSink(path, await open(temporary, 'wx'), { temporary, target });
  } catch (error) {
    throw fileFailure('write', path, error);
  }
}

class FileSink implements Sink {
  readonly #path: string;
  readonly #file: FileHandle;
  /** undefined: a device or a pipe, which is written as it is. */
  readonly #names: { readonly temporary: string; readonly target: string } | undefined;
  #open = true;

  constructor(path: string, file: FileHandle, names: { temporary: string; target: string } | undefined) {
    this.#path = path;
    this.#file = file;
    this.#names = names;
  }

  async write(data: Uint8Array | string): Promise<void> {
    await this.#guarded(async () => {
      // appendFile writes all of it; a plain write may stop short.
      await this.#file.appendFile(data);
    });
  }

  async finish(): Promise<void> {
    await this.#guarded(async () => {
      if (this.#names !== undefined) await this.#file.sync();
      this.#open = false;
      await this.#file.close();
      if (this.#names !== undefined) await rename(this.#names.temporary, this.#names.target);
    });
  }

  async discard(): Promise<void> {
    if (!this.#open) return;
    this.#open = false;
    await this.#file.close();
    if (this.#names !== undefined) await rm(this.#names.temporary, { force: true });
  }

  async #guarded(step: () => Promise<void>): Promise<void> {
    try {
      await step();
    } catch (error) {
      throw fileFailure('write', this.#path, error);
    }
  }
}
