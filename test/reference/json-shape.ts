/** How the reference writes a JSON Schema: a type in a few words, the fields of an object as rows. Pure. */
import { code, plain } from './page.ts';

export interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

export function nameOf({ $ref }: Schema): string | undefined {
  return $ref?.split('/').at(-1);
}

export function linkOf(schema: Schema): string {
  const name = nameOf(schema) ?? '';
  return `[${name}](#${name.toLowerCase()})`;
}

/** "string", "list of Record", "integer, 1 to 500". */
export function shapeOf(schema: Schema): string {
  const { items, minimum, maximum, default: usual } = schema;
  if (nameOf(schema) !== undefined) return linkOf(schema);
  const either = schema.anyOf ?? schema.oneOf;
  if (either !== undefined && schema.type === undefined) return either.map(shapeOf).join(' or ');
  if (schema.enum !== undefined) return schema.enum.map((one) => code(JSON.stringify(one))).join(', ');
  if (schema.const !== undefined) return code(JSON.stringify(schema.const));
  const paged = schema.properties?.items;
  if (paged !== undefined && schema.properties?.nextCursor !== undefined) return `page: ${shapeOf(paged)}`;
  if (items !== undefined) return `list of ${shapeOf(items)}`;
  const type = typeof schema.type === 'string' ? schema.type : (schema.type ?? ['any']).join(' or ');
  return [
    schema.format === undefined ? type : schema.format,
    ...(minimum === undefined || maximum === undefined ? [] : [`${minimum} to ${maximum}`]),
    ...(usual === undefined ? [] : [`default ${code(JSON.stringify(usual))}`]),
  ].join(', ');
}

/** Field, type, "optional" or nothing, meaning; fields of objects inside are written "broker.connected", "topics[].name". */
export function rowsOf(schema: Schema, before = ''): string[][] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, inner]) => {
    const optional = schema.required?.includes(name) === true ? '' : 'optional';
    const own = [code(`${before}${name}`), shapeOf(inner), optional, plain(inner.description ?? '')];
    const below = inner.items ?? inner.anyOf?.find(({ properties }) => properties !== undefined) ?? inner;
    const path = `${before}${name}${inner.items === undefined ? '' : '[]'}.`;
    return [own, ...(nameOf(below) === undefined ? rowsOf(below, path) : [])];
  });
}
