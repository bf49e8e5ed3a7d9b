import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { chargeOf, READ_BUDGET_BYTES, READER_ALLOWANCE_BYTES, ReadBudget } from './readers.ts';

test('what is within the allowance of a reader costs nothing, and nothing costs more than there is', () => {
  assert.equal(chargeOf(READER_ALLOWANCE_BYTES), 0);
  assert.ok(chargeOf(READER_ALLOWANCE_BYTES + 1) > READER_ALLOWANCE_BYTES);
  assert.equal(chargeOf(Number.MAX_SAFE_INTEGER), READ_BUDGET_BYTES);
});

test('readers that wait are served in turn, also when a later one would fit', () => {
  const budget = new ReadBudget();
  const served: string[] = [];
  assert.ok(budget.take(READ_BUDGET_BYTES - 10));
  budget.wait(20, () => served.push('large'));
  budget.wait(5, () => served.push('small'));
  assert.equal(budget.take(1), false, 'no other goes before those that wait');
  assert.equal(budget.waitingReaders, 2);
  assert.deepEqual(served, []);
  budget.give(10);
  assert.deepEqual(served, ['large']);
  budget.give(20);
  assert.deepEqual(served, ['large', 'small']);
});

test('a reader that leaves while it waits makes room for the next', () => {
  const budget = new ReadBudget();
  const served: string[] = [];
  assert.ok(budget.take(READ_BUDGET_BYTES - 10));
  const leave = budget.wait(20, () => served.push('large'));
  budget.wait(5, () => served.push('small'));
  leave();
  assert.deepEqual(served, ['small']);
});

test('never more is taken than there is, and all of it comes back', () => {
  const step = fc.record({ bytes: fc.integer({ min: 1, max: READ_BUDGET_BYTES }), give: fc.boolean() });
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const budget = new ReadBudget();
      const held: number[] = [];
      const inAll = (): number => held.reduce((sum, bytes) => sum + bytes, 0);
      for (const { bytes, give } of steps) {
        if (give) budget.give(held.shift() ?? 0);
        else if (budget.take(bytes)) held.push(bytes);
        else budget.wait(bytes, () => void held.push(bytes));
        assert.ok(inAll() <= READ_BUDGET_BYTES);
        assert.equal(budget.usedBytes, inAll());
      }
      while (held.length > 0) budget.give(held.shift() ?? 0);
      assert.ok(budget.take(READ_BUDGET_BYTES));
    }),
  );
});
