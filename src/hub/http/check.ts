/**
 * Checks a request against its route's schemas and reports every fault at once, each with its field. The file is loaded and
 * a schema is compiled when a request first needs it.
 */
import type { ErrorObject } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { LinesideError } from '../../shared/base/errors.ts';
import { MAX_BODY_FIELDS, MAX_BODY_ITEMS, MAX_QUOTED_CHARS, MAX_REASONS } from './limits.ts';
import { invalid, property } from './problem.ts';
import { isRedacted, validatedByDomain } from './schemas/shapes.ts';

export interface Asked {
  readonly body: unknown;
  readonly query: Readonly<Record<string, unknown>>;
}

const ajv = new Ajv2020({ allErrors: true, verbose: true, strict: false, validateFormats: false });

/** The request as its handler gets it. INVALID_ARGUMENT with every reason. Without a schema the body is not checked. */
export function check(bodySchema: object | undefined, querySchema: object, asked: Asked): Asked {
  // A body that may be empty may also be left out.
  const body = bodySchema !== undefined && asked.body === undefined ? {} : asked.body;
  const query = converted(querySchema, asked.query);
  refuseManyParts(body);
  const inBody = bodySchema === undefined ? [] : faults(bodySchema, body);
  const inQuery = faults(querySchema, query);
  if (inQuery.every(isValidatedByDomain) && inBody.every(isValidatedByDomain)) return { body, query };
  const reasons = [
    ...described(inBody, { whole: 'the body', kind: 'field', quotes: !isRedacted(bodySchema) }),
    ...described(inQuery, { whole: 'the query', kind: 'parameter', quotes: true }),
  ];
  const more = reasons.length - MAX_REASONS;
  const listed = more > 0 ? [...reasons.slice(0, MAX_REASONS), `and ${more} more`] : reasons;
  const message = reasons.length === 1 ? (reasons[0] ?? '') : `${reasons.length} faults, see reasons`;
  throw new LinesideError('INVALID_ARGUMENT', message, { reasons: listed });
}

/** To report 1 MiB of unknown fields or wrong items takes a second. */
function refuseManyParts(body: unknown): void {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return;
  const fields = Object.values(body);
  if (fields.length > MAX_BODY_FIELDS) {
    throw invalid(`the body has ${fields.length} fields; no request has more than a handful`);
  }
  const longest = Math.max(0, ...fields.map((field: unknown) => (Array.isArray(field) ? field.length : 0)));
  if (longest > MAX_BODY_ITEMS) throw invalid(`the body has a list of ${longest} items; no request has so many`);
}

/** Parameters are strings: one whose schema is a number, and that looks like a number, is converted. */
function converted(schema: object, query: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const properties = propertiesOf(schema);
  return Object.fromEntries(
    Object.entries(query).map(([name, value]) => {
      const isNumber =
        property(properties[name], 'type') === 'integer' && typeof value === 'string' && /^-?\d{1,15}$/.test(value);
      return [name, isNumber ? Number(value) : value];
    }),
  );
}

function faults(schema: object, value: unknown): readonly ErrorObject[] {
  // Compiled once: ajv keeps what it made of a schema object.
  const check = ajv.compile(schema);
  return check(value) ? [] : (check.errors ?? []);
}

function isValidatedByDomain({ keyword, parentSchema }: ErrorObject): boolean {
  const isShape = keyword === 'type' || keyword === 'additionalProperties';
  return !isShape && parentSchema !== undefined && Object.hasOwn(parentSchema, validatedByDomain);
}

/** How faults are reported. */
interface Wording {
  readonly whole: string;
  readonly kind: string;
  /** Whether the value that was sent is quoted. */
  readonly quotes: boolean;
}

function described(errors: readonly ErrorObject[], words: Wording): readonly string[] {
  return [...new Set(errors.map((error) => inWords(error, words)))];
}

function inWords(error: ErrorObject, { whole, kind, quotes }: Wording): string {
  const name = nameOf(error.instancePath);
  const params: Readonly<Record<string, unknown>> = error.params;
  switch (error.keyword) {
    case 'required':
      return `${inside(name, String(params.missingProperty))} is missing`;
    case 'additionalProperties': {
      const known = Object.keys(propertiesOf(error.parentSchema)).join(', ');
      return `${whole} has no ${kind} ${quoted(inside(name, String(params.additionalProperty)))}; it may have: ${known}`;
    }
    default: {
      const demanded = `${name === '' ? whole : name} ${demand(error.keyword, error.parentSchema, params)}`;
      return quotes ? `${demanded}, not ${shown(error.data)}` : demanded;
    }
  }
}

function demand(keyword: string, schema: object | undefined, params: Readonly<Record<string, unknown>>): string {
  const limit = Number(params.limit);
  switch (keyword) {
    case 'type':
      return `must be ${[params.type]
        .flat()
        .map((type) => typeNames[String(type)] ?? String(type))
        .join(' or ')}`;
    case 'enum':
      return `must be one of ${[params.allowedValues].flat().join(', ')}`;
    case 'minimum':
    case 'maximum':
      return `must be a whole number from ${Number(property(schema, 'minimum'))} to ${Number(property(schema, 'maximum'))}`;
    case 'minLength':
      return limit === 1 ? 'must not be empty' : `must have at least ${limit} characters`;
    case 'maxLength':
      return `must have at most ${limit} characters`;
    case 'pattern':
      return `must match ${String(property(schema, 'pattern'))}`;
    case 'minItems':
      return `must have at least ${limit} item`;
    case 'maxItems':
      return `must have at most ${limit} items`;
    default:
      return `must obey ${keyword}`;
  }
}

const typeNames: Readonly<Record<string, string>> = {
  string: 'a string',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'null',
};

function shown(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === 'object') return 'an object';
  const characters = typeof value === 'string' ? Array.from(value).length : 0;
  if (characters > MAX_QUOTED_CHARS) return `a string of ${characters} characters`;
  return JSON.stringify(value) ?? 'nothing';
}

/** "/businessKeys/3" as "businessKeys[3]". */
function nameOf(pointer: string): string {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce((name, part) => (/^\d+$/.test(part) ? `${name}[${part}]` : inside(name, part)), '');
}

function inside(name: string, part: string): string {
  return name === '' ? part : `${name}.${part}`;
}

function quoted(text: string): string {
  return JSON.stringify(text.length <= MAX_QUOTED_CHARS ? text : `${text.slice(0, MAX_QUOTED_CHARS)}...`);
}

function propertiesOf(schema: unknown): Readonly<Record<string, unknown>> {
  const properties = property(schema, 'properties');
  return typeof properties === 'object' && properties !== null ? { ...properties } : {};
}
