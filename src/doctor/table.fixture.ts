/** A table of facts that a check is given, and what it reports. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Finding, worst } from './check.ts';

type Row = readonly [what: string, findings: () => Iterable<Finding>, state: string, says: RegExp];

export function table(check: string, rows: readonly Row[]): void {
  describe(`the check of ${check}`, () => {
    for (const [what, findings, state, says] of rows) {
      it(`is ${state} for ${what}`, () => {
        const all = [...findings()];
        assert.equal(worst(all), state, JSON.stringify(all));
        assert.match(all.map(({ found, todo }) => `${found} -> ${todo}`).join('\n'), says);
        for (const { state: one, todo } of all)
          if (one === 'failed' || one === 'warning') assert.notEqual(todo, '', 'the remedy is missing');
      });
    }
  });
}

/** The same of one judge: each row says what is other than in the good state. */
export function judged<Facts>(
  check: string,
  judge: (facts: Facts) => Iterable<Finding>,
  good: NoInfer<Facts>,
  rows: readonly (readonly [what: string, other: Partial<NoInfer<Facts>>, state: string, says: RegExp])[],
): void {
  table(
    check,
    rows.map(([what, other, state, says]) => [what, () => judge({ ...good, ...other }), state, says]),
  );
}
