/** Backups as no lineside makes them: changed, crafted by an author who knows the format, or packed by another tar. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { type BackupList, listHashName, listName } from '../../src/appliance/backup/backup-archive.ts';
import { sha256 } from '../../src/appliance/hash.ts';
import { plainFile, type TarEntry, tarEndBytes, tarHeader, tarPadding } from '../../src/appliance/tar.ts';
import type { Site } from './backup-site.ts';

interface Changed {
  entry: TarEntry;
  content: Buffer;
  /** Bytes that take the place of the header's. */
  header?: Buffer;
}

/** The archive with its entries changed; the list's own hash is recreated, so that only the change is wrong. */
export function rewrite(file: string, change: (entries: Changed[]) => unknown): void {
  const bytes = readFileSync(file);
  const entries: Changed[] = [];
  for (let at = 0; bytes[at] !== 0; ) {
    const name = bytes.toString('latin1', at, bytes.indexOf(0, at));
    const size = Number.parseInt(bytes.toString('latin1', at + 124, at + 135), 8);
    const isDirectory = bytes[at + 156] === 0x35;
    const mode = Number.parseInt(bytes.toString('latin1', at + 100, at + 107), 8);
    const entry = { ...plainFile(name.replace(/\/$/, ''), size, 0, mode), isDirectory };
    entries.push({ entry, content: Buffer.from(bytes.subarray(at + 512, at + 512 + size)) });
    at += 512 + size + tarPadding(size);
  }
  change(entries);
  const list = entries.find(({ entry }) => entry.path === listName);
  const hash = entries.find(({ entry }) => entry.path === listHashName);
  if (list !== undefined && hash !== undefined) hash.content = Buffer.from(`${sha256(list.content)}\n`);
  const written = entries.flatMap(({ entry, content, header }) => [
    header ?? tarHeader({ ...entry, bytes: content.length }),
    content,
    Buffer.alloc(tarPadding(content.length)),
  ]);
  writeFileSync(file, Buffer.concat([...written, Buffer.alloc(tarEndBytes)]));
}

export function directory(path: string): Changed {
  return { entry: { ...plainFile(path, 0, 0, 0o755), isDirectory: true }, content: Buffer.alloc(0) };
}

function fileOf(path: string, content: string | Buffer, mode = 0o644): Changed {
  return { entry: plainFile(path, content.length, 0, mode), content: Buffer.from(content) };
}

export function added(file: string, path: string, content: string): void {
  rewrite(file, (entries) => entries.unshift(fileOf(path, content)));
}

/** By an author who knows the format: the list and its hash agree with whatever was done to the entries. */
export function crafted(file: string, change: (entries: Changed[]) => unknown, head: object = {}): void {
  rewrite(file, (entries) => {
    const [list, hash] = entries.splice(-2);
    assert.ok(list !== undefined && hash !== undefined);
    change(entries);
    const files = entries.map(({ entry, content }) => ({
      path: entry.path,
      bytes: content.length,
      sha256: entry.isDirectory ? '' : sha256(content),
    }));
    const before = JSON.parse(list.content.toString()) as BackupList;
    list.content = Buffer.from(JSON.stringify({ ...before, ...head, files }));
    entries.push(list, hash);
  });
}

/** The content of an entry; one that is not there comes before the others of etc/. */
export function put(entries: Changed[], path: string, content: string | Buffer, mode = 0o644): void {
  const found = entries.find(({ entry }) => entry.path === path);
  if (found !== undefined) found.content = Buffer.from(content);
  else
    entries.splice(
      entries.findIndex(({ entry }) => !entry.path.startsWith('etc/')),
      0,
      fileOf(path, content, mode),
    );
}

export function keyOf(file: string, bytes: number): void {
  crafted(file, (entries) => put(entries, 'hub/webhooks.key', Buffer.alloc(bytes)));
}

export function configured({ file, data }: Site, more: string, dir = data): void {
  const text = `# one\n[device]\nid = "box-1"\n[data]\ndir = ${JSON.stringify(dir)}\n${more}`;
  crafted(file, (entries) => put(entries, 'etc/lineside.toml', text));
}

/** The files of the backup, packed again by tar; `make`: a shell command that may put etc/evil into the tree. */
export function realTar({ dir, file }: Site, make: string, ...options: string[]): void {
  const tree = join(dir, 'tree');
  mkdirSync(tree);
  execFileSync('tar', ['-xf', file, '-C', tree]);
  const names = execFileSync('tar', ['-tf', file], { encoding: 'utf8' }).trim().split('\n');
  const known = names.map((one) => one.replace(/\/$/, ''));
  execFileSync('sh', ['-c', make], { cwd: tree });
  const more = readdirSync(join(tree, 'etc')).includes('evil') ? ['etc/evil'] : [];
  const format = ['--format=ustar', '--blocking-factor=1', '--no-recursion', '--owner=root:0', '--group=root:0'];
  const kept = known.filter((one) => one !== listName && one !== listHashName);
  const members = [...kept, ...more, listName, listHashName];
  execFileSync('tar', [...format, ...options, '-C', tree, '-cf', file, ...members], { stdio: 'ignore' });
  rmSync(tree, { recursive: true });
}

export function newer(file: string): void {
  const path = `${file}.db`;
  rewrite(file, (entries) =>
    writeFileSync(path, entries.find(({ entry }) => entry.path === 'line/log.db')?.content ?? ''),
  );
  const database = new Database(path);
  database.pragma('user_version = 900');
  database.exec('UPDATE oldest_reader SET version = 900');
  database.pragma('wal_checkpoint(TRUNCATE)');
  database.close();
  crafted(file, (entries) => put(entries, 'line/log.db', readFileSync(path)));
  rmSync(path);
}

/** A file more, whose header says something else at `at`, as another program would write it: checksum included. */
export function forged(file: string, at: number, written: string): void {
  const one = fileOf('etc/evil', '');
  const header = tarHeader(one.entry);
  header.write(written, at, 'latin1');
  header.write('        ', 148, 'latin1');
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  rewrite(file, (entries) => entries.unshift({ ...one, header }));
}
