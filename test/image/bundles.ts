/** Update bundles that are what they should be or not: one for a laptop, those on a memory stick. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { builtImage } from './card.ts';

const repository = resolve(import.meta.dirname, '../..');
const STICK_MIB = 256;

export interface Bundles {
  /** The image once more, as release 9.9.1. */
  readonly next: string;
  /** For QEMU: a stick with broken.update (release 9.9.2, signed, whose root is none) and foreign.update (signed with another key). */
  readonly stick: readonly string[];
}

export function writeBundles(dir: string): Bundles {
  const files = join(dir, 'stick');
  mkdirSync(files);
  const { parts, updateKey } = builtImage();
  const emptyRoot = join(dir, 'empty.root');
  writeFileSync(emptyRoot, Buffer.alloc(1 << 20));
  const foreignKey = join(dir, 'foreign.key');
  execFileSync('openssl', ['genpkey', '-algorithm', 'ed25519', '-out', foreignKey]);
  const next = join(dir, 'next.update');
  const pack = (out: string, release: string, root: string, key: string): void => {
    const from = ['--root', root, '--boot', join(parts, 'slot'), '--key', key, '--out', out, '--release', release];
    execFileSync(join(repository, 'scripts/lineside'), ['update', 'pack', ...from], { stdio: 'ignore' });
  };
  pack(next, '9.9.1', join(parts, 'root.erofs'), updateKey);
  pack(join(files, 'broken.update'), '9.9.2', emptyRoot, updateKey);
  pack(join(files, 'foreign.update'), '9.9.3', emptyRoot, foreignKey);
  const image = join(dir, 'stick.img');
  execFileSync('mke2fs', ['-q', '-t', 'ext4', '-L', 'stick', '-d', files, image, `${STICK_MIB}M`]);
  const drive = `file=${image},format=raw,if=none,id=stick,readonly=on`;
  return { next, stick: ['-drive', drive, '-device', 'virtio-blk-pci,drive=stick'] };
}
