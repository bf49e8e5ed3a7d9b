/** src/shared/config/reference.md: every configuration key, from the table that the parser goes by. */
import type { TSchema } from '@sinclair/typebox';
import type { Key } from '../../src/shared/config/key.ts';
import { keys, variableOf } from '../../src/shared/config/keys.ts';
import { blocks, code, MADE, type Page, plain, table } from './page.ts';

export function configPage(): Page {
  const sections = new Map<string, Key[]>();
  for (const key of keys) {
    const section = key.path.slice(0, key.path.lastIndexOf('.'));
    sections.set(section, [...(sections.get(section) ?? []), key]);
  }
  const parts = [...sections].flatMap(([section, own]) => [
    `## ${code(`[${section}]`)}`,
    table(['key', 'default', 'allowed', 'reload', ''], own.map(row)),
  ]);
  const holes = keys.filter(({ schema }) => schema.description.trim() === '').map(({ path }) => path);
  return { text: blocks(MADE, '# Configuration', intro, ...parts), holes };
}

const intro = `The file is TOML, by default ${code('/etc/lineside/lineside.toml')}; [the commented example](../../../systemd/lineside.toml) has the
same keys. Each has a variable that goes before the file: ${code(example())} for ${code('log.max_bytes')}; lists are separated by
commas there. A few may be set in the file only, and say so.

**Reload** says what [${code('systemctl reload lineside')}](../../../README.md#changing-the-configuration-of-a-running-service) does with
a changed key: *live*, it counts at once and the port stays open; *hub*, the hub is started again with it and the line goes on;
*restart*, it is named in the journal and counts after ${code('systemctl restart lineside')}.`;

function example(): string {
  const key = keys.find(({ path }) => path === 'log.max_bytes');
  if (key === undefined) throw new Error('log.max_bytes is gone: take another example');
  return variableOf(key);
}

function row({ path, schema, reload, fileOnly }: Key): string[] {
  const meaning = plain(schema.description) + (fileOnly === true ? ' In the file only.' : '');
  return [code(path), code(JSON.stringify(schema.default)), allowed(schema), reload, meaning];
}

interface Rules {
  readonly type?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly anyOf?: readonly TSchema[];
  readonly items?: TSchema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly enum?: readonly string[];
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
