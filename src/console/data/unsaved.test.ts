import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { clearUnsaved, type TextStorage, Unsaved } from './unsaved.ts';

function storage(maxChars = Number.POSITIVE_INFINITY): TextStorage & { readonly held: Map<string, string> } {
  const held = new Map<string, string>();
  return {
    held,
    getItem: (key) => held.get(key) ?? null,
    setItem(key, value) {
      if (value.length > maxChars) throw new Error('QuotaExceededError');
      held.set(key, value);
    },
    removeItem: (key) => void held.delete(key),
  };
}

describe('unsaved text', () => {
  it('is kept by form until it is forgotten, the newest state of it', () => {
    const held = storage();
    const unsaved = new Unsaved(held, 'anna');
    assert.equal(unsaved.kept('record/a'), undefined);
    assert.ok(unsaved.keep('record/a', { data: '{' }));
    assert.ok(unsaved.keep('record/b', { data: 'other' }));
    assert.ok(unsaved.keep('record/a', { data: '{"a"' }));
    // A page that was loaded again.
    const again = new Unsaved(held, 'anna');
    assert.deepEqual(again.kept('record/a'), { data: '{"a"' });
    assert.deepEqual(again.ids('record/'), ['record/b', 'record/a']);
    assert.deepEqual(again.ids('draft/'), []);
    again.forget('record/a');
    assert.equal(again.kept('record/a'), undefined);
    again.forget('record/b');
    assert.equal(held.held.size, 0);
  });

  it('is never shown to another person, and gone after sign-out', () => {
    const held = storage();
    new Unsaved(held, 'anna').keep('record/a', { data: 'mine' });
    const other = new Unsaved(held, 'bert');
    assert.deepEqual([other.kept('record/a'), other.ids('')], [undefined, []]);
    other.keep('record/b', { data: 'his' });
    assert.equal(new Unsaved(held, 'anna').kept('record/a'), undefined);
    clearUnsaved(held);
    assert.equal(held.held.size, 0);
  });

  it('is bounded: the oldest is dropped; a text that does not fit is not kept, in no older state either', () => {
    const held = storage();
    const unsaved = new Unsaved(held, 'anna');
    for (let one = 0; one < 30; one += 1) unsaved.keep(`f${one}`, { data: 'x' });
    assert.deepEqual([unsaved.ids('').length, unsaved.ids('')[0]], [20, 'f10']);
    assert.ok(unsaved.keep('large', { data: 'x'.repeat(900_000) }));
    assert.ok(unsaved.keep('second', { data: 'x'.repeat(900_000) }));
    unsaved.keep('small', { data: 'x' });
    assert.deepEqual(unsaved.ids(''), ['second', 'small']);
    assert.equal(unsaved.keep('second', { data: 'x'.repeat(1_100_000) }), false);
    assert.deepEqual(unsaved.ids(''), ['small']);
  });

  it('fails without an error if the browser has no storage, or something else is in it', () => {
    const full = new Unsaved(storage(0), 'anna');
    assert.equal(full.keep('a', { data: 'x' }), false);
    const forbidden: TextStorage = {
      getItem: () => assert.fail('forbidden'),
      setItem: () => assert.fail('forbidden'),
      removeItem: () => assert.fail('forbidden'),
    };
    const none = new Unsaved(forbidden, 'anna');
    assert.deepEqual([none.keep('a', {}), none.kept('a'), none.ids('')], [false, undefined, []]);
    clearUnsaved(forbidden);
    const foreign = storage();
    for (const text of [
      '{',
      '[]',
      '3',
      '{"who":"anna"}',
      '{"who":"anna","forms":[3,["a"],["b",{"data":3}],{"c":1}]}',
    ]) {
      foreign.setItem('lineside.unsaved', text);
      const one = new Unsaved(foreign, 'anna');
      assert.deepEqual([one.kept('a'), one.kept('b'), one.ids('')], [undefined, undefined, []], text);
    }
  });
});
