import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { differences } from './differences.ts';

describe('two changes of one record', () => {
  const before = { name: 'Hall', floor: 1, place: { x: 1, y: 2 }, tags: ['a'] };

  it('are shown field by field: who changed what, and where both changed the same', () => {
    const theirs = { name: 'Office', floor: 1, place: { x: 5, y: 2 }, tags: ['a', 'b'] };
    const mine = { name: 'Lab', floor: 2, place: { x: 1, y: 2 }, heated: true, tags: ['a', 'b'] };
    assert.deepEqual(
      differences(before, theirs, mine).map((one) => Object.values(one)),
      [
        ['name', '"Hall"', '"Office"', '"Lab"', true],
        ['floor', '1', '1', '2', false],
        ['place › x', '1', '5', '1', false],
        ['tags', '["a"]', '["a","b"]', '["a","b"]', false],
        ['heated', '', '', 'true', false],
      ],
    );
  });

  it('have no difference if nothing changed; a removed field is empty; an unknown version makes each difference one of both', () => {
    assert.deepEqual(differences(before, { ...before }, before), []);
    const { floor: _, ...rest } = before;
    assert.deepEqual(differences(before, rest, before), [
      { field: 'floor', before: '1', theirs: '', mine: '1', isConflict: false },
    ]);
    const unknown = differences(undefined, { floor: 1 }, { floor: 2 });
    assert.deepEqual(unknown, [{ field: 'floor', before: '', theirs: '1', mine: '2', isConflict: true }]);
    assert.deepEqual(differences(before, before, undefined).length, 5);
  });

  it('are bounded in number and depth', () => {
    const wide = Object.fromEntries(Array.from({ length: 1_000 }, (_, one) => [`f${one}`, one]));
    assert.equal(differences({}, {}, wide).length, 200);
    const deep: unknown = JSON.parse(`${'{"a":'.repeat(60)}1${'}'.repeat(60)}`);
    assert.equal(differences({}, {}, deep)[0]?.field.split(' › ').length, 8);
  });
});
