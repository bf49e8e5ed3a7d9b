/**
 * Calls back soon after a port may have appeared. By inotify on the directories, not by the kernel's uevent socket:
 * devtmpfs makes the node as part of the same add event, and inotify also reports when udev has set the permissions
 * or made a link, and when a simulator has made its PTY, none of which the kernel announces.
 */
import { type FSWatcher, globSync, statSync, watch } from 'node:fs';
import { dirname, join } from 'node:path';

/** udev sets owner and mode and makes its links within a few ms of each other: one call for all. */
const SETTLE_MS = 5;
/** A directory that could not be watched (limit of inotify instances reached) is tried again after this long. */
const REWATCH_MS = 5_000;

/** More levels than the deepest directory here (/dev/serial/by-id) has. */
const MAX_PASSES = 5;

interface Watched {
  readonly watcher: FSWatcher;
  /** Device and inode: a directory that was removed and made again is another one. */
  readonly identity: string;
}

export class PortWatch {
  readonly #directories: () => readonly string[];
  readonly #call: () => void;
  readonly #watched = new Map<string, Watched>();
  /** Last mode and owner of nodes that were changed in place. */
  readonly #access = new Map<string, string>();
  readonly #changed = new Set<string>();
  #appeared = false;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(directories: () => readonly string[], call: () => void) {
    this.#directories = directories;
    this.#call = call;
    this.#rewatch();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    for (const { watcher } of this.#watched.values()) watcher.close();
    this.#watched.clear();
  }

  #onEvent(directory: string, event: string, name: string | null): void {
    if (this.#closed) return;
    // Kernels before 6.14 also report each write to a device node: so only access is checked.
    if (event === 'change' && name !== null) this.#changed.add(join(directory, name));
    else this.#appeared = true;
    this.#settle(SETTLE_MS);
  }

  #settle(delayMs: number): void {
    this.#timer ??= setTimeout(() => this.#settled(), delayMs);
  }

  #settled(): void {
    this.#timer = undefined;
    const changed = [...this.#changed].filter((path) => this.#accessChanged(path)).length > 0;
    this.#changed.clear();
    const appeared = this.#appeared;
    this.#appeared = false;
    if (appeared) this.#rewatch();
    if (appeared || changed) this.#call();
  }

  #accessChanged(path: string): boolean {
    const found = statOf(path);
    const access = found === undefined ? '' : `${found.mode} ${found.uid} ${found.gid} ${found.rdev}`;
    const same = this.#access.get(path) === access;
    if (found === undefined) this.#access.delete(path);
    else this.#access.set(path, access);
    return !same;
  }

  /** Brings the watchers in line with the directories there are now. */
  #rewatch(): void {
    // A directory made just before its parent was watched gave no event: so the directories are checked again until none is new.
    for (let pass = 0; pass < MAX_PASSES && this.#rewatchOnce(); pass++);
  }

  /** True when watchers were added. */
  #rewatchOnce(): boolean {
    const wanted = new Map<string, string>();
    for (const directory of this.#directories()) {
      const existing = nearestExisting(directory);
      wanted.set(existing.path, existing.identity);
    }
    for (const [path, { identity }] of this.#watched) if (wanted.get(path) !== identity) this.#drop(path);
    const missing = [...wanted].filter(([path]) => !this.#watched.has(path));
    for (const [path, identity] of missing) this.#add(path, identity);
    return missing.length > 0;
  }

  #add(path: string, identity: string): void {
    try {
      const watcher = watch(path, (event, name) => this.#onEvent(path, event, name));
      watcher.on('error', () => this.#failed(path));
      this.#watched.set(path, { watcher, identity });
    } catch {
      this.#failed(path);
    }
  }

  #failed(path: string): void {
    if (this.#closed) return;
    this.#drop(path);
    this.#appeared = true;
    this.#settle(REWATCH_MS);
  }

  #drop(path: string): void {
    this.#watched.get(path)?.watcher.close();
    this.#watched.delete(path);
  }
}

export function isPattern(path: string): boolean {
  return /[*?[\]{}!()]/.test(path);
}

/** The directories where a match of these patterns can appear. */
export function patternDirectories(patterns: readonly string[]): readonly string[] {
  const directories = new Set<string>();
  for (const pattern of patterns.filter((p) => p.startsWith('/'))) {
    const directory = dirname(pattern);
    directories.add(fixedPart(directory));
    if (isPattern(directory)) for (const match of matchesNow(directory)) directories.add(match);
  }
  return [...directories];
}

function fixedPart(directory: string): string {
  let at = directory;
  while (isPattern(at)) at = dirname(at);
  return at;
}

function matchesNow(pattern: string): readonly string[] {
  try {
    return globSync(pattern);
  } catch {
    return [];
  }
}

/** The directory itself, or the nearest one above it, where the next level will appear. */
function nearestExisting(directory: string): { readonly path: string; readonly identity: string } {
  for (let at = directory; ; at = dirname(at)) {
    const found = statOf(at);
    if (found?.isDirectory() || at === '/') return { path: at, identity: `${found?.dev}:${found?.ino}` };
  }
}

function statOf(path: string): ReturnType<typeof statSync> {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
