/**
 * What each board of the image needs is on the card, as far as files can show it: the firmware's own files, the device tree
 * with the field line on the header, and for every device a driver of this kernel that is there when it is needed.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { type Board, boards } from './board-list.ts';
import { builtImage, copyFromCard, imageMissing } from './card.ts';
import { cells, DeviceTree, isBehindPci, isEnabled, strings, type TreeNode } from './device-tree.ts';
import { runInTree, withOverlays } from './machine.ts';

/** The firmware reads no more of a line of config.txt. */
const LINE_LIMIT = 98;
const ALTERNATE_0 = 4;
/** `compatible` of the kernel's struct of_device_id. */
const COMPATIBLE_BYTES = 128;

describe('the boards of the image', { skip: imageMissing() }, () => {
  const dir = mkdtempSync(join(tmpdir(), 'lineside-boards-'));
  after(() => rmSync(dir, { recursive: true, force: true }));
  const [card, root] = [join(dir, 'card'), join(dir, 'root')];
  const slot = join(card, 'a');
  let kernel: Kernel;

  before(() => {
    const { image, parts } = builtImage();
    mkdirSync(card);
    copyFromCard(image, '*', card);
    runInTree('fsck.erofs', `--extract=${root}`, '--no-preserve', join(parts, 'root.erofs'));
    kernel = new Kernel(join(slot, 'vmlinuz'), join(slot, 'initrd'), root);
  });

  const treeOf = ({ tree }: Board): DeviceTree => {
    const out = join(dir, `${tree}.dtb`);
    withOverlays(join(slot, `${tree}.dtb`), [join(slot, 'overlays/lineside-uart.dtbo')], out);
    return new DeviceTree(readFileSync(out));
  };

  it('have the files that the firmware and the kernel start from, in lines that the firmware reads to their end', () => {
    for (const name of ['bootcode.bin', 'start.elf', 'fixup.dat', 'start4.elf', 'fixup4.dat', 'a/overlays/README'])
      assert.ok(statSync(join(card, name)).size > 0, name);
    assert.equal(statSync(join(card, 'slot.txt')).size, 64);
    const config = ['config.txt', 'slot.txt'].map((name) => readFileSync(join(card, name), 'latin1')).join('');
    for (const line of config.split('\n')) assert.ok(line.length <= LINE_LIMIT, `${line.length} characters: ${line}`);
    const asked = (key: string): string =>
      new RegExp(`^${key}[= ](.*?)(?: followkernel)?$`, 'm').exec(config)?.[1] ?? '';
    for (const key of ['kernel', 'initramfs', 'cmdline']) assert.ok(existsSync(join(slot, asked(key))), key);
    assert.ok(existsSync(join(slot, `overlays/${asked('dtoverlay')}.dtbo`)), 'the overlay');
    const magic = readFileSync(join(slot, 'vmlinuz')).toString('latin1', 56, 60);
    assert.equal(magic, 'ARMd', 'not a plain arm64 kernel, which is what the firmware starts');
  });

  it('are those whose device trees are on the card', () => {
    const trees = readdirSync(slot).filter((name) => name.endsWith('.dtb'));
    assert.deepEqual(trees.sort(), boards.map(({ tree }) => `${tree}.dtb`).sort());
  });

  for (const board of boards) {
    it(`${board.name}: the field line is the PL011 on the header, and nothing else is on its pins`, () => {
      const tree = treeOf(board);
      const line = tree.at(strings(tree.at('/aliases'), 'serial0')[0] ?? '');
      assert.ok(line !== undefined && isEnabled(line) && strings(line, 'compatible').includes('arm,pl011'));
      const symbol = (name: string): TreeNode | undefined => tree.at(strings(tree.at('/__symbols__'), name)[0] ?? '');
      const pins = symbol('uart0_gpio14');
      assert.deepEqual(cells(line, 'pinctrl-0'), cells(pins, 'phandle'));
      assert.deepEqual([cells(pins, 'brcm,pins'), cells(pins, 'brcm,function')], [[14, 15], [ALTERNATE_0]]);
      for (const other of ['uart1', 'bt']) {
        const node = symbol(other);
        assert.ok(node !== undefined && !isEnabled(node), `${other} is not off`);
      }
      kernel.drives(tree, line, 'root');
    });

    it(`${board.name}: the initramfs has what finds the card and starts the watchdog`, () => {
      const tree = treeOf(board);
      const [controller, ...others] = controllers(tree).filter((node) => !hasWifi(tree, node));
      assert.ok(controller !== undefined && others.length === 0, 'the controller of the card is not to be told');
      kernel.drives(tree, controller, 'initramfs');
      const [watchdog] = tree.enabled(/^brcm,bcm2835-pm-wdt$/);
      assert.ok(watchdog !== undefined && kernel.inInitramfs('bcm2835_wdt'));
      kernel.drives(tree, watchdog, 'initramfs');
    });

    it(`${board.name}: the root has the drivers of USB, Ethernet and Wi-Fi, and the firmware of Wi-Fi`, () => {
      const tree = treeOf(board);
      const [usb] = tree.enabled(board.usb === 'dwc2' ? /^brcm,bcm2835-usb$/ : /^brcm,bcm2711-pcie$/);
      assert.ok(usb !== undefined && strings(usb, 'dr_mode')[0] !== 'peripheral');
      kernel.drives(tree, usb, 'root');
      // The controller behind PCIe needs the reset of the firmware, which loads its program.
      for (const behind of tree.nodes.filter(({ path }) => new RegExp(`^${usb.path}/.*usb@`).test(path)))
        kernel.drives(tree, behind, 'root');
      assert.equal(ethernetOf(tree, kernel), board.ethernet);
      for (const module of [board.usb, ...(board.ethernet === undefined ? [] : [board.ethernet])])
        assert.ok(kernel.has(module), module);
      if (board.wifi === undefined) return;
      const [radio] = controllers(tree).filter((node) => hasWifi(tree, node));
      assert.ok(radio !== undefined, 'no controller has Wi-Fi');
      kernel.drives(tree, radio, 'root');
      for (const module of ['brcmfmac', 'brcmfmac-wcc']) assert.ok(kernel.has(module), module);
      const [model] = strings(tree.at('/'), 'compatible');
      for (const end of ['bin', 'clm_blob', `${model}.txt`]) {
        const file = `usr/lib/firmware/brcm/brcmfmac${board.wifi}-sdio.${end}`;
        assert.ok(existsSync(join(root, file)), file);
      }
    });
  }
});

const controllers = (tree: DeviceTree): TreeNode[] => tree.enabled(/^brcm,bcm(?:2835-sdhost|2835-sdhci|2711-emmc2)$/);
const hasWifi = (tree: DeviceTree, { path }: TreeNode): boolean => tree.at(`${path}/wifi@1`) !== undefined;

/** The module of the board's Ethernet: in the processor, or a USB device that is soldered in. */
function ethernetOf(tree: DeviceTree, kernel: Kernel): string | undefined {
  const [inside] = tree.enabled(/^brcm,bcm2711-genet-v5$/);
  if (inside !== undefined) {
    kernel.drives(tree, inside, 'root');
    return 'genet';
  }
  const named = tree.enabled(/^usb424,(?:ec00|7800)$/).flatMap((node) => strings(node, 'compatible'));
  const [, vendor = '', product = ''] = /^usb(\w+),(\w+)$/.exec(named[0] ?? '') ?? [];
  return vendor === '' ? undefined : kernel.ofUsb(id(vendor), id(product));
}

const id = (hex: string): string => hex.toUpperCase().padStart(4, '0');

/** Which drivers there are, and where. */
class Kernel {
  readonly #image: Buffer;
  readonly #inImage = new Map<string, boolean>();
  readonly #aliases: readonly (readonly [string, string])[];
  readonly #builtIn: ReadonlySet<string>;
  readonly #modules: ReadonlySet<string>;
  readonly #early: ReadonlySet<string>;

  constructor(image: string, initrd: string, root: string) {
    this.#image = readFileSync(image);
    const [release = ''] = readdirSync(join(root, 'usr/lib/modules'));
    const lists = join(root, 'usr/lib/modules', release);
    const aliases = readFileSync(join(lists, 'modules.alias'), 'utf8').matchAll(/^alias (\S+) (\S+)$/gm);
    this.#aliases = [...aliases].map(([, alias = '', module = '']) => [alias, module]);
    this.#builtIn = modulesIn(readFileSync(join(lists, 'modules.builtin'), 'utf8').split('\n'));
    this.#modules = modulesIn(readdirSync(lists, { recursive: true, encoding: 'utf8' }));
    const order = execFileSync('cpio', ['--quiet', '--extract', '--to-stdout', 'modules/order'], {
      input: gunzipSync(readFileSync(initrd)),
      encoding: 'utf8',
    });
    this.#early = modulesIn(order.split('\n'));
  }

  has(module: string): boolean {
    return [this.#builtIn, this.#modules].some((modules) => modules.has(named(module)));
  }

  inInitramfs(module: string): boolean {
    return [this.#builtIn, this.#early].some((modules) => modules.has(named(module)));
  }

  ofUsb(vendor: string, product: string): string | undefined {
    return this.#aliases.find(([alias]) => alias.startsWith(`usb:v${vendor}p${product}d`))?.[1];
  }

  /** The device and all that it needs has a driver: built in, or a module of the initramfs or the root. */
  drives(tree: DeviceTree, device: TreeNode, from: 'initramfs' | 'root'): void {
    for (const node of tree.needs(device)) {
      const compatible = strings(node, 'compatible');
      // The board's own name, and nodes that only group others.
      if (node.parent === undefined || compatible.length === 0) continue;
      // amba_device_add() claims the registers from the whole address space, where the window of PCI is taken already.
      const refused = compatible.includes('arm,primecell') && isBehindPci(node);
      assert.ok(!refused, `${node.path} is an AMBA device behind PCI, which the kernel refuses`);
      assert.ok(
        compatible.some((one) => this.#isBuiltIn(one) || this.#byModule(one, from)),
        `${device.path} needs ${node.path} (${compatible.join(', ')}), which has no driver in kernel or ${from}`,
      );
    }
  }

  /** In a driver's table of devices a name has a field of its own, which zeros fill: elsewhere it may stand for anything. */
  #isBuiltIn(compatible: string): boolean {
    const field = `\0${compatible.padEnd(COMPATIBLE_BYTES, '\0')}`;
    const found = this.#inImage.get(compatible) ?? this.#image.includes(field, 0, 'latin1');
    this.#inImage.set(compatible, found);
    return found;
  }

  #byModule(compatible: string, from: 'initramfs' | 'root'): boolean {
    const there = from === 'initramfs' ? this.#early : this.#modules;
    const own = `of:N*T*C${compatible}`;
    return this.#aliases.some(([alias, module]) => (alias === own || alias === `${own}C*`) && there.has(named(module)));
  }
}

/** Files and lists write the same name with - or _. */
const named = (module: string): string => module.replaceAll('-', '_');

function modulesIn(paths: readonly string[]): Set<string> {
  return new Set(paths.flatMap((path) => /^(.*)\.ko(?:\.xz)?$/.exec(basename(path))?.[1] ?? []).map(named));
}
