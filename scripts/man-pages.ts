/**
 * Writes the manual pages into a directory: each command's (section 1), and lineside.toml(5) from the configuration keys.
 * scripts/package runs it; the date of the pages is SOURCE_DATE_EPOCH.
 *   node --import tsx/esm scripts/man-pages.ts DIRECTORY
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { commandTree } from '../src/cli/cli.ts';
import { processIo } from '../src/cli/io.ts';
import { addLocalCommands } from '../src/local-commands.ts';
import { keys, variableOf } from '../src/shared/config/config.ts';
import type { Key } from '../src/shared/config/key.ts';
import { limitsOf, sectionOf, shown } from './key-text.ts';
import { commandPages, entry, escaped, type ManIssue, page, section } from './man.ts';

const MS_PER_S = 1000;

function configPage(issue: ManIssue): string {
  const sections = [...Map.groupBy(keys, sectionOf)].map(([name, own]) =>
    section(`[${name}]`, ...own.map((key) => keyEntry(key))),
  );
  return page(
    ['lineside.toml', '5', 'lineside', issue],
    section('NAME', 'lineside.toml \\- configuration of the lineside service'),
    section('SYNOPSIS', '/etc/lineside/lineside.toml'),
    section('DESCRIPTION', escaped(description)),
    ...sections,
    section('SEE ALSO', 'lineside\\-config\\-check(1), lineside\\-config\\-schema(1), lineside(1)'),
  );
}

const description = `The file is TOML. A variable LINESIDE_SECTION_KEY of the environment overrides a key: ${variableOf('log.max_bytes')} overrides log.max_bytes.
Lists are separated by commas in a variable. "lineside config check" prints the values in effect.
"systemctl reload lineside" applies the changed keys that are marked "live" while the port stays open, and those marked "hub" by a restart of the hub.
Every other key needs "systemctl restart lineside".`;

function keyEntry({ path, schema }: Key): string {
  const limits = limitsOf(schema);
  const facts = [
    `Default: ${shown(schema.default)}.`,
    limits === '' ? '' : `Allowed: ${limits}.`,
    schema['x-reload'] === 'restart' ? '' : `Reload: ${schema['x-reload']}.`,
    schema['x-file-only'] === true ? 'In the file only.' : '',
  ];
  return entry(
    path.slice(path.lastIndexOf('.') + 1),
    [schema.description, ...facts].filter((fact) => fact !== '').join(' '),
  );
}

const [directory = 'man'] = process.argv.slice(2);
const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../package.json'), 'utf8')) as {
  version: string;
};
const epochS = Number(process.env['SOURCE_DATE_EPOCH'] ?? Date.now() / MS_PER_S);
const issue = { version, date: new Date(epochS * MS_PER_S).toISOString().slice(0, 'YYYY-MM-DD'.length) };
const parts = { version, local: addLocalCommands, localSocket: () => '' };
const pages = [
  ...commandPages(commandTree(processIo(), parts), issue),
  ['lineside.toml.5', configPage(issue)] as const,
];
for (const [name, text] of pages) {
  const path = join(directory, `man${name.at(-1)}`, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}
