import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ChattyDevice, checksum, DEVICE_ID } from './chatty-device.ts';

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('latin1');
const say = (device: ChattyDevice, line: string): string => text(device.receive(Buffer.from(line, 'latin1'), 0));

test('commands and their answers', () => {
  const rows: readonly (readonly [string, string])[] = [
    ['PING\r\n', 'PONG\r\n'],
    ['ping\n', 'PONG\r\n'],
    ['PING\r', 'PONG\r\n'],
    ['ID?\r\n', `${DEVICE_ID}\r\n`],
    ['SET RATE 500\r\n', 'OK\r\n'],
    ['SET RATE 0\r\n', 'OK\r\n'],
    ['SET RATE 99\r\n', '?\r\n'],
    ['SET RATE 60001\r\n', '?\r\n'],
    ['SET RATE x\r\n', '?\r\n'],
    ['SET RATE -1\r\n', '?\r\n'],
    ['HELLO\r\n', '?\r\n'],
    ['\r\n\r\n', ''],
    ['PING\r\nPING\r\n', 'PONG\r\nPONG\r\n'],
    ['no end', ''],
    ['?\r\n', ''],
    ['$SIM,1*00\r\n', ''],
    [`${'x'.repeat(5_000)}\r\nPING\r\n`, '?\r\nPONG\r\n'],
    ['\0\u00ff\u0080\r\n', '?\r\n'],
  ];
  for (const [line, answer] of rows)
    assert.equal(say(new ChattyDevice(0), line), answer, JSON.stringify(line.slice(0, 20)));
});

test('a command may come in pieces', () => {
  const device = new ChattyDevice(0);
  assert.equal(['P', 'IN', 'G', '\r', '\n'].map((piece) => say(device, piece)).join(''), 'PONG\r\n');
});

test('reports each second with a number, a temperature that changes and a checksum', () => {
  const device = new ChattyDevice(0);
  assert.equal(device.nextMs, 1_000);
  assert.equal(text(device.report(999)), '');
  const lines = [1_000, 2_000, 3_000].map((nowMs) => text(device.report(nowMs)));
  for (const [index, line] of lines.entries()) {
    const parts = /^\$(SIM,00000(\d),TEMP,(\d\d\.\d\d),C)\*([0-9A-F]{2})\r\n$/.exec(line);
    assert.ok(parts, line);
    assert.equal(parts[2], String(index + 1));
    assert.equal(parts[4], checksum(parts[1] ?? ''));
  }
  assert.equal(new Set(lines.map((line) => line.split(',')[3])).size, 3);
});

test('after a long pause there is one report, not a burst', () => {
  const device = new ChattyDevice(0);
  assert.notEqual(text(device.report(1_000_000)), '');
  assert.equal(text(device.report(1_000_000)), '');
  assert.equal(device.nextMs, 1_001_000);
});

test('the rate can be set, and reports turned off', () => {
  const device = new ChattyDevice(0);
  say(device, 'SET RATE 250\r\n');
  assert.equal(device.nextMs, 250);
  say(device, 'SET RATE 0\r\n');
  assert.equal(device.nextMs, undefined);
  assert.equal(text(device.report(1e9)), '');
});

test('any bytes at all: answers stay short, and the device still answers afterwards', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 2_000 }), (noise) => {
      const device = new ChattyDevice(0);
      assert.ok(device.receive(noise, 0).length <= noise.length * 3 + DEVICE_ID.length);
      assert.match(say(device, '\r\nPING\r\n'), /PONG\r\n$/);
    }),
  );
});
