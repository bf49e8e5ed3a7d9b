/** Trees of sysfs as the kernel's drivers lay them out on the machines that the tests are about. */

import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import type { TestContext } from 'node:test';
import { temporaryDirectory } from '../base/temporary.fixture.ts';
import type { SensorRoots } from './sensors.ts';

export type Tree = Readonly<Record<string, string>>;

/** Raspberry Pi 3 and 4 with Debian's kernel: a zone, a cooling device of cpufreq, an SD card that reports nothing of itself. */
export const pi4: Tree = {
  'class/thermal/thermal_zone0/type': 'cpu-thermal\n',
  'class/thermal/thermal_zone0/temp': '48686\n',
  'class/thermal/cooling_device0/type': 'cpufreq-cpu0\n',
  'class/thermal/cooling_device0/cur_state': '0\n',
  'class/hwmon/hwmon0/name': 'cpu_thermal\n',
  'class/hwmon/hwmon0/temp1_input': '48200\n',
};
/** Where raspberrypi-hwmon is built: the firmware's word on the voltage. */
export const piVoltage: Tree = {
  ...pi4,
  'class/hwmon/hwmon1/name': 'rpi_volt\n',
  'class/hwmon/hwmon1/in0_lcrit_alarm': '0\n',
};
/** Raspberry Pi's own kernel. */
export const piOwnKernel: Tree = { ...pi4, 'devices/platform/soc/soc:firmware/get_throttled': '0\n' };
export const pc: Tree = {
  'class/thermal/thermal_zone0/type': 'acpitz\n',
  'class/thermal/thermal_zone0/temp': '16800\n',
  'class/thermal/thermal_zone1/type': 'x86_pkg_temp\n',
  'class/thermal/thermal_zone1/temp': '61000\n',
  'class/thermal/cooling_device0/type': 'Processor\n',
  'class/thermal/cooling_device0/cur_state': '3\n',
  'class/hwmon/hwmon2/name': 'coretemp\n',
  'class/hwmon/hwmon2/temp1_input': '63000\n',
};

const card = 'devices/platform/emmc2bus/fe340000.mmc/mmc_host/mmc0/mmc0:0001';

/** A card with its fourth partition, 179:4, as ext4; eMMC where it reports its life time. */
export function mmc(files: { readonly life?: string; readonly eol?: string; readonly kib?: string } = {}): Tree {
  const { life, eol, kib } = files;
  return {
    [`${card}/block/mmcblk0/stat`]:
      '   12345      678  1234567    8901    23456     7890  2345678   901234  0 5 6 7 8\n',
    [`${card}/block/mmcblk0/mmcblk0p4/partition`]: '4\n',
    [`${card}/block/mmcblk0/mmcblk0p4/stat`]: '1 2 3 4 5 6 7 8 9\n',
    ...(life !== undefined && { [`${card}/life_time`]: life }),
    ...(eol !== undefined && { [`${card}/pre_eol_info`]: eol }),
    ...(kib !== undefined && { 'fs/ext4/mmcblk0p4/lifetime_write_kbytes': kib }),
  };
}

const links: Readonly<Record<string, string>> = {
  'dev/block/179:4': `${card}/block/mmcblk0/mmcblk0p4`,
  'dev/block/179:0': `${card}/block/mmcblk0`,
  [`${card}/block/mmcblk0/device`]: card,
};

/** Removed at the end of the test. */
export function sysTree(t: TestContext, tree: Tree, bootFacts = ''): SensorRoots {
  const root = temporaryDirectory(t);
  const sys = join(root, 'sys');
  for (const [path, content] of Object.entries(tree)) {
    mkdirSync(dirname(join(sys, path)), { recursive: true });
    writeFileSync(join(sys, path), content);
  }
  const hasCard = Object.keys(tree).some((path) => path.startsWith(card));
  for (const [path, target] of hasCard ? Object.entries(links) : []) {
    mkdirSync(dirname(join(sys, path)), { recursive: true });
    symlinkSync(relative(dirname(join(sys, path)), join(sys, target)), join(sys, path));
  }
  if (bootFacts !== '') writeFileSync(join(root, 'boot'), bootFacts);
  return { sys, bootFacts: join(root, 'boot') };
}
