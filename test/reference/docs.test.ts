/** Everything that the documentation names exists: commands, configuration keys, metrics, journal lines, files, places to jump to. */
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, it } from 'node:test';
import { pathOf, withSubcommands } from '../../src/cli/command-tree.ts';
import { keys } from '../../src/shared/config/config.ts';
import { boards } from '../image/board-list.ts';
import { commandLines } from './command-lines.ts';
import { faultOf, program } from './commands.ts';
import { listedMetrics } from './metrics-page.ts';
import { pages as generated } from './pages.ts';

const root = join(import.meta.dirname, '../..');
const read = (file: string): string => readFileSync(join(root, file), 'utf8');
const pages = [
  'README.md',
  ...globSync('{CHANGELOG,CONTRIBUTING,SECURITY}.md', { cwd: root }),
  ...globSync('docs/**/*.md', { cwd: root }),
];
const written = pages.filter((file) => !Object.hasOwn(generated, file));
/** A page is read in one go; README is the way to the others. */
const MOST_LINES = 400;
const MOST_README_LINES = 200;

const all = written.map(read).join('\n');
const prose = withoutBlocks(all);
const commands = new Set(withSubcommands(program()).map(pathOf));
const quoted = [...prose.matchAll(/`([^`\n]+)`/g)].map(([, text = '']) => text);

describe('the documentation', () => {
  it('shows no command that the command line would not take', () => {
    const shown = commandLines(all);
    const inText = quoted.filter(
      (text) => /^(?:sudo )?(?:scripts\/)?lineside [a-z]/.test(text) && !/[.]{3}/.test(text),
    );
    const named = commandLines(inText.map((text) => `    ${text}`).join('\n'));
    assert.ok(shown.length + named.length > 80, 'hardly any command is found: is the pattern right?');
    // In a sentence a command may stand for itself, without its arguments.
    const checked = [...shown, ...named.filter(({ words }) => !commands.has(words.join(' ')))];
    assert.deepEqual(checked.flatMap(faultIn), []);
  });

  it('names the boards whose device trees are on the card, and no other', () => {
    const rows = read('docs/reference/boards.md').matchAll(/^\| (Raspberry Pi .*?) \|/gm);
    const names = boards.map(({ name }) => name);
    assert.deepEqual(
      [...rows].map(([, name]) => name),
      names,
    );
    const [, shown = ''] = /^\*\*Boards:\*\* Raspberry Pi (.*?) by the SD-card image/ms.exec(read('README.md')) ?? [];
    assert.deepEqual(
      shown.split(/, | and /),
      names.map((name) => name.replaceAll(/^Raspberry Pi | on its .*$/g, '')),
    );
  });

  it('names no configuration key that does not exist', () => {
    const known = new Set(keys.map(({ path }) => path));
    const sections = new Set(keys.map(({ path }) => path.split('.')[0]));
    const named = quoted.flatMap((text) => /^([a-z]+(?:\.[a-z_]+)+)(?: = .*)?$/.exec(text)?.[1] ?? []);
    const meant = named.filter((path) => sections.has(path.split('.')[0]) && !notKeys.has(path) && !isFile(path));
    assert.ok(meant.length > 30, 'hardly any key is named: is the pattern right?');
    assert.deepEqual(
      meant.filter((path) => !known.has(path)),
      [],
    );
  });

  it('shows configuration that the service would take', () => {
    const known = new Set(keys.map(({ path }) => path));
    const shown = tomlKeys(all).filter((path) => !isSetup(path));
    assert.ok(shown.length > 5, 'hardly any configuration is shown: is the pattern right?');
    assert.deepEqual(
      shown.filter((path) => !known.has(path)),
      [],
    );
  });

  it('names no metric that is not served', () => {
    const served = new Set(listedMetrics().map(({ name }) => name));
    const named = [...all.matchAll(/\blineside_[a-z0-9_]+\*?/g)].map(([name]) => name);
    const ofHistogram = (name: string): boolean => served.has(name.replace(/_(?:bucket|sum|count)$/, ''));
    const exists = (name: string): boolean =>
      name.endsWith('*')
        ? [...served].some((one) => one.startsWith(name.slice(0, -1)))
        : served.has(name) || ofHistogram(name);
    assert.deepEqual(
      named.filter((name) => !exists(name) && !notMetrics.test(name)),
      [],
    );
  });

  it('names no script, file, npm command or campaign that is not there', () => {
    const files = [...all.matchAll(/(?<![\w/.-])(?:scripts|image|systemd|proto|src|test)\/[\w./-]*\w/g)].map(String);
    assert.ok(files.length > 30, 'hardly any file is named: is the pattern right?');
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: object };
    const runs = [...all.matchAll(/npm run ([a-z]+)(?: -- ([a-z]+))?/g)];
    const lacking = runs.filter(([, script = '', campaign]) => {
      if (!Object.hasOwn(scripts, script)) return true;
      if (campaign === undefined) return false;
      const source = readFileSync(join(root, `test/${script}/${script}.ts`), 'utf8');
      return !new RegExp(`^ *['"]?${campaign}['"]?[:,(]|^ \\* +${campaign} `, 'm').test(source);
    });
    assert.deepEqual([...files.filter((file) => !existsSync(join(root, file))), ...lacking.map(String)], []);
  });

  it('explains lines of the journal that are written', () => {
    const sources = globSync('src/**/*.ts', { cwd: root }).map((file) => readFileSync(join(root, file), 'utf8'));
    const rows = [...read('docs/reference/journal.md').matchAll(/^\| (`.*?) \|/gm)].map(([, cell = '']) => cell);
    const lines = rows.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, line = '']) => line));
    assert.ok(lines.length > 10, 'hardly any line is explained: is the pattern right?');
    const words = lines.map((line) => line.replace(/ \w+=.*$/, ''));
    assert.deepEqual(
      words.filter((one) => !sources.some((text) => text.includes(one))),
      [],
    );
  });

  for (const file of pages) {
    it(`${file} links only to what exists`, () => {
      assert.deepEqual(
        linksOf(file).filter((link) => !leads(file, link)),
        [],
      );
    });
  }

  it('has every page within reach of the README', () => {
    const reached = new Set(['README.md']);
    for (const file of reached) {
      for (const link of linksOf(file)) reached.add(normalize(join(dirname(file), link.split('#')[0] ?? '')));
    }
    assert.deepEqual(
      pages.filter((file) => !reached.has(file)),
      [],
    );
  });

  it('has no page that is too long to read', () => {
    const lengths = written.map((file) => ({ file, lines: read(file).split('\n').length - 1 }));
    assert.deepEqual(
      lengths.filter(({ file, lines }) => lines > (file === 'README.md' ? MOST_README_LINES : MOST_LINES)),
      [],
    );
  });
});

/** Dictionaries, files, credentials, an option of gRPC that look like keys. */
const notKeys: ReadonlySet<string> = new Set([
  'device.ports',
  'device.line',
  'upstream.position',
  'upstream.token',
  'upstream.py',
  'grpc.ssl_target_name_override',
]);
/** Of the package's file names. */
const notMetrics = /^lineside_\d|^lineside_VERSION/;

function isFile(path: string): boolean {
  return (
    /\.(?:db|sock|key|toml|log|pem|crt|json)$/.test(path) &&
    !existsSync(join(root, path)) &&
    !keys.some((key) => key.path === path)
  );
}

/** setup.toml of the card has sections of its own. */
function isSetup(path: string): boolean {
  return !keys.some((key) => key.path.startsWith(`${path.split('.')[0]}.`));
}

function faultIn({ words, line }: { words: readonly string[]; line: string }): string[] {
  const fault = faultOf(words);
  return fault === undefined ? [] : [`${line}: ${fault}`];
}

/** "grpc.listen" of every block of TOML. */
function tomlKeys(text: string): string[] {
  return [...text.matchAll(/^ *```toml\n([\s\S]*?)^ *```$/gm)].flatMap(([, block = '']) => {
    let section = '';
    return block.split('\n').flatMap((line) => {
      section = /^\s*\[+([a-z_.]+)\]+/.exec(line)?.[1] ?? section;
      const key = /^\s*([a-z_]+) *=/.exec(line)?.[1];
      return key === undefined ? [] : [`${section}.${key}`];
    });
  });
}

function withoutBlocks(markdown: string): string {
  return markdown.replaceAll(/^ *```[\s\S]*?^ *```$/gm, '');
}

/** Links of a page to files of the repository, images too. */
function linksOf(page: string): string[] {
  if (!page.endsWith('.md') || !existsSync(join(root, page))) return [];
  const links = [...withoutBlocks(read(page)).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link);
  return links.filter((link) => !/^(?:https?|mailto):/.test(link));
}

/** Whether a link of a page leads to a file of the repository, and to a heading of it. */
function leads(page: string, link: string): boolean {
  const [path = '', anchor] = link.split('#');
  const file = path === '' ? page : join(dirname(page), path);
  if (!existsSync(join(root, file))) return false;
  return anchor === undefined || anchorsOf(read(file)).has(anchor);
}

/** As GitHub makes them of headings. */
function anchorsOf(text: string): Set<string> {
  const headings = [...withoutBlocks(text).matchAll(/^#+ (.*)$/gm)];
  return new Set(
    headings.map(([, title = '']) =>
      title
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );
}
