/** TOML object and environment to the complete Config, or every fault at once. Pure. */
import { assemble } from './assemble.ts';
import type { Config } from './config.ts';
import { crossCheck } from './cross-checks.ts';
import type { Key } from './key.ts';
import { keys, reservedVariables, variableOf } from './keys.ts';
import type { Fault, Setting, Settings } from './settings.ts';
import { fromEnvironment, judge, nearest } from './values.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface Parsed {
  /** Complete also when there are faults: a faulty key has its default, so that the rest can be judged too. */
  readonly config: Config;
  readonly settings: Settings;
  readonly faults: readonly Fault[];
}

export function parseConfig(file: Readonly<Record<string, unknown>>, env: Environment): Parsed {
  const faults: Fault[] = [];
  const inFile = new Map<string, unknown>();
  flatten(file, '', inFile, faults);
  unknownVariables(env, faults);
  const settings = new Map<string, Setting>();
  for (const key of keys) settings.set(key.path, settle(key, inFile, env, faults));
  const config = assemble(settings, faults, env.CREDENTIALS_DIRECTORY);
  faults.push(...crossCheck(config, settings, faults));
  return { config, settings, faults };
}

const sections = new Set(keys.flatMap((key) => parents(key.path)));

/** serial.line.port: serial, serial.line. */
function parents(path: string): string[] {
  const parts = path.split('.');
  return parts.slice(1).map((_, i) => parts.slice(0, i + 1).join('.'));
}

function flatten(
  table: Readonly<Record<string, unknown>>,
  prefix: string,
  into: Map<string, unknown>,
  faults: Fault[],
) {
  for (const [name, value] of Object.entries(table)) {
    const path = prefix + name;
    if (sections.has(path)) {
      if (isTable(value)) flatten(value, `${path}.`, into, faults);
      else faults.push({ path, message: `is a section: write [${path}]` });
    } else if (keys.some((key) => key.path === path)) {
      into.set(path, value);
    } else {
      const what = isTable(value) ? 'no such section' : 'no such key';
      faults.push({ path, message: what + suggestion(path, isTable(value) ? [...sections] : keys.map((k) => k.path)) });
    }
  }
}

function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  // Dates of TOML and lists are objects too, but not plain ones.
  return typeof value === 'object' && value !== null && [Object.prototype, null].includes(Object.getPrototypeOf(value));
}

function suggestion(name: string, known: readonly string[]): string {
  const meant = nearest(name, known);
  return meant === undefined ? '' : `; did you mean ${meant}?`;
}

function unknownVariables(env: Environment, faults: Fault[]): void {
  const known = [...keys.map(variableOf), ...reservedVariables];
  for (const name of Object.keys(env)) {
    if (!name.startsWith('LINESIDE_') || known.includes(name)) continue;
    faults.push({ path: name, message: `no such variable${suggestion(name, known)}` });
  }
}

function settle(key: Key, inFile: ReadonlyMap<string, unknown>, env: Environment, faults: Fault[]): Setting {
  const variable = variableOf(key);
  const text = env[variable];
  if (text !== undefined) {
    const judged = fromEnvironment(key, text);
    if ('value' in judged) return { value: judged.value, source: 'environment' };
    faults.push({ path: variable, message: `${judged.fault} (${key.path})` });
  } else if (inFile.has(key.path)) {
    const judged = judge(key, inFile.get(key.path));
    if ('value' in judged) return { value: judged.value, source: 'file' };
    faults.push({ path: key.path, message: judged.fault });
  }
  return fallback(key, env);
}

function fallback(key: Key, env: Environment): Setting {
  if (key.systemd !== undefined) {
    // systemd gives a list, separated by colons, where the unit names several directories.
    const directory = env[key.systemd]?.split(':')[0];
    if (directory?.startsWith('/')) return { value: directory, source: 'environment' };
  }
  return { value: key.schema.default, source: 'default' };
}
