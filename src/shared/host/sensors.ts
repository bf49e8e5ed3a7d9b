/**
 * Files of the kernel about the machine. Sources: the kernel's documentation of sysfs (thermal, hwmon, mmc, block,
 * ext4), the JEDEC eMMC standard for the life time estimates, Raspberry Pi's for the bits of get_throttled.
 */
import { readdirSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { parseEnv } from 'node:util';
import { readText } from '../base/files.ts';
import type { DiskFacts, SlotFacts, TriState } from './host-facts.ts';

export interface SensorRoots {
  readonly sys: string;
  /** Facts of the early boot: lines KEY=VALUE; only the appliance's image has them. */
  readonly bootFacts: string;
}

export const realRoots: SensorRoots = { sys: '/sys', bootFacts: '/run/lineside-boot' };

/** Drivers of processors' own sensors on PCs; boards of one chip have a thermal zone. */
const processorSensors = new Set(['coretemp', 'k10temp', 'cpu_thermal']);
const processorZones = /^(cpu|soc)\d*[-_]?thermal$|^x86_pkg_temp$/;

/** Degrees of the hottest sensor of the processor. */
export function temperature({ sys }: SensorRoots): number | null {
  const zones = entries(join(sys, 'class/thermal'), /^thermal_zone\d+$/)
    .filter((zone) => processorZones.test(text(join(zone, 'type'))))
    .map((zone) => numberOf(text(join(zone, 'temp'))));
  const monitors = entries(join(sys, 'class/hwmon'), /^hwmon\d+$/)
    .filter((monitor) => processorSensors.has(text(join(monitor, 'name'))))
    .map((monitor) => numberOf(text(join(monitor, 'temp1_input'))));
  const known = [...zones, ...monitors].filter((value) => value !== null);
  return known.length === 0 ? null : Math.round(Math.max(...known) / 100) / 10;
}

export interface Power {
  readonly throttled: TriState;
  readonly underVoltage: TriState;
}

/**
 * Raspberry Pi's own kernel has get_throttled, which reports both. Otherwise the hwmon driver of its firmware reports the voltage
 * if it is built (not in Debian's kernel), and a cooling device that is in use means throttling; one that is not in use
 * means nothing, since the firmware also throttles.
 */
export function power({ sys }: SensorRoots): Power {
  const bits = hexOf(text(join(sys, 'devices/platform/soc/soc:firmware/get_throttled')));
  if (bits !== null) return throttledBits(bits);
  const monitor = entries(join(sys, 'class/hwmon'), /^hwmon\d+$/).find((one) => text(join(one, 'name')) === 'rpi_volt');
  const alarm = monitor === undefined ? null : numberOf(text(join(monitor, 'in0_lcrit_alarm')));
  const isCooled = entries(join(sys, 'class/thermal'), /^cooling_device\d+$/).some(
    (device) => /cpufreq/.test(text(join(device, 'type'))) && (numberOf(text(join(device, 'cur_state'))) ?? 0) > 0,
  );
  return {
    throttled: isCooled ? 'yes' : 'unknown',
    underVoltage: alarm === null ? 'unknown' : alarm === 0 ? 'no' : 'yes',
  };
}

type Wear = Pick<DiskFacts, 'writtenBytes' | 'writtenBytesEver' | 'lifeUsedPercent' | 'reserve'>;

export const unknownWear: Wear = {
  writtenBytes: null,
  writtenBytesEver: null,
  lifeUsedPercent: null,
  reserve: 'unknown',
};
const sectorBytes = 512;

/** `device`: of the file system, as the kernel numbers it (stat's dev). One that is on no block device of its own is unknown. */
export function wear({ sys }: SensorRoots, device: { readonly major: number; readonly minor: number }): Wear {
  let volume: string;
  try {
    volume = realpathSync(join(sys, 'dev/block', `${device.major}:${device.minor}`));
  } catch {
    return unknownWear;
  }
  const disk = text(join(volume, 'partition')) !== '' ? dirname(volume) : volume;
  // The seventh number of a disk's statistics: sectors written since it was found.
  const sectors = numberOf(text(join(disk, 'stat')).split(/\s+/)[6] ?? '');
  const kib = numberOf(text(join(sys, 'fs/ext4', basename(volume), 'lifetime_write_kbytes')));
  return {
    writtenBytes: sectors === null ? null : sectors * sectorBytes,
    writtenBytesEver: kib === null ? null : kib * 1024,
    lifeUsedPercent: lifeUsedOf(text(join(disk, 'device/life_time'))),
    reserve: reserveOf(text(join(disk, 'device/pre_eol_info'))),
  };
}

/** The device that holds a directory, from the dev of its stat (glibc's gnu_dev_major and gnu_dev_minor). */
export function deviceOf(dir: string): { readonly major: number; readonly minor: number } {
  const dev = statSync(dir, { bigint: true }).dev;
  return {
    major: Number(((dev >> 8n) & 0xfffn) | ((dev >> 32n) & ~0xfffn)),
    minor: Number((dev & 0xffn) | ((dev >> 12n) & ~0xffn)),
  };
}

function entries(dir: string, name: RegExp): string[] {
  try {
    return readdirSync(dir)
      .filter((entry) => name.test(entry))
      .map((entry) => join(dir, entry));
  } catch {
    return [];
  }
}

/** '' where it cannot be read: there is none, or its driver has no answer. */
const text = (path: string): string => readText(path).trim();

// Values of the files in our terms; null and 'unknown' if they are not what was expected.

function numberOf(text: string): number | null {
  return /^-?\d+$/.test(text) ? Number(text) : null;
}

function hexOf(text: string): number | null {
  return /^(0x)?[0-9a-f]+$/i.test(text) ? Number.parseInt(text, 16) : null;
}

const underVoltageBit = 1 << 0;
/** Frequency capped, throttled, soft temperature limit. */
const throttledNowBits = (1 << 1) | (1 << 2) | (1 << 3);

/** The lower half is of now, the upper of some time since the boot. */
function throttledBits(bits: number): Power {
  return {
    throttled: (bits & throttledNowBits) === 0 ? 'no' : 'yes',
    underVoltage: (bits & underVoltageBit) === 0 ? 'no' : 'yes',
  };
}

/** "0x01 0x02": of two kinds of memory, in steps of ten percent; 0x0b: more than all of it. 0x00: not reported. */
function lifeUsedOf(text: string): number | null {
  const steps = text.split(/\s+/).map((part) => (/^0x[0-9a-f]+$/i.test(part) ? Number.parseInt(part, 16) : 0));
  const worst = Math.max(0, ...steps.filter((step) => step >= 1 && step <= 11));
  return worst === 0 ? null : worst * 10;
}

const reserves: Readonly<Record<number, DiskFacts['reserve']>> = { 1: 'normal', 2: 'warning', 3: 'urgent' };

function reserveOf(text: string): DiskFacts['reserve'] {
  return reserves[hexOf(text) ?? 0] ?? 'unknown';
}

/** Lines "SLOT=a", "TRYING=yes", "DATA=lost", "FAILED=b". */
export function slot({ bootFacts }: SensorRoots): SlotFacts | null {
  const { SLOT: name, TRYING, DATA, FAILED = '' } = parseEnv(text(bootFacts));
  if (name === undefined) return null;
  return {
    name,
    trying: TRYING === 'yes',
    dataLost: DATA === 'lost',
    updateFailed: FAILED !== '',
  };
}
