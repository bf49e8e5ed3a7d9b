/** Every configuration key, from its declaration: docs/reference/config.md and systemd/lineside.toml. */
import type { TSchema } from '@sinclair/typebox';
import { limitsOf, type Rules, sectionOf, shown } from '../../scripts/key-text.ts';
import { keys, variableOf } from '../../src/shared/config/config.ts';
import type { Key } from '../../src/shared/config/key.ts';
import { blocks, code, MADE, type Page, plain, table } from './page.ts';

export function configPage(): Page {
  const parts = [...Map.groupBy(keys, sectionOf)].flatMap(([section, own]) => [
    `## ${code(`[${section}]`)}`,
    table(['key', 'default', 'allowed', 'reload', ''], own.map(row)),
  ]);
  const holes = keys.filter(({ schema }) => schema.description.trim() === '').map(({ path }) => path);
  return { text: blocks(MADE, '# Configuration', intro, ...parts), holes };
}

const intro = `The file is TOML, by default ${code('/etc/lineside/lineside.toml')}; [the commented example](../../systemd/lineside.toml) has the
same keys. Each key has a variable that overrides the file: ${code(variableOf('log.max_bytes'))} for ${code('log.max_bytes')}; lists are separated by
commas there. A number with a unit in its name may be written as text with a unit: "1GB", "512KiB" for bytes; "500ms", "10s", "5min", "2h", "7d" for times. A few may be set in the file only, and say so.

**Reload** says what [${code('systemctl reload lineside')}](../how-to/operator/change-configuration.md) does with
a changed key: *live*, it counts at once and the port stays open; *hub*, the hub is started again with it and the line continues;
*restart*, it is named in the journal and counts after ${code('systemctl restart lineside')}.`;

/** systemd/lineside.toml: every key with its default, commented out. */
export function examplePage(): Page {
  const parts = [...Map.groupBy(keys, sectionOf)].map(([section, own]) =>
    [`[${section}]`, own.map(commented).join('\n\n')].join('\n'),
  );
  return { text: blocks(exampleIntro, ...parts), holes: [] };
}

const exampleIntro = `# lineside: every key, with its default. Uncomment the keys that you change; "lineside config check" prints the values in effect.
# An environment variable LINESIDE_SECTION_KEY overrides a key (lists: separated by commas).
# After a change: "systemctl reload lineside". [live]: the change applies at once, the port stays open; [hub]: the hub restarts
# with the change, the line continues. Every other key needs "systemctl restart lineside"; the reload names these keys in the log.`;

function commented({ path, schema }: Key): string {
  const limits = limitsOf(schema);
  const reload = schema['x-reload'] === 'restart' ? '' : ` [${schema['x-reload']}]`;
  const name = path.slice(path.lastIndexOf('.') + 1);
  return `# ${schema.description}${limits === '' ? '' : ` (${limits})`}${reload}\n#${name} = ${shown(schema.default)}`;
}

function row({ path, schema }: Key): string[] {
  const meaning = plain(schema.description) + (schema['x-file-only'] === true ? ' In the file only.' : '');
  return [code(path), code(JSON.stringify(schema.default)), allowed(schema), schema['x-reload'], meaning];
}

function allowed(schema: TSchema): string {
  const { type, minimum, maximum, anyOf, items, minItems, maxItems, enum: choices } = schema as Rules;
  if (choices !== undefined) return choices.map((one) => code(JSON.stringify(one))).join(', ');
  if (anyOf !== undefined) return anyOf.map(allowed).join(' or ');
  if (schema.const !== undefined) return code(JSON.stringify(schema.const));
  if (minimum !== undefined) return `${minimum} to ${maximum}`;
  if (type === 'boolean') return '`true`, `false`';
  if (type !== 'array' || items === undefined) return 'text';
  const of = allowed(items);
  return maxItems === undefined ? `list of ${of}` : `${minItems ?? 0} to ${maxItems} of ${of}`;
}
