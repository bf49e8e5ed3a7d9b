/**
 * Writes the types of the answers of the HTTP interface, from the schemas that its OpenAPI document is made of.
 *   node scripts/http-types.ts FILE
 */
import { writeFileSync } from 'node:fs';
import { components } from '../src/hub/http/schemas/answers.ts';

/** The keywords of JSON Schema that these schemas use. */
interface Schema {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
}

function typeOf(schema: Schema): string {
  const { type, anyOf, enum: choices } = schema;
  if (anyOf !== undefined) return anyOf.map(typeOf).join(' | ');
  if (choices !== undefined) return choices.map((one) => JSON.stringify(one)).join(' | ');
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (Array.isArray(type)) return type.map((one: string) => typeOf({ ...schema, type: one })).join(' | ');
  if (type === 'integer') return 'number';
  if (type === 'array') return listOf(schema);
  return type === 'object' ? objectOf(schema) : String(type);
}

function listOf({ items = {}, minItems, maxItems }: Schema): string {
  const item = typeOf(items);
  const isTuple = minItems !== undefined && minItems === maxItems;
  return `readonly ${isTuple ? `[${Array(minItems).fill(item).join(', ')}]` : `(${item})[]`}`;
}

function objectOf({ properties, required = [] }: Schema): string {
  if (properties === undefined) return 'JsonObject';
  const fields = Object.entries(properties).map(([name, schema]) => {
    const isRequired = required.includes(name);
    return `readonly ${name}${isRequired ? '' : '?'}: ${typeOf(schema)}${isRequired ? '' : ' | undefined'};`;
  });
  return `{ ${fields.join(' ')} }`;
}

const schemas = Object.entries(components) as unknown as [string, Schema][];
const types = schemas.map(([name, schema]) => `export type ${name} = ${typeOf(schema)};\n`);
const json = `type Json = null | boolean | number | string | readonly Json[] | JsonObject;
type JsonObject = { readonly [name: string]: Json };
`;
writeFileSync(process.argv[2] ?? '', [json, ...types].join(''));
