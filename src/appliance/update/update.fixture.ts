/** A box whose partitions are files: a running slot, the other one, a boot directory, and bundles to install. */
import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';
import type { UpdateTarget } from './boot-partition.ts';
import { renderSlots, type Slot, settled } from './slots.ts';
import { type PackOptions, packBundle } from './update-bundle.ts';
import { checkUpdate, type Installed, type InstallOptions, installUpdate } from './update-install.ts';

export interface TestBox {
  readonly dir: string;
  readonly target: UpdateTarget;
  /** How the boot partition was remounted, in order. */
  readonly remounts: string[];
  at(name: string): string;
  /** Packs a bundle and answers its path. */
  bundle(differing?: Partial<PackOptions>): string;
  check(file: string): Installed;
  install(file: string, differing?: Partial<InstallOptions>): Installed;
  /** What no update may change: the running slot's files and partition. */
  runningBytes(): string;
}

export const slotBytes = 5 * 1024 * 1024;
export const newRoot = Buffer.alloc(3 * 1024 * 1024 + 4_096, 'new root ');

/** Slot `running` runs, is good, and nothing is on trial. */
export function testBox(
  t: { after(call: () => void): void },
  running: Slot = 'a',
  dir = temporaryDirectory(t),
): TestBox {
  const at = (name: string): string => join(dir, name);
  mkdirSync(at('boot'));
  for (const slot of ['a', 'b']) {
    mkdirSync(at(`boot/${slot}`));
    writeFileSync(at(`boot/${slot}/cmdline.txt`), `console=tty0 lineside.slot=${slot} panic=10\n`);
    writeFileSync(at(`boot/${slot}/vmlinuz`), `kernel of ${slot}`);
    writeFileSync(at(`root-${slot}`), Buffer.alloc(slotBytes, `old root ${slot} `));
  }
  writeFileSync(at('boot/slot.txt'), renderSlots(settled(running)));
  writeFileSync(at('facts'), `SLOT=${running}\nTRYING=no\nPART=/dev/mmcblk0p\n`);
  writeFileSync(at('board'), 'raspberry-pi-arm64\n');
  const pair = generateKeyPairSync('ed25519');
  writeFileSync(at('update.key'), pair.privateKey.export({ type: 'pkcs8', format: 'pem' }));
  writeFileSync(at('update.pub'), pair.publicKey.export({ type: 'spki', format: 'pem' }));
  mkdirSync(at('new-boot/overlays'), { recursive: true });
  writeFileSync(at('new-boot/vmlinuz'), 'a new kernel');
  writeFileSync(at('new-boot/initrd'), Buffer.alloc(2_500_000, 'initrd '));
  writeFileSync(at('new-boot/overlays/README'), '');
  writeFileSync(at('new-boot/overlays/lineside-uart.dtbo'), 'overlay');
  writeFileSync(at('new-root'), newRoot);
  return boxIn(dir, running);
}

/** The same box seen by another process. */
export function boxIn(dir: string, running: Slot): TestBox {
  const at = (name: string): string => join(dir, name);
  const remounts: string[] = [];
  const target: UpdateTarget = {
    bootDir: at('boot'),
    keyFile: at('update.pub'),
    boardFile: at('board'),
    factsFile: at('facts'),
    version: '1.2.0',
    rootDevice: (_facts, slot) => at(`root-${slot}`),
    remountBoot: (mode) => void remounts.push(mode),
  };
  return {
    dir,
    target,
    remounts,
    at,
    bundle(differing = {}) {
      const out = at('new.update');
      packBundle({
        root: at('new-root'),
        boot: at('new-boot'),
        key: at('update.key'),
        out,
        version: '1.3.0',
        board: 'raspberry-pi-arm64',
        builtAtS: 1_800_000_000,
        ...differing,
      });
      return out;
    },
    check: (file) => checkUpdate({ file, target, allowDowngrade: false, onProgress: () => undefined }),
    install: (file, differing = {}) =>
      installUpdate({ file, target, allowDowngrade: false, onProgress: () => undefined, ...differing }),
    runningBytes() {
      const files = [`root-${running}`, `boot/${running}/vmlinuz`, `boot/${running}/cmdline.txt`];
      return files.map((file) => readFileSync(at(file), 'latin1')).join('\n');
    },
  };
}
