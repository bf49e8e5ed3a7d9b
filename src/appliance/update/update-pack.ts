/** Makes an update bundle out of an image build: the boot directory of a slot and the image of its root. */
import { createHash } from 'node:crypto';
import { readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { instantOfMs } from '../../shared/base/instant.ts';
import { writeSynced } from '../disk.ts';
import { filePieces, tarPieces } from '../tar.ts';
import { bundleHead, type Manifest, type Part, readPrivateKey } from './update-bundle.ts';

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

/** Answers the manifest; the file appears whole. */
export function packBundle(options: PackOptions): Manifest {
  const { rootImage, bootDir, keyFile, out, version, board, builtAtS } = options;
  const key = readPrivateKey(keyFile);
  const boot = bootEntries(bootDir, builtAtS);
  const root = (): Iterable<Buffer> => filePieces(rootImage, statSync(rootImage).size);
  const manifest: Manifest = {
    version,
    board,
    builtAt: instantOfMs(builtAtS * 1000),
    parts: [
      { name: 'boot', ...measured(tarPieces(boot)) },
      { name: 'root', ...measured(root()) },
    ],
  };
  const temporary = `${out}.new`;
  try {
    writeSynced(temporary, bundlePieces(), 'w', 0o644);
    renameSync(temporary, out);
  } finally {
    rmSync(temporary, { force: true });
  }
  return manifest;

  function* bundlePieces(): Generator<Buffer, void, void> {
    yield bundleHead(manifest, key);
    yield* tarPieces(boot);
    yield* root();
  }
}

/** A directory before what is in it, names in the order of their bytes. */
function bootEntries(bootDir: string, mtimeS: number): Parameters<typeof tarPieces>[0] {
  return readdirSync(bootDir, { recursive: true, encoding: 'utf8' })
    .sort((a, b) => (a < b ? -1 : 1))
    .map((path) => {
      const source = join(bootDir, path);
      const stat = statSync(source);
      const common = { path, mtimeS, owner: '', group: '' };
      if (stat.isDirectory()) return { ...common, isDirectory: true, bytes: 0, mode: 0o755, content: () => [] };
      const content = (): Iterable<Buffer> => filePieces(source, stat.size);
      return { ...common, isDirectory: false, bytes: stat.size, mode: 0o644, content };
    });
}

function measured(pieces: Iterable<Buffer>): Pick<Part, 'bytes' | 'sha256'> {
  const hash = createHash('sha256');
  let bytes = 0;
  for (const piece of pieces) {
    hash.update(piece);
    bytes += piece.length;
  }
  return { bytes, sha256: hash.digest('hex') };
}
