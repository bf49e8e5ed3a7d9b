/** Makes an update bundle out of an image build: the boot directory of a slot and the image of its root. */
import { createHash } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { instantOfMs } from '../../shared/base/instant.ts';
import { type TarEntry, tarBlockBytes, tarEndBytes, tarPadding } from '../tar.ts';
import { filePieces, tarPieces, writeWhole } from '../tar-file.ts';
import { bundleHead, type Manifest, readPrivateKey } from './update-bundle.ts';

export interface PackOptions {
  readonly rootImage: string;
  readonly bootDir: string;
  /** Private key, PEM. */
  readonly keyFile: string;
  readonly out: string;
  readonly version: string;
  readonly board: string;
  /** The one date in it: the same inputs give the same bytes. */
  readonly builtAtS: number;
}

type SourceEntry = TarEntry & { readonly source: string };

/** Answers the manifest; the file appears whole. */
export function packBundle(options: PackOptions): Manifest {
  const { rootImage, bootDir, keyFile, out, version, board, builtAtS } = options;
  const key = readPrivateKey(keyFile);
  const entries = bootEntries(bootDir, builtAtS);
  const rootBytes = statSync(rootImage).size;
  const manifest: Manifest = {
    version,
    board,
    builtAt: instantOfMs(builtAtS * 1000),
    parts: [
      { name: 'boot', bytes: tarBytes(entries), sha256: hashOf(tarPieces(entries)) },
      { name: 'root', bytes: rootBytes, sha256: hashOf(filePieces(rootImage, rootBytes)) },
    ],
  };
  const temporary = `${out}.new`;
  const fd = openSync(temporary, 'w', 0o644);
  try {
    writeWhole(fd, bundleHead(manifest, key));
    for (const piece of tarPieces(entries)) writeWhole(fd, piece);
    for (const piece of filePieces(rootImage, rootBytes)) writeWhole(fd, piece);
    fsyncSync(fd);
    renameSync(temporary, out);
  } finally {
    closeSync(fd);
    rmSync(temporary, { force: true });
  }
  return manifest;
}

/** A directory before what is in it, names in the order of their bytes. */
function bootEntries(bootDir: string, mtimeS: number): SourceEntry[] {
  return readdirSync(bootDir, { recursive: true, encoding: 'utf8' })
    .sort((a, b) => (a < b ? -1 : 1))
    .map((path) => {
      const source = join(bootDir, path);
      const stat = statSync(source);
      const isDirectory = stat.isDirectory();
      const mode = isDirectory ? 0o755 : 0o644;
      return { path, source, isDirectory, bytes: isDirectory ? 0 : stat.size, mode, mtimeS, owner: '', group: '' };
    });
}

function tarBytes(entries: readonly TarEntry[]): number {
  return entries.reduce((sum, { bytes }) => sum + tarBlockBytes + bytes + tarPadding(bytes), tarEndBytes);
}

function hashOf(pieces: Iterable<Buffer>): string {
  const hash = createHash('sha256');
  for (const piece of pieces) hash.update(piece);
  return hash.digest('hex');
}
