/**
 * The files of the web console, in one flat directory beside the compiled service. Their names are read at the first request, their
 * bytes at each: a request names a file of the list, never a path, and nothing is kept in memory.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { Readable } from 'node:stream';
import { LinesideError, systemCode } from '../../shared/base/errors.ts';
import { once } from '../../shared/base/once.ts';
import { MAX_CONSOLE_BYTES } from './limits.ts';

/** Files of other types are not served. */
const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.woff2': 'font/woff2',
  '.webmanifest': 'application/manifest+json',
  '.json': 'application/json; charset=utf-8',
  '.txt': 'text/plain; charset=utf-8',
};

interface Stored {
  readonly size: number;
  readonly etag: string;
  /** Opens the file when it is read: an answer without a body opens none. */
  readonly read: () => Readable;
}

export interface ConsoleFile {
  readonly type: string;
  readonly plain: Stored;
  /** NAME.gz beside it, which scripts/build makes. */
  readonly gzipped: Stored | undefined;
  /** The name has the hash of the content: another content has another name. */
  readonly isHashed: boolean;
}

/** NOT_FOUND: there is no such file, or no console. */
export function consoleFiles(dir: string): (name: string) => Promise<ConsoleFile> {
  const files = once(() => list(dir).catch(unreadable));
  return async (name) => {
    const file = (await files()).get(name);
    if (file === undefined) throw new LinesideError('NOT_FOUND', 'the console has no such file');
    return file;
  };
}

function unreadable(error: unknown): never {
  if (error instanceof LinesideError) throw error;
  if (systemCode(error) !== 'ENOENT') throw new LinesideError('INTERNAL', 'reading the console', { cause: error });
  throw new LinesideError('NOT_FOUND', 'this build has no console', { hint: 'scripts/build makes it' });
}

async function list(dir: string): Promise<ReadonlyMap<string, ConsoleFile>> {
  const entries = await readdir(dir, { withFileTypes: true });
  const names = new Set(entries.filter((entry) => entry.isFile()).map(({ name }) => name));
  const found = new Map<string, ConsoleFile>();
  let total = 0;
  const stored = async (name: string): Promise<Stored> => {
    const file = await storedIn(join(dir, name));
    total += file.size;
    if (total > MAX_CONSOLE_BYTES)
      throw new LinesideError('INTERNAL', `the console is larger than ${MAX_CONSOLE_BYTES}`);
    return file;
  };
  for (const name of names) {
    const type = types[extname(name)];
    if (type === undefined) continue;
    const gzipped = names.has(`${name}.gz`) ? await stored(`${name}.gz`) : undefined;
    found.set(name, { type, plain: await stored(name), gzipped, isHashed: /-[A-Z0-9]{8}\.\w+$/.test(name) });
  }
  if (!found.has('index.html')) throw new LinesideError('NOT_FOUND', 'this build has no console');
  return found;
}

async function storedIn(path: string): Promise<Stored> {
  const bytes = await readFile(path);
  const size = bytes.length;
  return {
    size,
    etag: createHash('sha256').update(bytes).digest('base64url').slice(0, 22),
    read: () => Readable.from(piecesOf(path, size)),
  };
}

/** As long as it was: the length has been announced. */
async function* piecesOf(path: string, size: number): AsyncGenerator<Buffer> {
  if (size > 0) yield* createReadStream(path, { end: size - 1 });
}
