/**
 * A dictionary's JSON Schema, checked and compiled (2020-12, or draft-07 by $schema). Schemas and data are untrusted: they must
 * not block this thread or fetch anything. What reads them (parseExactJson) bounds their depth and refuses __proto__.
 */

import { createContext, Script } from 'node:vm';
import { Ajv, type ErrorObject, type Options } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import ajvFormats from 'ajv-formats';
import { RE2JS } from 're2js';
import { messageOf, systemCode } from '../../shared/base/errors.ts';
import type { Connection } from '../../shared/storage/open.ts';
import type { JsonObject } from '../outbox/event.ts';

/** The function's result; undefined: it was ended after limitMs. */
type TimeLimit = <T extends object>(limitMs: number, run: () => T) => T | undefined;

/** In a worker: the watchdog of its caller is enough. */
export const unlimited: TimeLimit = (_limitMs, run) => run();

const script = new Script('run()');
const context = createContext({ run: undefined });

/** How much longer a run may last by the clock where other processes had the processor meanwhile. */
const busyMachineFactor = 4;

/**
 * The function's result; undefined: it was ended after limitMs of this thread's own time, wherever it was, so it must own
 * what it works on. The watchdog knows the clock alone: what it ended before that time was used is run once more.
 */
function withinMs<T extends object>(limitMs: number, run: () => T): T | undefined {
  const before = process.threadCpuUsage();
  const result = endedAfter(limitMs, run);
  const { user, system } = process.threadCpuUsage(before);
  const isStarved = result === undefined && (user + system) / 1000 < limitMs / 2;
  return isStarved ? endedAfter(limitMs * busyMachineFactor, run) : result;
}

/** The function's result; undefined: it was ended after limitMs by the clock. Costs a watchdog thread: about 0.1 ms. */
function endedAfter<T extends object>(limitMs: number, run: () => T): T | undefined {
  let result: T | undefined;
  context['run'] = (): void => {
    result = run();
  };
  try {
    script.runInContext(context, { timeout: limitMs });
  } catch (error) {
    if (systemCode(error) !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
    return undefined;
  } finally {
    context['run'] = undefined;
  }
  return result;
}

/** The faults of the data, each with its JSON pointer below `/data`. `length`: of the data's JSON, in characters. */
export type DataCheck = (data: JsonObject, length: number) => readonly string[];

type CompiledSchema = { readonly check: DataCheck } | { readonly faults: readonly string[] };

const maxSchemaBytes = 64 * 1024;
/** Of one schema or one record. */
const maxFaultsOfOne = 100;
/** A schema of 64 KiB with 1,500 properties compiles in 0.3 s here, at most. */
const compileLimitMs = 2_000;
/** A check blocks all other requests. */
const checkLimitMs = 500;
/** Below these a check takes a few ms: the patterns of formats are quadratic at worst, everything else a product. */
const easyDataLength = 4_096;
const easyProduct = 2 ** 24;

type Dialect = typeof Ajv2020 | typeof Ajv;
const latest = 'https://json-schema.org/draft/2020-12/schema';
const dialects: ReadonlyMap<string, Dialect> = new Map([
  [latest, Ajv2020],
  ['http://json-schema.org/draft-07/schema', Ajv],
]);

const options: Options = { strict: false, logger: false, allErrors: true };
/** The meta-schema of each dialect, compiled at its first use. */
const metaCheckers = new Map<Dialect, Ajv>();

/** `at`: the pointer to the schema in the caller's request. */
export function compileSchema(schema: JsonObject, at: string, limited: TimeLimit = withinMs): CompiledSchema {
  const text = JSON.stringify(schema);
  if (Buffer.byteLength(text) > maxSchemaBytes)
    return { faults: [`${at} must have at most ${maxSchemaBytes / 1024} KiB as JSON`] };
  // A copy: Ajv writes into the schema, and the caller's object is stored and answered.
  const own = JSON.parse(text) as JsonObject;
  const named: unknown = own['$schema'] ?? latest;
  const dialect = dialects.get(String(named).replace(/#$/, ''));
  if (dialect === undefined)
    return { faults: [`${at}/$schema is not known; known are ${[...dialects.keys()].join(' and ')}`] };
  const meta = metaFaults(dialect, own, at);
  if (meta.length > 0) return { faults: meta };
  const compiled = limited(compileLimitMs, () => compileOwn(own, dialect, text.length, at, limited));
  return compiled ?? { faults: [`${at} takes too long to compile`] };
}

function compileOwn(
  schema: JsonObject,
  dialect: Dialect,
  length: number,
  at: string,
  limited: TimeLimit,
): CompiledSchema {
  const ajv = new dialect({
    ...options,
    // Without it a required "toString" would be found in every object.
    ownProperties: true,
    meta: false,
    validateSchema: false,
    code: { regExp: Object.assign(linearTester, { code: 'linear' }) },
  });
  ajvFormats.default(ajv);
  const { faults, refers } = walkSchema(schema, at, new Set(Object.keys(ajv.formats)));
  if (faults.length > 0) return { faults };
  try {
    const validate = ajv.compile(schema);
    const run = (data: JsonObject): readonly string[] => {
      if (validate(data)) return [];
      const errors = validate.errors ?? [];
      validate.errors = null;
      return listed(errors, '/data');
    };
    return { check: guarded(run, refers, length, limited) };
  } catch (error) {
    return { faults: [`${at} ${messageOf(error)}`] };
  }
}

function guarded(
  run: (data: JsonObject) => readonly string[],
  refers: boolean,
  schemaLength: number,
  limited: TimeLimit,
): DataCheck {
  return (data, length) => {
    const easy = !refers && length <= easyDataLength && length * schemaLength <= easyProduct;
    try {
      if (easy) return run(data);
      return (
        limited(checkLimitMs, () => run(data)) ?? [
          `/data takes more than ${checkLimitMs} ms to check against the schema of its dictionary`,
        ]
      );
    } catch (error) {
      // A compiled schema throws only if it refers to itself without end.
      return [`/data cannot be checked against the schema of its dictionary: ${messageOf(error)}`];
    }
  };
}

function metaFaults(dialect: Dialect, schema: JsonObject, at: string): readonly string[] {
  let checker = metaCheckers.get(dialect);
  if (checker === undefined) {
    checker = new dialect(options);
    // Compiles it without a time limit.
    void checker.validateSchema({});
    metaCheckers.set(dialect, checker);
  }
  if (checker.validateSchema(schema) === true) return [];
  return listed(ofOneBranch(checker.errors ?? []), at);
}

/** "type" is a word or a list: of the faults of both branches only the deepest that lists the words is kept. */
function ofOneBranch(errors: readonly ErrorObject[]): readonly ErrorObject[] {
  const branches = errors.filter(({ keyword, instancePath }) => keyword === 'anyOf' && instancePath.endsWith('/type'));
  return errors.filter((error) => {
    const isIn = (base: string) => (one: ErrorObject) => `${one.instancePath}/`.startsWith(`${base}/`);
    const branch = branches.find(({ instancePath }) => isIn(instancePath)(error));
    if (branch === undefined) return true;
    const within = errors.filter(isIn(branch.instancePath));
    return error === (within.findLast(({ keyword }) => keyword === 'enum') ?? branch);
  });
}

function linearTester(pattern: string): { test(text: string): boolean; toString(): string } {
  const compiled = linearPattern(pattern);
  // Ajv compares patterns by their text.
  return { test: (text) => compiled.matcher(text).find(), toString: () => pattern };
}

/** Equal faults (of an anyOf and of its branches) are listed once. */
function listed(errors: readonly ErrorObject[], at: string): readonly string[] {
  const faults = new Set<string>();
  let more = 0;
  for (const error of errors) {
    if (faults.size >= maxFaultsOfOne) more++;
    else faults.add(`${at}${error.instancePath} ${said(error)}`);
  }
  return more === 0 ? [...faults] : [...faults, `and ${more} more`];
}

/** Ajv's message, with the names and values that it omits. */
function said(error: ErrorObject): string {
  const params: Readonly<Record<string, unknown>> = error.params;
  const missing = params['additionalProperty'] ?? params['unevaluatedProperty'];
  if (missing !== undefined) return `${error.message}: ${cut(missing)}`;
  if (error.keyword === 'enum') return `${error.message}: ${cut(params['allowedValues'])}`;
  if (error.keyword === 'const') return `${error.message}: ${cut(params['allowedValue'])}`;
  return error.message ?? error.keyword;
}

/** 200 characters: values may be long, and there may be many faults. */
function cut(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length > 200 ? `${text.slice(0, 200)}...` : text;
}

// Beyond the meta-schema: known keywords, patterns that run in linear time, and references inside the schema only.

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

type Node = Readonly<Record<string, unknown>>;

/** Of a schema that is valid by its meta-schema; its depth is bounded by parseExactJson. */
function walkSchema(schema: object, at: string, formats: ReadonlySet<string>) {
  const faults: string[] = [];
  /** It refers to itself: then its size does not limit the work. */
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

/** Runs in linear time. Throws if there is no such automaton. */
function linearPattern(pattern: string): RE2JS {
  return RE2JS.compile(RE2JS.translateRegExp(pattern));
}

function patternFault(pattern: string): string {
  if (/\(\?<?[=!]/.test(pattern)) return 'looks ahead or behind, which takes more than linear time';
  if (/\\[1-9]/.test(pattern)) return 'refers back to a group, which takes more than linear time';
  try {
    linearPattern(pattern);
    return '';
  } catch (error) {
    return `is no pattern: ${messageOf(error)}`;
  }
}

function isObject(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function escaped(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}

/** Compiled, a small schema takes some 50 KB. */
const maxKept = 100;

const anyObject: DataCheck = () => [];

/** The checks of dictionaries' schemas, compiled once for each version of a dictionary, on one connection. */
export function dataChecks(connection: Connection, limited?: TimeLimit) {
  const schema = connection.prepare<[number], string | null>('SELECT schema FROM dictionaries WHERE id = ?').pluck();
  /** By id and version, in the order of their last use. */
  const kept = new Map<string, DataCheck>();
  const compiled = (id: number): DataCheck => {
    const text = schema.get(id);
    if (text === undefined || text === null) return anyObject;
    const result = compileSchema(JSON.parse(text) as JsonObject, '/schema', limited);
    if ('check' in result) return result.check;
    // An older lineside or a less busy machine accepted it: data that cannot be checked is refused.
    return () => [`/data cannot be checked: the schema of its dictionary does not compile: ${result.faults[0]}`];
  };
  /** Only for a committed dictionary, because it is cached. */
  return (id: number, version: number): DataCheck => {
    const key = `${id}:${version}`;
    const check = kept.get(key) ?? compiled(id);
    kept.delete(key);
    kept.set(key, check);
    const oldest = kept.keys().next();
    if (kept.size > maxKept && oldest.done !== true) kept.delete(oldest.value);
    return check;
  };
}
