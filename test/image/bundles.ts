/** Update bundles that are what they should be or not, and how a laptop installs one. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { until } from '../../src/shared/base/wait.fixture.ts';
import type { AdminWork, UpdateBundle } from '../../src/shared/gen/http.ts';
import { builtImage, readFromCard } from './card.ts';
import type { HttpClient } from './remote.ts';

const repository = resolve(import.meta.dirname, '../..');
const STICK_MIB = 256;
const NEXT_RELEASE = '9.9.1';
/** Some 190 MB are read three times and written once. */
const INSTALL_LIMIT_MS = 600_000;

/** The image once more, as another release; its file. */
export function writeNextBundle(dir: string): string {
  const next = join(dir, 'next.update');
  const { parts, updateKey } = builtImage();
  pack(next, NEXT_RELEASE, join(parts, 'root.erofs'), updateKey);
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

/** The bundle of writeNextBundle, installed into slot b of a box that runs slot a. How long it took. */
export async function installNext(http: HttpClient, card: string, bundle: string): Promise<string> {
  const slots = (): string => readFromCard(card, 'slot.txt').toString('latin1');
  const from = performance.now();
  const seconds = (): string => ((performance.now() - from) / 1000).toFixed(0);
  await http.expect(204, 'POST', '/admin/uploads', { bytes: statSync(bundle).size });
  const { sha256, version, slot } = await http.upload<UpdateBundle>('/admin/update/bundle', bundle);
  assert.deepEqual([version, slot], [NEXT_RELEASE, 'b']);
  const uploaded = seconds();
  assert.match(slots(), /good=a try=- left=0\nos_prefix=a\/\n/);
  await http.expect(204, 'POST', '/admin/update/install', { sha256 });
  const work = async () => (await http.expect<AdminWork>(200, 'GET', '/admin/work')).update;
  // Nothing is known of it until the unit has begun.
  const isOver = async (): Promise<boolean> => !['running', undefined].includes((await work())?.state);
  await until('the end of the install', isOver, INSTALL_LIMIT_MS);
  const update = await work();
  assert.deepEqual([update?.state, update?.result, update?.error], ['done', NEXT_RELEASE, '']);
  assert.match(slots(), /good=a try=b left=3\nos_prefix=b\/\n/);
  return `uploaded and checked after ${uploaded} s, installed after ${seconds()} s`;
}
