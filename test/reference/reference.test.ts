/**
 * The pages of the reference agree with the sources, and everything in the sources has a description.
 */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { tables } from './alerts-page.ts';
import { commandLines } from './command-lines.ts';
import { faultOf } from './commands.ts';
import { pages } from './pages.ts';

const root = join(import.meta.dirname, '../..');
/** Each has at least so many lines, a picture or a single table fewer: a page that lost its subject does not pass. */
const FEWEST_LINES = 50;
const SMALL = /\.svg$|exit-statuses/;

describe('the reference', () => {
  for (const [file, make] of Object.entries(pages)) {
    it(`${file} is as the sources say`, async () => {
      const { text } = await make();
      assert.ok(text.split('\n').length > (SMALL.test(file) ? 12 : FEWEST_LINES), `${file} has hardly anything in it`);
      const before = readFileSync(join(root, file), 'utf8');
      if (before === text) return;
      assert.fail(
        `${file} is not up to date: run scripts/reference, and commit what it writes.\n${lineOf(before, text)}`,
      );
    });

    it(`${file} describes everything that it names`, async () => {
      const { holes } = await make();
      assert.deepEqual(holes, [], 'describe these where they are declared, then run scripts/reference');
    });
  }

  it('has the alerts of every room', () => {
    const sources = globSync('src/**/*.ts', { cwd: root }).map((file) => readFileSync(join(root, file), 'utf8'));
    const declared = sources.flatMap((text) => text.match(/^export const \w+: readonly Rule</gm) ?? []);
    assert.equal(tables.length, declared.length, 'test/reference/alerts-page.ts lists the tables of alerts');
  });

  it('has no example of a command that the command line would not take', () => {
    const lines = commandLines(readFileSync(join(root, 'docs/reference/cli.md'), 'utf8'));
    assert.ok(lines.length > 40, 'hardly any example is found: is the pattern right?');
    const faults = lines.flatMap(({ words, line }) => {
      const fault = faultOf(words);
      return fault === undefined ? [] : [`${line}: ${fault}`];
    });
    assert.deepEqual(faults, []);
  });
});

/** Where two texts begin to differ. */
function lineOf(before: string, after: string): string {
  const [was, is] = [before.split('\n'), after.split('\n')];
  const at = is.findIndex((line, i) => line !== was[i]);
  const i = at === -1 ? is.length : at;
  return `line ${i + 1}\n  is:        ${was[i] ?? '(the end)'}\n  should be: ${is[i] ?? '(the end)'}`;
}
