/**
 * A dictionary's JSON Schema, checked and compiled (2020-12, or draft-07 by $schema). Schemas and data come from others:
 * neither may hold this thread, fetch anything, or reach beyond its own dictionary.
 */

import { createContext, Script } from 'node:vm';
import { Ajv, type ErrorObject, type Options } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import ajvFormats from 'ajv-formats';
import { messageOf, systemCode } from '../../shared/base/errors.ts';
import type { JsonObject } from '../outbox/event.ts';
import { linearPattern, shapeFault, walkSchema } from './schema-rules.ts';

// Runs a plain function that may take too long, and ends it when it does: checks against a schema that someone else wrote.

const script = new Script('run()');
const context = createContext({ run: undefined });

/**
 * The function's result; undefined: it was ended after limitMs, wherever it was. So it must own what it works on, and
 * answer something. Costs a watchdog thread: about 0.1 ms.
 */
function withinMs<T extends object>(limitMs: number, run: () => T): T | undefined {
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

/** What is wrong with the data, each with its JSON pointer below `/data`. `length`: of the data's JSON, in characters. */
export type DataCheck = (data: JsonObject, length: number) => readonly string[];

export type CompiledSchema = { readonly check: DataCheck } | { readonly faults: readonly string[] };

const maxSchemaBytes = 64 * 1024;
/** Faults of one schema or one record: enough to correct it, and no megabyte of them. */
const maxFaultsOfOne = 100;
/** A schema of 64 KiB with 1,500 properties compiles in 0.3 s here, at most. */
const compileLimitMs = 2_000;
/** Longer checks would hold every other request. */
const checkLimitMs = 500;
/** Below these a check takes some ms at most: formats' patterns are quadratic at worst, everything else a product. */
const easyDataLength = 4_096;
const easyProduct = 2 ** 24;

const dialects = {
  'https://json-schema.org/draft/2020-12/schema': Ajv2020,
  'http://json-schema.org/draft-07/schema': Ajv,
} as const;
type Dialect = (typeof dialects)[keyof typeof dialects];

const options: Options = { strict: false, logger: false, allErrors: true };
/** One for the schema of schemas of each dialect, compiled at its first use. */
const metaCheckers = new Map<Dialect, Ajv>();

/** `at`: the pointer that leads to the schema in what the caller sent. `unhurried`: off the main thread, no time limit. */
export function compileSchema(schema: JsonObject, at: string, noTimeLimit = false): CompiledSchema {
  const shape = shapeFault(schema, at);
  if (shape !== '') return { faults: [shape] };
  const text = JSON.stringify(schema);
  if (Buffer.byteLength(text) > maxSchemaBytes)
    return { faults: [`${at} must have at most ${maxSchemaBytes / 1024} KiB as JSON`] };
  // Ajv writes into what it is given, and the caller's object may be stored or answered yet.
  const own = JSON.parse(text) as JsonObject;
  const named = own['$schema'] ?? 'https://json-schema.org/draft/2020-12/schema';
  const dialect = dialectOf(named);
  if (dialect === undefined)
    return { faults: [`${at}/$schema is not known; known are ${Object.keys(dialects).join(' and ')}`] };
  const meta = metaFaults(dialect, own, at);
  if (meta.length > 0) return { faults: meta };
  const compile = (): CompiledSchema => compileOwn(own, dialect, text.length, at, noTimeLimit);
  const compiled = noTimeLimit ? compile() : withinMs(compileLimitMs, compile);
  return compiled ?? { faults: [`${at} takes too long to compile`] };
}

function compileOwn(
  schema: JsonObject,
  dialect: Dialect,
  length: number,
  at: string,
  unhurried: boolean,
): CompiledSchema {
  const ajv = new dialect({
    ...options,
    // Apart from this, a required "toString" would be found in every object.
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
    return { check: guarded(run, refers, length, unhurried) };
  } catch (error) {
    return { faults: [`${at} ${messageOf(error)}`] };
  }
}

function guarded(
  run: (data: JsonObject) => readonly string[],
  refers: boolean,
  schemaLength: number,
  unhurried: boolean,
): DataCheck {
  return (data, length) => {
    const easy = !refers && length <= easyDataLength && length * schemaLength <= easyProduct;
    try {
      if (easy || unhurried) return run(data);
      return (
        withinMs(checkLimitMs, () => run(data)) ?? [
          `/data takes more than ${checkLimitMs} ms to check against the schema of its dictionary`,
        ]
      );
    } catch (error) {
      // The one thing that a compiled schema throws: it refers to itself without end.
      return [`/data cannot be checked against the schema of its dictionary: ${messageOf(error)}`];
    }
  };
}

function dialectOf(named: unknown): Dialect | undefined {
  const name = String(named).replace(/#$/, '');
  return Object.entries(dialects).find(([known]) => known === name)?.[1];
}

function metaFaults(dialect: Dialect, schema: JsonObject, at: string): readonly string[] {
  let checker = metaCheckers.get(dialect);
  if (checker === undefined) {
    checker = new dialect(options);
    // Compiles it, outside any time limit.
    void checker.validateSchema({});
    metaCheckers.set(dialect, checker);
  }
  if (checker.validateSchema(schema) === true) return [];
  return listed(checker.errors ?? [], at);
}

function linearTester(pattern: string): { test(text: string): boolean; toString(): string } {
  const compiled = linearPattern(pattern);
  // Ajv takes patterns with the same text for the same pattern.
  return { test: (text) => compiled.matcher(text).find(), toString: () => pattern };
}

/** Several ways to the same fault (an anyOf and what is inside it) are one. */
function listed(errors: readonly ErrorObject[], at: string): readonly string[] {
  const faults = new Set<string>();
  let more = 0;
  for (const error of errors) {
    if (faults.size >= maxFaultsOfOne) more++;
    else faults.add(`${at}${error.instancePath} ${said(error)}`);
  }
  return more === 0 ? [...faults] : [...faults, `and ${more} more`];
}

/** Ajv's words, with what it leaves out of them. */
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
