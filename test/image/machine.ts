/**
 * The machines that a card is started on: QEMU's `virt`, which is fast and has what tests of the card and of USB need, and
 * its Raspberry Pi boards with the board's own device tree, as the firmware would hand it over.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { trixieTree } from '../appliance/nspawn.ts';
import { copyFromCard } from './card.ts';

export interface Start {
  /** The box's own directory; its character devices are there: sockets uart, qmp and usb, file console.log. */
  readonly dir: string;
  readonly card: string;
  /** Directory of the slot's boot files on the card. */
  readonly slot: string;
  /** The card as -drive; undefined: the caller gives its own, with id=card. */
  readonly drive: string | undefined;
}

export interface Machine {
  /** Program, and what has to be its first options. */
  readonly emulator: () => readonly string[];
  /** More words for the kernel. Mitigations guard no emulated processor, and cost it a tenth of its time. */
  readonly words: string;
  /** Clock of its PL011. */
  readonly uartHz: number;
  /** The machine and its devices; the chardevs uart and console and the netdev lan are declared already. */
  readonly options: (start: Start) => readonly string[];
}

export const virt: Machine = {
  emulator: () => ['qemu-system-aarch64'],
  words: 'console=hvc0 loglevel=6 mitigations=off',
  uartHz: 24_000_000,
  options({ dir, drive }) {
    const parts = [
      '-M virt,gic-version=3 -cpu cortex-a53 -smp 2 -m 1024',
      '-device virtio-blk-pci,drive=card -device virtio-rng-pci -device virtio-serial-pci',
      '-serial chardev:uart -device virtconsole,chardev=console',
      // Without the option ROM to boot from the network: a package of its own, which a machine may lack.
      '-device virtio-net-pci,netdev=lan,romfile=',
      // An adapter that is plugged in while a client is connected.
      `-device qemu-xhci -chardev socket,id=usb,path=${dir}/usb,server=on,wait=off -device usb-redir,chardev=usb`,
    ];
    return [...words(parts), ...(drive === undefined ? [] : ['-drive', `${drive},if=none,id=card`])];
  },
};

export interface BoardOptions {
  /** QEMU's name. */
  readonly machine: 'raspi3b' | 'raspi4b';
  /** Of image/boards. */
  readonly tree: string;
  /** MiB that the kernel gets; less than the emulated board has. */
  readonly memoryMib?: number;
}

/** Where the mini UART is, which the box does not use: kernel messages of these tests go there. */
const MINI_UART = { raspi3b: '0x3f215040', raspi4b: '0xfe215040' };
/** A screen as the firmware sets it up: the kernel has no driver for what QEMU has in place of the graphics processor. */
const SCREEN = { address: 0x3c100000, width: 640, height: 480 };

/**
 * A Raspberry Pi, without its network adapter, which is plugged in later: see startBoard. To arm the emulated watchdog is an
 * immediate reset, so systemd does not arm it here. cdc_subset is a driver
 * that takes the emulated network adapter before cdc_ether at some starts, and then the box does not answer.
 */
export function board({ machine, tree, memoryMib }: BoardOptions): Machine {
  const memory = memoryMib === undefined ? '' : ` mem=${memoryMib}M`;
  const shown = `earlycon=bcm2835aux,mmio32,${MINI_UART[machine]} keep_bootcon loglevel=7`;
  return {
    emulator: () => inTree('qemu-system-aarch64', '-L', join(trixieTree(), 'usr/share/qemu')),
    words: `${shown} mitigations=off systemd.watchdog_sec=0 module_blacklist=vc4,cdc_subset${memory}`,
    uartHz: 48_000_000,
    options(start) {
      const drive = start.drive === undefined ? [] : ['-drive', `${start.drive},if=sd,id=card`];
      const serial = ['-serial', 'chardev:uart', '-serial', 'chardev:console'];
      return ['-M', machine, ...serial, ...drive, '-dtb', deviceTree(start, machine, tree)];
    },
  };
}

/** Runs a program of the tree of image/tools where it is: its files, and sockets of this machine, by their own paths. */
export function inTree(program: string, ...args: readonly string[]): [string, ...string[]] {
  const root = trixieTree();
  const [loader, libraries] =
    process.arch === 'x64'
      ? ['usr/lib64/ld-linux-x86-64.so.2', 'usr/lib/x86_64-linux-gnu']
      : ['usr/lib/ld-linux-aarch64.so.1', 'usr/lib/aarch64-linux-gnu'];
  return [join(root, loader), '--library-path', join(root, libraries), join(root, 'usr/bin', program), ...args];
}

export function runInTree(program: string, ...args: readonly string[]): string {
  const [loader, ...rest] = inTree(program, ...args);
  return execFileSync(loader, rest, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

/** What the firmware does with config.txt's dtoverlay=. */
export function withOverlays(tree: string, overlays: readonly string[], out: string): void {
  runInTree('fdtoverlay', '-i', tree, '-o', out, ...overlays);
}

function deviceTree({ dir, card, slot }: Start, machine: BoardOptions['machine'], tree: string): string {
  const [base, uart, screen, out] = ['board.dtb', 'uart.dtbo', 'screen.dtbo', 'start.dtb'].map((name) =>
    join(dir, name),
  ) as [string, string, string, string];
  copyFromCard(card, `${slot}/${tree}.dtb`, base);
  copyFromCard(card, `${slot}/overlays/lineside-uart.dtbo`, uart);
  const overlays = [uart];
  if (machine === 'raspi3b') {
    writeFileSync(`${screen}.dts`, screenOverlay());
    runInTree('dtc', '-q', '-@', '-I', 'dts', '-O', 'dtb', '-o', screen, `${screen}.dts`);
    overlays.push(screen);
  }
  withOverlays(base, overlays, out);
  if (machine === 'raspi4b') asEmulated(out);
  return out;
}

function screenOverlay(): string {
  const { address, width, height } = SCREEN;
  const place = address.toString(16);
  const pixels = `width = <${width}>; height = <${height}>; stride = <${2 * width}>; format = "r5g6b5"`;
  return `/dts-v1/; /plugin/; / { fragment@0 { target-path = "/chosen"; __overlay__ { #address-cells = <1>; #size-cells = <1>;
    ranges; framebuffer@${place} { compatible = "simple-framebuffer"; reg = <0x${place} ${2 * width * height}>; ${pixels};
    status = "okay"; }; }; }; };`;
}

/** Parts of a Pi 4 that QEMU has no model of: to touch one ends the kernel. */
const NOT_EMULATED = [
  '/soc/interrupt-controller@7ef00100',
  '/soc/clock@7ef00000',
  ...['hdmi@7ef00700', 'hdmi@7ef05700', 'i2c@7ef04500', 'i2c@7ef09500'].map((node) => `/soc/${node}`),
  '/scb/gpu@7ec00000',
  '/soc/hvs@7e400000',
  '/soc/avs-monitor@7d5d2000',
  '/gpu',
  ...['6000', '7000', 'a000'].map((at) => `/soc/pixelvalve@7e20${at}`),
  '/soc/pixelvalve@7e216000',
  '/soc/pixelvalve@7ec12000',
];

/** A Pi 4 as QEMU has it: USB by dwc2 alone, since it has no PCIe; the card at the controller that a board has Wi-Fi at. */
function asEmulated(tree: string): void {
  runInTree('fdtput', '-t', 's', tree, '/soc/usb@7e980000', 'dr_mode', 'host');
  for (const node of NOT_EMULATED) runInTree('fdtput', '-t', 's', tree, node, 'status', 'disabled');
  runInTree('fdtput', '-d', tree, '/soc/mmc@7e300000', 'mmc-pwrseq', 'non-removable');
  runInTree('fdtput', '-r', tree, '/soc/mmc@7e300000/wifi@1');
  runInTree('fdtput', tree, '/soc/mmc@7e300000', 'broken-cd');
  runInTree('fdtput', '-d', tree, '/emmc2bus/mmc@7e340000', 'vqmmc-supply', 'vmmc-supply');
}

function words(parts: readonly string[]): string[] {
  return parts.flatMap((part) => part.split(' '));
}
