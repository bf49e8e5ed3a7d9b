/** The manual pages as the package gets them: one for each command, which Debian's own man reads without a warning. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { pathOf, withSubcommands } from '../../src/cli/command-tree.ts';
import { keys } from '../../src/shared/config/config.ts';
import { program } from './commands.ts';

const root = join(import.meta.dirname, '../..');
const directory = mkdtempSync(join(tmpdir(), 'lineside-man-'));
after(() => rmSync(directory, { recursive: true }));
const groff = ['man', 'groff'].every((name) => spawnSync('sh', ['-c', `command -v ${name}`]).status === 0);

describe('the manual pages', () => {
  before(() => {
    execFileSync(process.execPath, ['--import', 'tsx/esm', join(root, 'scripts/man-pages.ts'), directory], {
      cwd: root,
      env: { ...process.env, SOURCE_DATE_EPOCH: '1700000000' },
    });
  });
  const text = (page: string): string => readFileSync(join(directory, page), 'utf8');

  it('are one for each command, with its options, and the date of the sources', () => {
    const commands = withSubcommands(program());
    const named = commands.map((command) => `lineside ${pathOf(command)}`.trim().replaceAll(' ', '-'));
    assert.deepEqual(readdirSync(join(directory, 'man1')), named.map((name) => `${name}.1`).toSorted());
    for (const [index, command] of commands.entries()) {
      const page = text(`man1/${named[index]}.1`);
      for (const { long } of command.options) assert.ok(page.includes(long?.replaceAll('-', '\\-') ?? ''), long);
    }
    assert.match(text('man1/lineside-log-export.1'), /^\.TH "LINESIDE\\-LOG\\-EXPORT" "1" "2023\\-11\\-14"/m);
  });

  it('have each configuration key under its section', () => {
    const page = text('man5/lineside.toml.5');
    for (const { path } of keys) {
      const [section, name] = [path.slice(0, path.lastIndexOf('.')), path.slice(path.lastIndexOf('.') + 1)];
      const chapter = page.split('.SH ').find((part) => part.startsWith(`"[${section}]"`)) ?? '';
      assert.ok(chapter.includes(`\n\\fB${name}\\fR\n`), path);
    }
  });

  it('are read by man without a warning', { skip: !groff && 'man or groff is not installed' }, () => {
    for (const page of readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((name) =>
      /\.\d$/.test(name),
    )) {
      const args = ['--warnings', '-E', 'UTF-8', '-l', '-Tutf8', '-Z', join(directory, page)];
      const { status, stderr } = spawnSync('man', args, { encoding: 'utf8', stdio: ['ignore', 'ignore', 'pipe'] });
      assert.deepEqual([status, stderr], [0, ''], page);
    }
  });
});
