/** The text of lineside.toml to a TOML object, and object and environment to the complete Config, or every fault at once. Pure. */
import type { TObject } from '@sinclair/typebox';
import { parse, TomlError } from 'smol-toml';
import { LinesideError, messageOf } from '../base/errors.ts';
import { type Config, configSchema, keys, knownVariables, variableOf } from './config.ts';
import { credentialPath } from './credential.ts';
import { crossCheck } from './cross-checks.ts';
import { camel, isSection, type Key, type KeySchema, type Value } from './key.ts';
import { type ListenAddress, parseListen, showListen } from './listen.ts';
import { checkValue, type Fault, fromEnvironment, inUnitOf, nearest, type Setting, type Settings } from './values.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface Parsed {
  /** Complete also when there are faults: a faulty key has its default, so that the other keys can be checked too. */
  readonly config: Config;
  readonly settings: Settings;
  readonly faults: readonly Fault[];
  /** One for each old name of a key that is used. */
  readonly warnings: readonly string[];
}

interface Sources {
  readonly file: ReadonlyMap<string, unknown>;
  readonly env: Environment;
  readonly faults: Fault[];
  readonly warnings: string[];
}

export function parseConfig(table: Readonly<Record<string, unknown>>, env: Environment): Parsed {
  const faults: Fault[] = [];
  const warnings: string[] = [];
  const file = new Map(valuesIn(table, { paths, oldPaths, sections }, faults));
  unknownVariables(env, faults);
  const settings = new Map(keys.map((key) => [key.path, settle(key, { file, env, faults, warnings })]));
  const config = assemble(settings, faults, env.CREDENTIALS_DIRECTORY);
  faults.push(...crossCheck(config, faults));
  return { config, settings, faults, warnings };
}

const paths: readonly string[] = keys.map(({ path }) => path);
const oldPaths: readonly string[] = keys.flatMap(({ schema }) => schema['x-old-path'] ?? []);
const sections: readonly string[] = [...new Set(paths.flatMap(parents))];

/** serial.line.port: serial, serial.line. */
function parents(path: string): string[] {
  const parts = path.split('.');
  return parts.slice(1).map((_, i) => parts.slice(0, i + 1).join('.'));
}

interface KnownKeys {
  readonly paths: readonly string[];
  /** Accepted, and never suggested. */
  readonly oldPaths?: readonly string[];
  readonly sections: readonly string[];
}

/** The values of known keys by their paths, and a fault for each other key. */
export function valuesIn(
  table: Readonly<Record<string, unknown>>,
  known: KnownKeys,
  faults: Fault[],
  prefix = '',
): (readonly [path: string, value: unknown])[] {
  const { paths, oldPaths = [], sections } = known;
  return Object.entries(table).flatMap(([name, value]) => {
    const path = prefix + name;
    if (sections.includes(path) && isTable(value)) return valuesIn(value, known, faults, `${path}.`);
    if (paths.includes(path) || oldPaths.includes(path)) return [[path, value] as const];
    faults.push(sections.includes(path) ? notTable(path) : unknownKey(path, value, known));
    return [];
  });
}

function notTable(path: string): Fault {
  return { path, message: `is a section: write [${path}]` };
}

export function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  // Dates of TOML and lists are objects too, but not plain ones.
  return typeof value === 'object' && value !== null && [Object.prototype, null].includes(Object.getPrototypeOf(value));
}

function unknownKey(path: string, value: unknown, { sections, paths }: KnownKeys): Fault {
  const [what, known] = isTable(value) ? ['no such section', sections] : ['no such key', paths];
  return { path, message: what + suggestion(path, known) };
}

function suggestion(name: string, known: readonly string[]): string {
  const meant = nearest(name, known);
  return meant === undefined ? '' : `; did you mean ${meant}?`;
}

function unknownVariables(env: Environment, faults: Fault[]): void {
  for (const name of Object.keys(env)) {
    if (!name.startsWith('LINESIDE_') || knownVariables.has(name)) continue;
    faults.push({ path: name, message: `no such variable${suggestion(name, [...knownVariables])}` });
  }
}

function settle({ path, schema }: Key, { file, env, faults, warnings }: Sources): Setting {
  const oldPath = schema['x-old-path'];
  const either = <T>(nameOf: (path: string) => string, valueOf: (name: string) => T | undefined): T | undefined => {
    const value = valueOf(nameOf(path));
    const old = oldPath === undefined ? undefined : valueOf(nameOf(oldPath));
    if (oldPath === undefined || old === undefined) return value;
    warnings.push(`${nameOf(oldPath)} is the old name of ${nameOf(path)}: write ${nameOf(path)}`);
    return value ?? old;
  };
  const text = either(variableOf, (name) => env[name]);
  const written = either(String, (name) => file.get(name));
  if (text !== undefined) {
    const checked = fromEnvironment(path, schema, text);
    if ('value' in checked) return { value: checked.value, source: 'environment' };
    faults.push({ path: variableOf(path), message: `${checked.fault} (${path})` });
  } else if (written !== undefined) {
    const checked = checkValue(schema, inUnitOf(path, written));
    if ('value' in checked) return { value: checked.value, source: 'file' };
    faults.push({ path, message: checked.fault });
  }
  return fallback(schema, env);
}

function fallback({ 'x-systemd': variable = '', default: value }: KeySchema, env: Environment): Setting {
  // systemd gives a list, separated by colons, if the unit names several directories.
  const directory = env[variable]?.split(':')[0];
  if (directory?.startsWith('/') === true) return { value: directory, source: 'environment' };
  return { value, source: 'default' };
}

/** `credentials`: the directory of systemd's credentials, if it has handed over any. */
function assemble(settings: Settings, faults: Fault[], credentials: string | undefined): Config {
  const at = (path: string): Value => settings.get(path)?.value ?? '';
  const resolve = (table: TObject, prefix: string): object =>
    Object.fromEntries(
      Object.entries(table.properties).map(([name, schema]) => {
        const path = prefix + name;
        return [camel(name), isSection(schema) ? resolve(schema, `${path}.`) : resolved(path, schema['x-kind'])];
      }),
    );
  const resolved = (path: string, kind: unknown): unknown => {
    const value = at(path);
    if (kind === 'file') return credentialPath(String(value), credentials);
    if (kind === 'listen') return addresses(path, value, String(at('data.runtime_dir')), faults);
    return kind === 'automatic' && value === 'auto' ? undefined : value;
  };
  // Every value has been held to its schema, from which the type comes.
  const config = resolve(configSchema, '') as Config;
  const keyFile = config.webhooks.keyFile || `${config.data.dir}/webhooks.key`;
  return { ...config, webhooks: { ...config.webhooks, keyFile } };
}

/** A faulty address is left out. */
function addresses(path: string, written: Value, runtimeDir: string, faults: Fault[]): ListenAddress[] {
  const found: ListenAddress[] = [];
  for (const text of Array.isArray(written) ? written.map(String) : []) {
    const address = parseListen(text, runtimeDir);
    if (typeof address === 'string') faults.push({ path, message: address });
    else if (found.some((other) => showListen(other) === showListen(address) && !text.endsWith(':0')))
      faults.push({ path, message: `${showListen(address)} is listed twice` });
    else found.push(address);
  }
  return found;
}

// The text of lineside.toml: its content, the lines that are no TOML, and the line of each key.

/** Throws CONFIG_INVALID with the place of the fault. */
export function parseToml(file: string, text: string): Record<string, unknown> {
  try {
    return parse(text);
  } catch (error) {
    const where = error instanceof TomlError ? `${file}:${error.line}:${error.column}` : file;
    throw new LinesideError('CONFIG_INVALID', `${where}: ${firstLine(error)}`, { cause: error });
  }
}

/** Lines that were left out. They are never shown: they may hold a secret that was typed there by mistake. */
interface Unread extends Fault {
  /** From 1. */
  readonly line: number;
  readonly lines: string;
}

/**
 * A file without the lines that are not TOML. A broken header takes its table with it: the keys below it would otherwise
 * count for the table before.
 */
export function readableToml(text: string): { content: Record<string, unknown>; faults: Unread[] } {
  const lines = text.split('\n');
  const faults: Unread[] = [];
  // Each pass leaves out a line or more.
  for (let passes = 0; passes <= lines.length; passes++) {
    try {
      return { content: parse(lines.join('\n')), faults };
    } catch (error) {
      const at = error instanceof TomlError ? error.line - 1 : 0;
      const isHeader = /^\s*\[/.test(lines[at] ?? '');
      const next = lines.findIndex((line, i) => i > at && /^\s*\[/.test(line));
      const end = !isHeader ? at + 1 : next === -1 ? lines.length : next;
      faults.push({
        path: `line ${at + 1}`,
        line: at + 1,
        message: firstLine(error),
        lines: lines.slice(at, end).join('\n'),
      });
      lines.fill('', at, end);
    }
  }
  return { content: {}, faults };
}

/** By the path of each key and section; of what is written in plain lines, without quotes or inline tables. */
export function linesOf(text: string): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  let section = '';
  for (const [i, line] of text.split('\n').entries()) {
    const [, header] = /^\s*\[\s*([\w.-]+)\s*\]/.exec(line) ?? [];
    const [, key] = /^\s*([\w.-]+)\s*=/.exec(line) ?? [];
    if (header !== undefined) section = `${header}.`;
    const path = header ?? (key === undefined ? undefined : section + key);
    if (path !== undefined && !found.has(path)) found.set(path, i + 1);
  }
  return found;
}

function firstLine(error: unknown): string {
  return messageOf(error).split('\n')[0] ?? '';
}
