/** The files of /etc/lineside as a backup holds them: with their modes, and their owners by name. */
import { lstatSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { isTokenLock } from '../../shared/auth/token-file.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import type { TarEntry } from '../tar.ts';
import { maxEtcFileBytes, restoreDirName, setupDirName } from './backup-archive.ts';

export type SourceFile = TarEntry & { readonly source: string };

/** A directory before what is in it. Throws UNSUPPORTED for what is neither a file nor a directory. */
export function etcEntries(etcDir: string): SourceFile[] {
  const names = new Names();
  return readdirSync(etcDir, { recursive: true, encoding: 'utf8' })
    .filter((path) => !path.split('/').includes(restoreDirName) && path.split('/')[0] !== setupDirName)
    .filter((path) => !isTokenLock(basename(path)))
    .sort((a, b) => (a < b ? -1 : 1))
    .map((path) => {
      const source = join(etcDir, path);
      // A link to a file is kept as what it leads to; one to a directory would not be walked.
      const stat = statSync(source);
      const isDirectory = stat.isDirectory();
      if ((isDirectory && lstatSync(source).isSymbolicLink()) || !(isDirectory || stat.isFile())) {
        throw new LinesideError('UNSUPPORTED', `${source} is neither a file nor a directory: it cannot be kept`, {
          hint: 'Move it out of there.',
        });
      }
      if (stat.size > maxEtcFileBytes && !isDirectory) {
        throw new LinesideError(
          'TOO_LARGE',
          `cannot keep ${source}: it has ${stat.size} bytes, and a file of the configuration has at most ${maxEtcFileBytes}`,
          {
            hint: 'Move it out of there.',
          },
        );
      }
      return {
        path: `etc/${path}`,
        source,
        isDirectory,
        bytes: isDirectory ? 0 : stat.size,
        mode: stat.mode,
        mtimeS: Math.max(0, Math.floor(stat.mtimeMs / 1000)),
        owner: names.user(stat.uid),
        group: names.group(stat.gid),
      };
    });
}

/** Users and groups of this machine, both ways. Names that no tar file can hold are left out. */
export class Names {
  readonly #users: readonly (readonly [string, number])[];
  readonly #groups: readonly (readonly [string, number])[];

  constructor(passwdFile = '/etc/passwd', groupFile = '/etc/group') {
    this.#users = read(passwdFile);
    this.#groups = read(groupFile);
  }

  user(id: number): string {
    return this.#users.find(([, number]) => number === id)?.[0] ?? '';
  }

  group(id: number): string {
    return this.#groups.find(([, number]) => number === id)?.[0] ?? '';
  }

  /** Root's if this machine has no such group. */
  groupId(name: string): number {
    return this.#groups.find(([one]) => one === name)?.[1] ?? 0;
  }
}

function read(file: string): (readonly [string, number])[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .flatMap(([name = '', , id = '']) =>
      /^[A-Za-z0-9._-]{1,31}$/.test(name) && id !== '' ? [[name, Number(id)] as const] : [],
    );
}
