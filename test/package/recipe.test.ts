/** Checks of the Debian package without building it: its scripts, and the native modules that go into it. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { test } from 'node:test';

const repository = resolve(import.meta.dirname, '../..');
const text = (path: string) => readFileSync(join(repository, path), 'utf8');
const recipe = text('scripts/package');

/** Packages named in the recipe's table. */
const packed =
  /<<END\n(.*?)\nEND/s
    .exec(recipe)?.[1]
    ?.split('\n')
    .map((row) => row.split(' ', 1)[0] ?? '') ?? [];
/** Wanted for compiling alone. */
const compileTime = new Set(['nan', 'node-addon-api']);

test('every library that stays outside the bundle is packed, with all that it loads', () => {
  const external = [...text('scripts/build').matchAll(/--external:(\S+)/g)].map((match) => match[1] ?? '');
  assert.ok(external.length > 0);
  const wanted = [...external];
  for (const name of wanted) {
    assert.ok(packed.includes(name), name);
    const inner = `node_modules/${name}/node_modules`;
    const { dependencies = {} } = JSON.parse(text(`node_modules/${name}/package.json`));
    for (const dependency of Object.keys(dependencies)) {
      if (compileTime.has(dependency) || wanted.includes(dependency)) continue;
      // A copy of its own goes along with it.
      if (dependency.startsWith('@') && recipe.includes('node_modules/@serialport')) {
        try {
          readdirSync(join(repository, inner, dependency));
          continue;
        } catch {
          // There is none.
        }
      }
      wanted.push(dependency);
    }
  }
  // koffi's library for the processor is an optional package of its own.
  assert.deepEqual(packed.filter((name) => !name.startsWith('@koromix/')).toSorted(), wanted.toSorted());
});

test('maintainer scripts are plain sh, stop at the first failure, and every placeholder is filled in', () => {
  const filled = new Set([...recipe.matchAll(/s\|(@[A-Z]+@)\|/g)].map((match) => match[1]));
  for (const name of ['postinst', 'prerm', 'postrm', 'control']) {
    for (const [placeholder] of text(`scripts/debian/${name}`).matchAll(/@[A-Z]+@/g))
      assert.ok(filled.has(placeholder), placeholder);
    if (name === 'control') continue;
    assert.match(text(`scripts/debian/${name}`), /^#!\/bin\/sh\n(#.*\n)+set -e\n/);
    execFileSync('sh', ['-n', join(repository, 'scripts/debian', name)]);
  }
});
