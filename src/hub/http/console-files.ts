/**
 * The files of the web console, in one flat directory beside the compiled service. All are read at the first request and
 * kept in memory, in gzip too: a request names a file, never a path.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
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
const dense: ReadonlySet<string> = new Set(['.png', '.ico', '.woff2']);

export interface ConsoleFile {
  readonly type: string;
  readonly bytes: Buffer;
  /** undefined: gzip would not make it smaller. */
  readonly gzipped: Buffer | undefined;
  readonly etag: string;
}

/** NOT_FOUND: there is no such file, or no console. */
export function consoleFiles(dir: string): (name: string) => Promise<ConsoleFile> {
  const files = once(() => readAll(dir).catch(unreadable));
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

async function readAll(dir: string): Promise<ReadonlyMap<string, ConsoleFile>> {
  const found = new Map<string, ConsoleFile>();
  let total = 0;
  for (const entry of await readdir(dir, { withFileTypes: true })) {
    const extension = extname(entry.name);
    const type = types[extension];
    if (!entry.isFile() || type === undefined) continue;
    const bytes = await readFile(join(dir, entry.name));
    total += bytes.length;
    if (total > MAX_CONSOLE_BYTES)
      throw new LinesideError('INTERNAL', `the console is larger than ${MAX_CONSOLE_BYTES}`);
    const gzipped = dense.has(extension) ? undefined : await promisify(gzip)(bytes, { level: 9 });
    found.set(entry.name, {
      type,
      bytes,
      gzipped: gzipped !== undefined && gzipped.length < bytes.length ? gzipped : undefined,
      etag: createHash('sha256').update(bytes).digest('base64url').slice(0, 22),
    });
  }
  if (!found.has('index.html')) throw new LinesideError('NOT_FOUND', 'this build has no console');
  return found;
}
