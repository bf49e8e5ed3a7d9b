/** A memory stick with update bundles on it, and bundles that are what they should be or not. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { builtImage } from './card.ts';

const repository = resolve(import.meta.dirname, '../..');
const STICK_MIB = 512;

export interface Stick {
  /** For QEMU. */
  readonly options: readonly string[];
}

/**
 * Has next.update (the image once more, as release 9.9.1), broken.update (release 9.9.2, signed, whose root is none)
 * and foreign.update (signed with another key).
 */
export function writeStick(dir: string): Stick {
  const files = join(dir, 'stick');
  mkdirSync(files);
  const { parts, updateKey } = builtImage();
  const emptyRoot = join(dir, 'empty.root');
  writeFileSync(emptyRoot, Buffer.alloc(1 << 20));
  const foreignKey = join(dir, 'foreign.key');
  execFileSync('openssl', ['genpkey', '-algorithm', 'ed25519', '-out', foreignKey]);
  const pack = (name: string, release: string, root: string, key: string): void => {
    const out = join(files, `${name}.update`);
    const from = ['--root', root, '--boot', join(parts, 'slot'), '--key', key, '--out', out, '--release', release];
    execFileSync(join(repository, 'scripts/lineside'), ['update', 'pack', ...from], { stdio: 'ignore' });
  };
  pack('next', '9.9.1', join(parts, 'root.erofs'), updateKey);
  pack('broken', '9.9.2', emptyRoot, updateKey);
  pack('foreign', '9.9.3', emptyRoot, foreignKey);
  const image = join(dir, 'stick.img');
  execFileSync('mke2fs', ['-q', '-t', 'ext4', '-L', 'stick', '-d', files, image, `${STICK_MIB}M`]);
  const drive = `file=${image},format=raw,if=none,id=stick,readonly=on`;
  return { options: ['-drive', drive, '-device', 'virtio-blk-pci,drive=stick'] };
}
