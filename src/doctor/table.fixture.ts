/** Tables of facts that a check is given, with what it reports; and a box in a directory, as the checks read it. */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { systemClock } from '../shared/base/clock.ts';
import { type Finding, worst } from './check.ts';
import { type CheckContext, configured, machineRoots, readContext } from './check-context.ts';

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

export function put(root: string, path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

/** The configuration with the service's files in `dir`, and the kernel's and the system's trees below it. */
export async function contextIn(dir: string, config: string, over: Partial<CheckContext> = {}): Promise<CheckContext> {
  const own = `[data]\ndir = "${dir}/data"\nruntime_dir = "${dir}/run"\n[auth]\ntokens_file = "${dir}/tokens.json"\n`;
  put(dir, 'lineside.toml', `${config}\n${own}`);
  const found = await readContext({ named: join(dir, 'lineside.toml'), env: {}, clock: systemClock, version: '1.0' });
  return { ...found, ...over };
}

export function rootsIn(dir: string): CheckContext['roots'] {
  const [proc, sys, dev, etc] = ['proc', 'sys', 'dev', 'etc'].map((name) => join(dir, name));
  return { ...machineRoots, proc, sys, dev, etc, boot: [join(dir, 'boot')] } as CheckContext['roots'];
}

/** What a check reports, a line for each finding. */
export async function said(check: Parameters<typeof configured>[0], context: CheckContext): Promise<string> {
  const findings = [...(await configured(check)(context))];
  return findings.map(({ state, found, todo }) => `${state}: ${found} -> ${todo}`).join('\n');
}
