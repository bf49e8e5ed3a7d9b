import assert from 'node:assert/strict';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';
import { readSlots, writeSlots } from './boot-partition.ts';
import { onTrial, parseSlots, renderSlots, type SlotState, settled } from './slots.ts';

const table = join(import.meta.dirname, '../../../test/appliance/slot-states.json');
const { states } = JSON.parse(readFileSync(table, 'utf8')) as {
  readonly states: readonly Readonly<Record<'name' | 'text' | 'after', string>>[];
};

function every(): SlotState[] {
  const trials = (['a', 'b'] as const).flatMap((good) =>
    Array.from({ length: 10 }, (_, left) => ({ ...onTrial(good), left })),
  );
  return [settled('a'), settled('b'), { ...settled('a'), failed: 'b' }, { ...settled('b'), failed: 'a' }, ...trials];
}

test('reads the state that the initramfs writes, and writes it in the same bytes', () => {
  for (const { name, text, after } of states) {
    const state = parseSlots(after);
    if (after !== text) assert.equal(state && renderSlots(state), after, name);
  }
  assert.equal(renderSlots(onTrial('a')), states.find(({ name }) => /three starts left/.test(name))?.text);
});

test('every state that is written is 64 bytes, is read back, and ends in a line of its own', () => {
  for (const state of every()) {
    const text = renderSlots(state);
    assert.equal(Buffer.byteLength(text), 64);
    assert.deepEqual(parseSlots(text), state);
    assert.match(text, new RegExp(`^os_prefix=${state.trying ?? state.good}/$`, 'm'));
  }
});

test('a file with one byte changed is another state or none, and never one that starts a slot that was not named', () => {
  const whole = renderSlots(onTrial('a'));
  for (let at = 0; at < whole.length; at++) {
    for (const byte of ['\0', ' ', 'a', 'b', '-', '0', '9', '\n', 'x']) {
      const read = parseSlots(whole.slice(0, at) + byte + whole.slice(at + 1));
      // The tries left may be another number: all else holds together.
      if (read !== undefined) assert.deepEqual({ ...read, left: 3 }, onTrial('a'), `${JSON.stringify(byte)} at ${at}`);
    }
  }
});

test('slot.txt is overwritten where it lies', (t) => {
  const dir = temporaryDirectory(t);
  const path = join(dir, 'slot.txt');
  writeFileSync(path, renderSlots(settled('a')));
  const { ino } = statSync(path);
  writeSlots(dir, onTrial('a'));
  assert.equal(statSync(path).ino, ino);
  assert.deepEqual(readSlots(dir), onTrial('a'));
});

test('a machine without slots, and a file that says nothing, are said', (t) => {
  const dir = temporaryDirectory(t);
  const refused = (code: string, message: RegExp): void => assert.throws(() => readSlots(dir), { code, message });
  refused('UNSUPPORTED', /has no slots/);
  writeFileSync(join(dir, 'slot.txt'), '\0'.repeat(64));
  refused('NOT_READY', /does not say/);
});
