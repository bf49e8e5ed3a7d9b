import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytesOf, echoOf, MAX_PASTE_CHARS, pasteOf } from './typing.ts';

test('Enter and each line of a paste end as chosen, and text is UTF-8', () => {
  const sent = (typed: string, ending: 'cr' | 'lf' | 'crlf'): string =>
    Buffer.from(bytesOf(typed, ending)).toString('latin1');
  assert.equal(sent('a\r', 'cr'), 'a\r');
  assert.equal(sent('a\r', 'lf'), 'a\n');
  assert.equal(sent('a\r', 'crlf'), 'a\r\n');
  assert.equal(sent('a\r\nb\nc\rd', 'lf'), 'a\nb\nc\nd');
  assert.equal(sent('\x03\x1b[A', 'crlf'), '\x03\x1b[A');
  assert.deepEqual([...bytesOf('ü', 'cr')], [0xc3, 0xbc]);
});

test('a paste of several lines or of much text is asked about, one that is too long is refused', () => {
  assert.deepEqual(pasteOf('one line'), { text: 'one line', question: '', fault: '' });
  assert.equal(pasteOf('x'.repeat(1_024)).question, '');
  assert.match(pasteOf('x'.repeat(1_025)).question, /1 line with 1025 characters/);
  for (const two of ['a\nb', 'a\r\nb', 'a\rb']) assert.match(pasteOf(two).question, /2 lines/);
  assert.equal(pasteOf('x'.repeat(MAX_PASTE_CHARS)).fault, '');
  const tooLong = pasteOf('x'.repeat(MAX_PASTE_CHARS + 1));
  assert.match(tooLong.fault, /At most 65536/);
  assert.equal(tooLong.question, '');
});

test('a local echo shows what was typed, and controls no screen', () => {
  assert.equal(echoOf('ab\r'), 'ab\r\n');
  assert.equal(echoOf('\x7f'), '\b \b');
  assert.equal(echoOf('\x03\t'), '^C\t');
  assert.equal(echoOf('\x1b[2J'), '');
  assert.equal(echoOf('a\x1b[2J'), 'a^[[2J');
});
