/** An empty box and its card in a directory of their own, and disks that die at the nth step. */
import assert from 'node:assert/strict';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { Box } from '../box.ts';
import { type Disk, realDisk } from '../disk.ts';
import { findIdentity, type Identity } from '../identity/identity.ts';
import type { SetupParts } from './setup-state.ts';

/** Removed at its end. */
export interface Trial extends SetupParts, Disposable {
  readonly dir: string;
  readonly logged: string[];
  put(name: string, text: string | Buffer): void;
  card(name: string): string;
  etc(path: string): string;
  with(disk: Disk): Trial;
}

/** As systemd/lineside.toml is packaged: what the box needs to serve its network. */
export const PACKAGED = '[tls]\ncert_file = "/etc/lineside/tls/server.crt"\nkey_file = "credential:tls.key"\n';

/** Hundreds of boxes are flushed thousands of times: what a flush does is for dyingDisk to say, not for a real disk. */
export const inMemory = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

let boxes = 0;

export function newTrial(disk: Disk = realDisk): Trial {
  const dir = mkdtempSync(join(inMemory, 'lineside-setup-'));
  const [boot, root] = [join(dir, 'boot'), join(dir, 'root')];
  mkdirSync(boot);
  mkdirSync(join(root, 'etc/lineside'), { recursive: true });
  writeFileSync(join(root, 'etc/hostname'), 'lineside-1a2b3c\n');
  boxes += 1;
  writeFileSync(join(root, 'etc/machine-id'), `${boxes.toString(16).padStart(32, '0')}\n`);
  writeFileSync(join(root, 'etc/lineside/lineside.toml'), PACKAGED);
  return trialIn(dir, disk);
}

export function trialIn(dir: string, disk: Disk): Trial {
  const [boot, root] = [join(dir, 'boot'), join(dir, 'root')];
  const logged: string[] = [];
  const clock = new FakeClock();
  return {
    dir,
    boot,
    box: new Box(root),
    disk,
    clock,
    logged,
    log: (line) => void logged.push(line),
    put: (name, text) => writeFileSync(join(boot, name), text),
    card: (name) => (existsSync(join(boot, name)) ? readFileSync(join(boot, name), 'utf8') : ''),
    etc: (path) => (existsSync(join(root, 'etc', path)) ? readFileSync(join(root, 'etc', path), 'utf8') : ''),
    with: (other) => trialIn(dir, other),
    [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true }),
  };
}

/** Below /etc/lineside. */
export const identityFiles = [
  'identity.json',
  'tls/ca.crt',
  'tls/server.crt',
  'ca/ca.key',
  'secrets/line/tls.key',
  'secrets/hub/tls.key',
] as const;

/** The identity of the box, which must be whole. */
export function identityIn({ box }: Trial): Identity {
  const found = findIdentity(box);
  assert.ok(found.kind === 'whole', JSON.stringify(found));
  return found.identity;
}

export class PlugPulled extends Error {}

interface Unsettled {
  readonly directory: string;
  readonly undo: () => void;
}

/**
 * The real disk until its nth step, which is begun (a write is torn in the middle) and then throws, as does every step
 * after it. With `forgets`, names that were not flushed with their directory are then as they were: a file system may
 * keep them or not.
 */
export function dyingDisk(steps: number, forgets: boolean): Disk & { readonly count: () => number } {
  let count = 0;
  let unsettled: Unsettled[] = [];
  /** New files whose directory was not flushed since. */
  let made = new Set<string>();
  const die = (): never => {
    if (forgets) for (const { undo } of unsettled.toReversed()) undo();
    for (const path of forgets ? made : []) rmSync(path, { force: true });
    unsettled = [];
    throw new PlugPulled();
  };
  const step = (work: () => void, torn: () => void = () => undefined): void => {
    count += 1;
    if (count > steps) throw new PlugPulled();
    if (count < steps) return work();
    torn();
    die();
  };
  const half = (path: string, bytes: Uint8Array, flags: string): void => {
    const fd = openSync(path, flags);
    writeSync(fd, bytes, 0, Math.floor(bytes.length / 2), 0);
    closeSync(fd);
  };
  const rename = (from: string, to: string): void => {
    const isDirectory = statSync(from).isDirectory();
    const before = existsSync(to) && !isDirectory ? readFileSync(to) : undefined;
    realDisk.rename(from, to);
    // What is in a directory that moves is as unsettled as it was.
    made = new Set([...made].map((one) => (dirname(one) === from ? join(to, basename(one)) : one)));
    const undo = (): void => {
      if (existsSync(to)) renameSync(to, from);
      if (before !== undefined) writeFileSync(to, before);
    };
    unsettled.push({ directory: dirname(to), undo });
  };
  const write = (path: string, bytes: Uint8Array, mode: number): void => {
    const isNew = !existsSync(path);
    realDisk.write(path, bytes, mode);
    if (isNew) made.add(path);
  };
  return {
    count: () => count,
    write: (path, bytes, mode) =>
      step(
        () => write(path, bytes, mode),
        () => half(path, bytes, 'w'),
      ),
    overwrite: (path, bytes) =>
      step(
        () => realDisk.overwrite(path, bytes),
        () => half(path, bytes, 'r+'),
      ),
    rename: (from, to) => step(() => rename(from, to)),
    remove: (path) => step(() => realDisk.remove(path)),
    makeDir: (path, mode) => step(() => realDisk.makeDir(path, mode)),
    owner: (path, uid, gid) => step(() => realDisk.owner(path, uid, gid)),
    flushDir: (path) =>
      step(() => {
        realDisk.flushDir(path);
        unsettled = unsettled.filter(({ directory }) => directory !== path);
        made = new Set([...made].filter((one) => dirname(one) !== path));
      }),
  };
}
