import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rawWith, settingsIn } from './terminals-macos.ts';

/** A struct termios of Apple's headers, written out: flag words, c_cc and padding, speeds. */
function termios(iflag: string, oflag: string, cflag: string, lflag: string, speed: string): Buffer {
  const word = (bigEndian: string): string => Buffer.from(bigEndian.padStart(16, '0'), 'hex').reverse().toString('hex');
  const controlCharacters = '04ffff7f171512ff031c1a19110f1316'.padEnd(40, '0').padEnd(48, '0');
  const words = [iflag, oflag, cflag, lflag].map(word).join('');
  return Buffer.from(words + controlCharacters + word(speed).repeat(2), 'hex');
}

// A new terminal: ICRNL|IXON|IMAXBEL..., OPOST|ONLCR, CREAD|CS8|HUPCL, ECHO|ICANON|ISIG|..., 9600 baud.
const fresh = termios('2b02', '3', '4b00', '5cb', '2580');

test('the settings of a terminal of macOS, by the layout and the numbers of its headers', () => {
  assert.equal(fresh.length, 72);
  assert.deepEqual(settingsIn(fresh), { baudRate: 9_600, flowControl: 2 });
  assert.deepEqual(settingsIn(termios('0', '0', '34b00', '0', '1c200')), { baudRate: 115_200, flowControl: 1 });
  assert.deepEqual(settingsIn(termios('0', '0', '4b00', '0', '12c')), { baudRate: 300, flowControl: 0 });
});

test('raw, with the speed and flow control of the port; the rest stays', () => {
  assert.deepEqual(rawWith({ baudRate: 115_200, flowControl: 0 }, fresh), termios('0', '0', '4b00', '0', '1c200'));
  assert.deepEqual(rawWith({ baudRate: 300, flowControl: 1 }, fresh), termios('0', '0', '34b00', '0', '12c'));
  const software = rawWith({ baudRate: 9_600, flowControl: 2 }, termios('0', '0', '34b00', '0', '12c'));
  assert.deepEqual(software, termios('600', '0', '4b00', '0', '2580'));
});
