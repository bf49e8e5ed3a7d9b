/**
 * An update bundle: "lineside-update 1 <bytes of the manifest>\n", the manifest's Ed25519 signature (64 bytes), the manifest,
 * and the parts it lists with their hashes, one behind the other and nothing after them. What is not signed is not read.
 */
import { createPrivateKey, type KeyObject, sign, verify } from 'node:crypto';
import { fstatSync, readdirSync, readFileSync, readSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { LinesideError } from '../../shared/base/errors.ts';
import { instantOfMs } from '../../shared/base/instant.ts';
import { objectIn } from '../../shared/base/json.ts';
import { openFault, writeSynced } from '../disk.ts';
import { type Measured, measured } from '../hash.ts';
import { Cursor, filePieces, plainFile, tarPieces } from '../tar.ts';
import { parseVersion } from './release.ts';

export interface Part extends Measured {
  readonly name: 'boot' | 'root';
}

export interface Manifest {
  readonly version: string;
  /** What it runs on: "raspberry-pi-arm64". */
  readonly board: string;
  /** RFC 3339. */
  readonly builtAt: string;
  /** boot: a tar file of the slot's directory on the boot partition; root: the image of its root partition. */
  readonly parts: readonly [Part & { readonly name: 'boot' }, Part & { readonly name: 'root' }];
}

export interface Bundle {
  readonly manifest: Manifest;
  /** A cursor over a part; `onRead` receives every byte in its order. */
  part(name: Part['name'], onRead?: (piece: Buffer) => void): Cursor;
}

const magic = 'lineside-update 1';
const signatureBytes = 64;
/** A manifest has some 400. */
const maxManifestBytes = 65_536;
/** The magic, a number of up to 5 digits, a blank and a newline. */
const maxFirstLineBytes = magic.length + 7;

/** Reads and checks all but the parts' contents. Throws MALFORMED, PERMISSION_DENIED (the signature). */
export function openBundle(fd: number, publicKey: KeyObject): Bundle {
  const { size } = fstatSync(fd);
  const first = readAt(fd, 0, Math.min(size, maxFirstLineBytes)).toString('latin1');
  const found = /^lineside-update (\d+) ([1-9]\d{0,4})\n/.exec(first);
  if (found === null) throw malformed('it does not begin as a bundle does');
  if (found[1] !== '1') throw malformed(`it is of format ${found[1]}, this lineside knows 1`);
  const manifestBytes = Number(found[2]);
  if (manifestBytes > maxManifestBytes) throw malformed('its list of contents is too long');
  const signatureAt = found[0].length;
  const partsAt = signatureAt + signatureBytes + manifestBytes;
  if (size < partsAt) throw malformed('it is cut short');
  const text = readAt(fd, signatureAt + signatureBytes, manifestBytes);
  if (!verify(null, text, publicKey, readAt(fd, signatureAt, signatureBytes))) {
    throw new LinesideError('PERMISSION_DENIED', 'the bundle is not signed with the key that this box trusts', {
      hint: 'Get it again from where it came from; a bundle for boxes of another owner does not fit.',
    });
  }
  const manifest = readManifest(text);
  const [boot, root] = manifest.parts;
  const expected = partsAt + boot.bytes + root.bytes;
  if (size !== expected) {
    throw malformed(size < expected ? `it is cut short: ${size} of ${expected} bytes` : 'something follows its end');
  }
  return {
    manifest,
    part: (name, onRead) =>
      name === 'boot'
        ? new Cursor(fd, partsAt, boot.bytes, onRead)
        : new Cursor(fd, partsAt + boot.bytes, root.bytes, onRead),
  };
}

function bundleHead(manifest: Manifest, privateKey: KeyObject): Buffer {
  const text = Buffer.from(`${JSON.stringify(manifest)}\n`);
  readManifest(text);
  return Buffer.concat([Buffer.from(`${magic} ${text.length}\n`), sign(null, text, privateKey), text]);
}

/** `read`: createPublicKey or createPrivateKey. Throws CONFIG_INVALID. */
export function readKey(file: string, read: (pem: Buffer) => KeyObject): KeyObject {
  let key: KeyObject;
  try {
    key = read(readFileSync(file));
  } catch (error) {
    throw new LinesideError('CONFIG_INVALID', `cannot read the key ${file}: ${openFault(error)}`, {
      cause: error,
      hint: 'An image that was built without --update-key takes no updates.',
    });
  }
  if (key.asymmetricKeyType !== 'ed25519') {
    throw new LinesideError('CONFIG_INVALID', `the key ${file} is of type ${key.asymmetricKeyType}, not Ed25519`, {
      hint: 'openssl genpkey -algorithm ed25519 -out update.key; openssl pkey -in update.key -pubout -out update.pub',
    });
  }
  return key;
}

function readManifest(text: Buffer): Manifest {
  const read = objectIn(text.toString('utf8'));
  if (read === undefined) throw malformed('its list of contents cannot be read');
  const { version, board, builtAt, parts } = read;
  if (!isText(version) || parseVersion(version) === undefined) throw malformed('it does not say its version');
  if (!isText(board) || !isText(builtAt)) throw malformed('it does not say what it is for');
  if (!Array.isArray(parts) || parts.length !== 2) throw malformed('it does not have the two parts');
  return { version, board, builtAt, parts: [readPart(parts[0], 'boot'), readPart(parts[1], 'root')] };
}

function readPart<Name extends Part['name']>(read: unknown, name: Name): Part & { readonly name: Name } {
  const { name: said, bytes, sha256 } = { ...(read as Partial<Record<keyof Part, unknown>> | null | undefined) };
  if (said !== name || typeof bytes !== 'number' || !Number.isSafeInteger(bytes) || bytes <= 0) {
    throw malformed(`its part "${name}" is not described`);
  }
  if (typeof sha256 !== 'string' || !/^[0-9a-f]{64}$/.test(sha256)) throw malformed(`its part "${name}" has no hash`);
  return { name, bytes, sha256 };
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && /^[ -~]{1,200}$/.test(value);
}

/** Throws MALFORMED where the content is not what was signed. */
export function checkPart(bundle: Bundle, part: Part, onPiece: (bytes: number) => void): void {
  const { sha256 } = measured(bundle.part(part.name).pieces(part.bytes), (piece) => onPiece(piece.length));
  if (sha256 !== part.sha256) throw malformed(`its part "${part.name}" is not what was signed`);
}

function readAt(fd: number, at: number, bytes: number): Buffer {
  const buffer = Buffer.alloc(bytes);
  const read = readSync(fd, buffer, 0, bytes, at);
  if (read !== bytes) throw malformed('it is cut short');
  return buffer;
}

function malformed(what: string): LinesideError {
  return new LinesideError('MALFORMED', `the file is no bundle that can be used: ${what}`, {
    hint: 'Get it again from where it came from.',
  });
}

// Making a bundle out of an image build: the boot directory of a slot and the image of its root.

export interface PackOptions {
  readonly root: string;
  readonly boot: string;
  readonly key: string;
  readonly out: string;
  readonly version: string;
  readonly board: string;
  /** The one date in it: the same inputs give the same bytes. */
  readonly builtAtS: number;
}

/** Returns the manifest; `out` appears only when it is complete. */
export function packBundle(options: PackOptions): Manifest {
  const { out, version, board, builtAtS } = options;
  const key = readKey(options.key, createPrivateKey);
  const boot = bootEntries(options.boot, builtAtS);
  const root = (): Iterable<Buffer> => filePieces(options.root, statSync(options.root).size);
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
      if (stat.isDirectory()) return { ...plainFile(path, 0, mtimeS, 0o755), isDirectory: true, content: () => [] };
      return { ...plainFile(path, stat.size, mtimeS, 0o644), content: () => filePieces(source, stat.size) };
    });
}
