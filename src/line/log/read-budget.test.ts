import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import { chargeOf, READ_BUDGET_BYTES, READER_ALLOWANCE_BYTES, ReadBudget, STALLED_MS } from './readers.ts';

test('reads within the allowance of a reader cost nothing, and nothing costs more than there is', () => {
  assert.equal(chargeOf(READER_ALLOWANCE_BYTES), 0);
  assert.ok(chargeOf(READER_ALLOWANCE_BYTES + 1) > READER_ALLOWANCE_BYTES);
  assert.equal(chargeOf(Number.MAX_SAFE_INTEGER), READ_BUDGET_BYTES);
});

test('readers that wait are served in turn, also when a later one would fit', () => {
  const budget = new ReadBudget(new FakeClock());
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
  const budget = new ReadBudget(new FakeClock());
  const served: string[] = [];
  assert.ok(budget.take(READ_BUDGET_BYTES - 10));
  const leave = budget.wait(20, () => served.push('large'));
  budget.wait(5, () => served.push('small'));
  leave();
  assert.deepEqual(served, ['small']);
});

test('a reader whose client takes nothing is ended when others have to wait, and not before', () => {
  const clock = new FakeClock();
  const budget = new ReadBudget(clock);
  const events: string[] = [];
  const holder = (name: string, bytes: number) => ({
    endStalled: () => {
      events.push(`${name} ended`);
      budget.give(bytes);
    },
  });
  assert.ok(budget.take(READ_BUDGET_BYTES));
  const busy = holder('busy', 10);
  budget.handedOut(holder('stalled', READ_BUDGET_BYTES - 10));
  budget.handedOut(busy);
  clock.advance(2 * STALLED_MS);
  assert.equal(events.length, 0, 'no reader waits for it');
  budget.handedOut(busy);
  budget.wait(20, () => events.push('served'));
  clock.advance(0);
  assert.deepEqual(events, ['stalled ended', 'served']);
  clock.advance(2 * STALLED_MS);
  assert.equal(budget.stalledReaders, 1);
  budget.wait(READ_BUDGET_BYTES, () => {});
  budget.taken(busy);
  clock.advance(STALLED_MS);
  assert.equal(budget.stalledReaders, 1, 'the other client took what it was handed');
});

test('never more is taken than there is, and all of it comes back', () => {
  const step = fc.record({ bytes: fc.integer({ min: 1, max: READ_BUDGET_BYTES }), give: fc.boolean() });
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const budget = new ReadBudget(new FakeClock());
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
