import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LinesideError } from '../../../shared/base/errors.ts';
import { openError } from './open-error.ts';

const system = (code: string): Error => Object.assign(new Error(`${code}: open`), { code });
const rows: readonly (readonly [unknown, string])[] = [
  [system('ENOENT'), 'PORT_NOT_FOUND'],
  [system('ENXIO'), 'PORT_NOT_FOUND'],
  [system('ENODEV'), 'PORT_NOT_FOUND'],
  [system('EACCES'), 'PORT_PERMISSION'],
  [system('EPERM'), 'PORT_PERMISSION'],
  [system('EBUSY'), 'PORT_BUSY'],
  [system('ENOTTY'), 'PORT_IO'],
  [system('EIO'), 'PORT_IO'],
  [new Error('Error: No such file or directory, cannot open /dev/x'), 'PORT_NOT_FOUND'],
  [new Error('Error: Permission denied, cannot open /dev/x'), 'PORT_PERMISSION'],
  [new Error('Error: Is a directory, cannot open /dev/x'), 'PORT_IO'],
  [new Error('Error: Inappropriate ioctl for device setting custom baud rate of 9600'), 'PORT_IO'],
  [new Error('Error Resource temporarily unavailable Cannot lock port'), 'PORT_BUSY'],
  [new Error('something new'), 'PORT_IO'],
  ['not even an error', 'PORT_IO'],
];

for (const [thrown, code] of rows)
  test(`${String(thrown)} is ${code}`, () => {
    const error = openError('/dev/x', thrown);
    assert.equal(error.code, code);
    assert.match(error.message, /\/dev\/x/);
  });

test('says who holds the port, and what to do about a permission', () => {
  assert.match(openError('/dev/x', system('EBUSY'), 'process 12 (minicom)').message, /process 12 \(minicom\) holds it/);
  assert.match(openError('/dev/x', system('EACCES')).hint, /dialout/);
});

test('an error of the catalogue stays what it is', () => {
  const error = new LinesideError('SETTING_REFUSED', 'x');
  assert.equal(openError('/dev/x', error), error);
});
