/** Update bundles that are what they should be or not. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { builtImage } from './card.ts';

const repository = resolve(import.meta.dirname, '../..');
const STICK_MIB = 256;

/** The last build once more, as release 9.9.1, made as documented; its file. */
export function writeNextBundle(dir: string): string {
  const next = join(dir, 'next.update');
  const how = ['--key', builtImage().updateKey, '--out', next, '--release', '9.9.1'];
  execFileSync(join(repository, 'image/bundle'), how, { stdio: ['ignore', 'ignore', 'inherit'] });
  return next;
}

/** For QEMU: a stick with broken.update (release 9.9.2, signed, whose root is none) and foreign.update (signed with another key). */
export function writeStick(dir: string): readonly string[] {
  const files = join(dir, 'stick');
  mkdirSync(files);
  const emptyRoot = join(dir, 'empty.root');
  writeFileSync(emptyRoot, Buffer.alloc(1 << 20));
  const foreignKey = join(dir, 'foreign.key');
  execFileSync('openssl', ['genpkey', '-algorithm', 'ed25519', '-out', foreignKey]);
  pack(join(files, 'broken.update'), '9.9.2', emptyRoot, builtImage().updateKey);
  pack(join(files, 'foreign.update'), '9.9.3', emptyRoot, foreignKey);
  const image = join(dir, 'stick.img');
  execFileSync('mke2fs', ['-q', '-t', 'ext4', '-L', 'stick', '-d', files, image, `${STICK_MIB}M`]);
  const drive = `file=${image},format=raw,if=none,id=stick,readonly=on`;
  return ['-drive', drive, '-device', 'virtio-blk-pci,drive=stick'];
}

function pack(out: string, release: string, root: string, key: string): void {
  const boot = join(builtImage().parts, 'slot');
  const from = ['--root', root, '--boot', boot, '--key', key, '--out', out, '--release', release];
  execFileSync(join(repository, 'scripts/lineside'), ['update', 'pack', ...from], { stdio: 'ignore' });
}
