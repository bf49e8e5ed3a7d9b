import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { correctionsOf, type Now } from './corrections.ts';

test('every entry that was sent gets its own correction, however often the clock was stepped in between', async () => {
  const steps = fc.uniqueArray(fc.integer({ min: 1, max: 100_000 }), { maxLength: 6 });
  const ranges = fc.uniqueArray(fc.integer({ min: 1, max: 100_000 }), { minLength: 2, maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(steps, ranges, async (some, ends) => {
      const sorted = ends.toSorted((a, b) => a - b);
      const pairs = sorted.flatMap((first, i) => (i % 2 === 0 ? [[first, sorted[i + 1] ?? first] as const] : []));
      // Each step is by another amount.
      const truth = (id: number): number => some.filter((one) => one <= id).reduce((sum, one) => sum + one, 7);
      let queries = 0;
      const found = await correctionsOf(pairs, async (id) => {
        queries += 1;
        return { correctionMs: truth(id) };
      });
      for (const [first, last] of pairs) {
        for (const id of [
          first,
          last,
          ...some.filter((one) => one > first && one <= last).flatMap((one) => [one - 1, one]),
        ]) {
          const expected = found.filter((one) => one.firstId <= id && id <= one.lastId);
          assert.deepEqual(
            expected.map(({ correctionMs }) => correctionMs),
            [truth(id)],
            `id ${id}`,
          );
        }
      }
      const isSent = (id: number): boolean => pairs.some(([first, last]) => first <= id && id <= last);
      assert.ok(found.every(({ firstId, lastId }) => isSent(firstId) && isSent(lastId)));
      assert.ok(queries <= 500);
    }),
  );
});

const rows: readonly [what: string, now: (id: number) => Now, expected: number[]][] = [
  ['nothing is known: its boot is over', () => undefined, []],
  ['the time was right all the same', () => ({ correctionMs: 0 }), [0]],
  ['its beginning was removed by retention', (id) => (id < 50 ? undefined : { correctionMs: 9 }), [9]],
];
for (const [what, now, expected] of rows) {
  test(what, async () => {
    const found = await correctionsOf([[1, 100]], async (id) => now(id));
    assert.deepEqual(
      found,
      expected.map((correctionMs) => ({ firstId: 1, lastId: 100, correctionMs })),
    );
  });
}

test('whatever the log says, so many questions and no more', async () => {
  let queries = 0;
  const ranges = Array.from({ length: 64 }, (_, n) => [n * 1e9 + 1, (n + 1) * 1e9] as const);
  const found = await correctionsOf(ranges, async () => ({ correctionMs: queries++ }));
  assert.ok(queries < 700, `${queries}`);
  assert.ok(found.length < 700 && found.length >= 64);
});
