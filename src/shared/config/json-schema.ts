/** The whole configuration as one JSON Schema, for editors and for checks before a box is reached. Pure. */
import { type TObject, type TSchema, Type } from '@sinclair/typebox';
import { keys } from './keys.ts';

interface Section {
  readonly keys: Record<string, TSchema>;
  readonly sections: Map<string, Section>;
}

export function configSchema(): object {
  const top = newSection();
  for (const { path, schema, reload } of keys) {
    const parts = path.split('.');
    let section = top;
    for (const name of parts.slice(0, -1)) {
      const below = section.sections.get(name) ?? newSection();
      section.sections.set(name, below);
      section = below;
    }
    // What a reload does about it; unknown keywords are passed over by validators.
    section.keys[parts.at(-1) ?? ''] = { ...schema, 'x-reload': reload };
  }
  return { $schema: 'https://json-schema.org/draft/2020-12/schema', title: 'lineside.toml', ...asObject(top) };
}

function newSection(): Section {
  return { keys: {}, sections: new Map() };
}

function asObject({ keys: own, sections }: Section): TObject {
  const all = { ...own };
  for (const [name, section] of sections) all[name] = asObject(section);
  return Type.Partial(Type.Object(all, { additionalProperties: false }));
}
