import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { test } from 'node:test';
import { deviceOf, power, slot, temperature, wear } from './sensors.ts';
import { mmc, pc, pi4, piOwnKernel, piVoltage, sysTree, type Tree } from './sys-tree.fixture.ts';

const throttledFile = 'devices/platform/soc/soc:firmware/get_throttled';

test('the temperature is that of the hottest sensor of the processor, and of nothing else', (t) => {
  const table: readonly (readonly [Tree, number | null])[] = [
    [pi4, 48.7],
    [pc, 63],
    [{ ...pi4, 'class/thermal/thermal_zone0/temp': '-4200\n', 'class/hwmon/hwmon0/temp1_input': '' }, -4.2],
    [{ 'class/thermal/thermal_zone0/type': 'acpitz\n', 'class/thermal/thermal_zone0/temp': '90000\n' }, null],
    [{ 'class/thermal/thermal_zone0/type': 'cpu-thermal\n', 'class/thermal/thermal_zone0/temp': 'nonsense\n' }, null],
    [{}, null],
  ];
  for (const [tree, degrees] of table) assert.equal(temperature(sysTree(t, tree)), degrees);
});

test('voltage and throttling are known only where the kernel reports them: silence is never "no"', (t) => {
  const both = (underVoltage: string, throttled: string): object => ({ underVoltage, throttled });
  const table: readonly (readonly [Tree, object])[] = [
    [{}, both('unknown', 'unknown')],
    [pc, both('unknown', 'unknown')],
    [pi4, both('unknown', 'unknown')],
    [{ ...pi4, 'class/thermal/cooling_device0/cur_state': '2\n' }, both('unknown', 'yes')],
    [piVoltage, both('no', 'unknown')],
    [{ ...piVoltage, 'class/hwmon/hwmon1/in0_lcrit_alarm': '1\n' }, both('yes', 'unknown')],
    [{ ...piVoltage, 'class/hwmon/hwmon1/in0_lcrit_alarm': '' }, both('unknown', 'unknown')],
    [piOwnKernel, both('no', 'no')],
    [{ ...pi4, [throttledFile]: '50005\n' }, both('yes', 'yes')],
    [{ ...pi4, [throttledFile]: '50000\n' }, both('no', 'no')],
    [{ ...pi4, [throttledFile]: '8\n' }, both('no', 'yes')],
    [{ ...pi4, [throttledFile]: '1\n' }, both('yes', 'no')],
    [{ ...pi4, [throttledFile]: 'garbled\n' }, both('unknown', 'unknown')],
  ];
  for (const [tree, reported] of table) assert.deepEqual(power(sysTree(t, tree)), reported, JSON.stringify(tree));
});

test('the reports of the card: bytes written, and wear if it is eMMC', (t) => {
  const of = (files: Parameters<typeof mmc>[0], minor = 4): object =>
    wear(sysTree(t, mmc(files)), { major: 179, minor });
  const written = 2_345_678 * 512;
  const silent = { writtenBytes: written, writtenBytesEver: null, lifeUsedPercent: null, reserve: 'unknown' };
  assert.deepEqual(of({}), silent);
  assert.deepEqual(of({}, 0), silent, 'a file system on the whole card');
  assert.deepEqual(of({ life: '0x01 0x03\n', eol: '0x01\n', kib: '2048\n' }), {
    writtenBytes: written,
    writtenBytesEver: 2_097_152,
    lifeUsedPercent: 30,
    reserve: 'normal',
  });
  const wears: readonly (readonly [string, string, number | null, string])[] = [
    ['0x0b 0x01', '0x03', 110, 'urgent'],
    ['0x00 0x00', '0x00', null, 'unknown'],
    ['0x0a', '0x02', 100, 'warning'],
    ['rubbish', 'rubbish', null, 'unknown'],
    ['0xff 0x02', '0x09', 20, 'unknown'],
  ];
  for (const [life, eol, lifeUsedPercent, reserve] of wears) {
    assert.deepEqual(of({ life, eol }), { ...silent, lifeUsedPercent, reserve }, life);
  }
  const nowhere = wear(sysTree(t, {}), { major: 0, minor: 42 });
  assert.deepEqual(nowhere, { ...silent, writtenBytes: null });
});

test('a directory is on the device that its stat names', () => {
  const { major, minor } = deviceOf('/');
  const dev = statSync('/').dev;
  assert.equal((major << 8) | (minor & 0xff) | ((minor & ~0xff) << 12), dev);
});

test('the slot is what the early boot has left; there is none without it', (t) => {
  assert.equal(slot(sysTree(t, {})), null);
  assert.equal(slot(sysTree(t, {}, 'nonsense\n')), null);
  assert.deepEqual(slot(sysTree(t, {}, 'SLOT=a\nTRYING=no\n')), {
    name: 'a',
    trying: false,
    dataLost: false,
    updateFailed: false,
  });
  assert.deepEqual(slot(sysTree(t, {}, 'SLOT=b\nTRYING=yes\nFAILED=\nDATA=lost\n')), {
    name: 'b',
    trying: true,
    dataLost: true,
    updateFailed: false,
  });
  assert.equal(slot(sysTree(t, {}, 'SLOT=a\nTRYING=no\nFAILED=b\n'))?.updateFailed, true);
});
