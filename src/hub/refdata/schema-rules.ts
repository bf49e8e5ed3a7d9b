/**
 * What a dictionary's JSON Schema may be, beyond its meta-schema: known keywords, patterns that run in linear time, and
 * references that stay inside. Pure. What the walk finds also tells how dear a check against the schema may become.
 */
import { RE2JS } from 're2js';
import { MAX_JSON_DEPTH } from '../../shared/base/exact-json.ts';

/** Their values are schemas. */
const schemas: ReadonlySet<string> = new Set(
  `additionalProperties unevaluatedProperties unevaluatedItems items additionalItems contains propertyNames if then else
   not contentSchema`.split(/\s+/),
);
/** Their values are lists of schemas; `items` is one in draft-07. */
const schemaLists: ReadonlySet<string> = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems', 'items']);
/** Their values are objects of schemas; those of `dependencies` may be lists of names. */
const schemaMaps: ReadonlySet<string> = new Set(
  'properties patternProperties $defs definitions dependentSchemas dependencies'.split(' '),
);
const plain: ReadonlySet<string> = new Set(
  `type enum const multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern maxItems
   minItems uniqueItems maxContains minContains maxProperties minProperties required dependentRequired format
   contentEncoding contentMediaType title description default deprecated readOnly writeOnly examples $schema $id $anchor
   $dynamicAnchor $ref $dynamicRef $comment $vocabulary`.split(/\s+/),
);

export interface WalkedSchema {
  /** Each begins with its JSON pointer. */
  readonly faults: readonly string[];
  /** Whether it refers to itself somewhere: then its size does not bound the work. */
  readonly refers: boolean;
}

type Node = Readonly<Record<string, unknown>>;

/** Of a schema that its meta-schema has taken and that is not nested too deep. */
export function walkSchema(schema: object, at: string, formats: ReadonlySet<string>): WalkedSchema {
  const faults: string[] = [];
  let refers = false;
  const visit = (node: unknown, at: string): void => {
    if (!isObject(node)) return;
    for (const [keyword, value] of Object.entries(node)) {
      const here = `${at}/${escaped(keyword)}`;
      if (keyword === '$ref' || keyword === '$dynamicRef') refers = true;
      const fault = keywordFault(keyword, value, formats);
      if (fault !== '') faults.push(`${here} ${fault}`);
      if (schemaLists.has(keyword) && Array.isArray(value)) value.forEach((item, i) => visit(item, `${here}/${i}`));
      else if (schemas.has(keyword)) visit(value, here);
      else if (schemaMaps.has(keyword) && isObject(value)) {
        for (const [name, inner] of Object.entries(value)) {
          const inside = `${here}/${escaped(name)}`;
          if (keyword === 'patternProperties' && patternFault(name) !== '')
            faults.push(`${inside} ${patternFault(name)}`);
          visit(inner, inside);
        }
      }
    }
  };
  visit(schema, at);
  return { faults, refers };
}

function keywordFault(keyword: string, value: unknown, formats: ReadonlySet<string>): string {
  switch (keyword) {
    case 'pattern':
      return patternFault(String(value));
    case 'format':
      return formats.has(String(value)) ? '' : `is not a known format; known are ${[...formats].join(', ')}`;
    case '$ref':
    case '$dynamicRef':
      return String(value).startsWith('#') ? '' : 'must stay inside the schema ("#/$defs/..."): nothing is fetched';
    default:
  }
  const known = plain.has(keyword) || schemas.has(keyword) || schemaLists.has(keyword) || schemaMaps.has(keyword);
  return known || keyword.startsWith('x-') ? '' : 'is no keyword of JSON Schema; own ones begin with x-';
}

/** A pattern that takes linear time, as JSON Schema wants it: unanchored. Throws where there is no such automaton. */
export function linearPattern(pattern: string): RE2JS {
  return RE2JS.compile(RE2JS.translateRegExp(pattern));
}

function patternFault(pattern: string): string {
  if (/\(\?<?[=!]/.test(pattern)) return 'looks ahead or behind, which takes more than linear time';
  if (/\\[1-9]/.test(pattern)) return 'refers back to a group, which takes more than linear time';
  try {
    linearPattern(pattern);
    return '';
  } catch (error) {
    return `is no pattern: ${error instanceof Error ? error.message : String(error)}`;
  }
}

/** The pointer of what is nested too deep or named __proto__, with the reason; ''. Before anything recurses into it. */
export function shapeFault(schema: object, at: string): string {
  let level: (readonly [object, string])[] = [[schema, at]];
  for (let depth = 1; level.length > 0; depth++) {
    const next: (readonly [object, string])[] = [];
    for (const [node, at] of level) {
      if (depth > MAX_JSON_DEPTH) return `${at} is nested more than ${MAX_JSON_DEPTH} deep`;
      if (Object.hasOwn(node, '__proto__')) return `${at}/__proto__ is a name that is not allowed`;
      for (const [name, value] of Object.entries(node)) {
        if (typeof value === 'object' && value !== null) next.push([value, `${at}/${escaped(name)}`]);
      }
    }
    level = next;
  }
  return '';
}

function isObject(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function escaped(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}
