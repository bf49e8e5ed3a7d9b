import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deviceNumber, driverOf, isPtySlave, isTerminalOnly } from './sysfs.ts';

const table = `/dev/tty             /dev/tty        5       0 system:/dev/tty
ttyAMA               /dev/ttyAMA   204 64-77 serial
serial               /dev/ttyS       4 64-95 serial
pty_slave            /dev/pts      136 0-1048575 pty:slave
usbserial            /dev/ttyUSB   188 0-511 serial
unknown              /dev/tty        4 1-63 console
broken line
`;

test('the driver of a device number', () => {
  const rows: readonly (readonly [number, number, string])[] = [
    [204, 64, 'ttyAMA'],
    [204, 78, ''],
    [4, 64, 'serial'],
    [4, 63, 'unknown'],
    [136, 100_000, 'pty_slave'],
    [188, 0, 'usbserial'],
    [5, 0, '/dev/tty'],
    [9, 9, ''],
  ];
  for (const [major, minor, driver] of rows) assert.equal(driverOf(table, major, minor), driver);
  assert.equal(driverOf('', 4, 64), '');
});

test('device numbers beyond eight bits come apart', () => {
  // (minor & 0xff) | (major & 0xfff) << 8 | (minor & 0xfff00) << 12
  assert.deepEqual(deviceNumber(136 * 256 + 7), { major: 136, minor: 7 });
  assert.deepEqual(deviceNumber(0x0010_8801), { major: 136, minor: 257 });
  assert.deepEqual(deviceNumber(0xfff8_88ff), { major: 0x888, minor: 0xf_ffff });
});

test('distinguishes a PTY from a terminal that is no port', () => {
  assert.ok(isPtySlave({ major: 136, minor: 0 }) && isPtySlave({ major: 143, minor: 9 }));
  assert.ok(!isPtySlave({ major: 128, minor: 0 }) && !isPtySlave({ major: 144, minor: 0 }));
  for (const [major, minor] of [
    [4, 0],
    [4, 63],
    [5, 0],
    [5, 1],
    [5, 2],
  ] as const)
    assert.ok(isTerminalOnly({ major, minor }));
  for (const [major, minor] of [
    [4, 64],
    [204, 64],
    [188, 0],
  ] as const)
    assert.ok(!isTerminalOnly({ major, minor }));
});
