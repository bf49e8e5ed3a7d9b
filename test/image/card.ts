/** Cards for the emulated box: the image built from these sources, copied, grown, and edited as a technician would. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const repository = resolve(import.meta.dirname, '../..');
/** Everything from nothing: two Debian trees, the cross-compiled package, the image. */
const BUILD_LIMIT_MS = 1_500_000;
/** Where the boot partition begins (image/build). */
export const BOOT_OFFSET_BYTES = 4 * 1024 * 1024;
const DEFAULT_CARD_BYTES = 4 * 1024 * 1024 * 1024;

/** Why no image can be built or booted here; false: it can. Names the reason of a skipped test. */
export function imageMissing(): string | false {
  if (process.getuid?.() !== 0) return 'building the image needs root';
  for (const command of ['qemu-system-aarch64', 'mmdebstrap', 'mcopy', 'ssh', 'ssh-keygen', 'openssl'])
    if (spawnSync('sh', ['-c', `command -v ${command}`]).status !== 0) return `${command} is not installed`;
  return false;
}

export interface BuiltImage {
  readonly image: string;
  /** image/bundle's inputs: slot/ and root.erofs. */
  readonly parts: string;
  /** Private key (PEM) of the bundles that it takes. */
  readonly updateKey: string;
}

/** LINESIDE_IMAGE names a directory that image/build has filled; otherwise it is built here if its inputs changed. */
export function builtImage(): BuiltImage {
  const cache = join(repository, '.cache/image');
  const updateKey = join(cache, 'test-update.key');
  if (!existsSync(updateKey)) {
    mkdirSync(cache, { recursive: true });
    execFileSync('openssl', ['genpkey', '-algorithm', 'ed25519', '-out', updateKey]);
    execFileSync('openssl', ['pkey', '-in', updateKey, '-pubout', '-out', `${updateKey}.pub`]);
  }
  const given = process.env['LINESIDE_IMAGE'];
  if (given === undefined || given === '') {
    execFileSync(join(repository, 'image/build'), ['--update-key', `${updateKey}.pub`], {
      timeout: BUILD_LIMIT_MS,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
  }
  const out = given === undefined || given === '' ? join(cache, 'out') : resolve(repository, given);
  const name = readdirSync(out).find((one) => one.endsWith('.img'));
  assert.ok(name !== undefined, `there is no image in ${out}`);
  return { image: join(out, name), parts: join(out, 'parts'), updateKey };
}

/** A new card, with these files on its boot partition. */
export function writeCard(card: string, files: Readonly<Record<string, string>>, bytes = DEFAULT_CARD_BYTES): void {
  execFileSync('cp', ['--sparse=always', builtImage().image, card]);
  truncateSync(card, bytes);
  for (const [name, text] of Object.entries(files)) putOnCard(card, name, text);
}

/** As with a card reader; the box must be off. */
export function putOnCard(card: string, name: string, text: string): void {
  const beside = `${card}.file`;
  writeFileSync(beside, text);
  copyToCard(card, beside, name);
}

/** A file, under this name. */
export function copyToCard(card: string, from: string, name: string): void {
  mtools('mcopy', card, '-o', from, `::/${name}`);
}

export function readFromCard(card: string, name: string): Buffer {
  return mtools('mtype', card, `::/${name}`);
}

/** A directory with all that is in it. */
export function copyFromCard(card: string, name: string, to: string): void {
  mtools('mcopy', card, '-s', '-n', '-o', `::/${name}`, to);
}

function mtools(command: string, card: string, ...args: string[]): Buffer {
  return execFileSync(command, ['-i', `${card}@@${BOOT_OFFSET_BYTES}`, ...args], {
    // The partition ends before the card does, which mtools calls a fault.
    env: { ...process.env, MTOOLS_SKIP_CHECK: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}
