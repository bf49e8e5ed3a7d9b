/**
 * How a configuration key is declared: a TypeBox schema says its type, default and limits, and its description is the
 * key's meaning. The parser judges by that schema (values.ts), and `lineside config schema` prints all of them as one.
 */
import { type TSchema, Type } from '@sinclair/typebox';
import { FILE_PATTERN } from './credential.ts';

export type Value = string | number | boolean | readonly string[] | readonly number[];

/**
 * What "systemctl reload lineside" does about a key that was changed. live: the line takes it, the port stays open. hub: the
 * hub starts itself again with it, the line goes on. restart: both have to be started again.
 */
export type Reload = 'live' | 'hub' | 'live, hub' | 'restart';

export interface Key {
  /** Dotted path in the file: section, [subsection,] key. */
  readonly path: string;
  readonly reload: Reload;
  readonly schema: TSchema & { readonly default: Value; readonly description: string };
  /** A variable that systemd sets (StateDirectory=, RuntimeDirectory=), which goes before the default. */
  readonly systemd?: string;
  /** Only the file may set it: a stray variable must not open the service to the network. */
  readonly fileOnly?: true;
}

export const KIB = 1024;
export const MIB = 1024 * KIB;
export const GIB = 1024 * MIB;

/** How a text must look; `errorMessage`: what is said of one that does not, before ", not ...". */
interface Form {
  readonly pattern: string;
  readonly errorMessage: string;
}
/** The rest of a key, whose meaning says in one line what it is for, its unit, and why the default is what it is. */
type More = Omit<Key, 'path' | 'schema' | 'reload'>;

const absolutePath: Form = { pattern: '^(/|$)', errorMessage: 'must be an absolute path' };
const fileOrCredential: Form = {
  pattern: FILE_PATTERN,
  errorMessage: 'must be an absolute path or "credential:NAME"',
};

function key(path: string, schema: TSchema, value: Value, description: string, more: More = {}): Key {
  return { path, reload: 'restart', schema: Object.assign(schema, { default: value, description }), ...more };
}

export function text(path: string, value: string, meaning: string, form?: Form): Key {
  return key(path, Type.String({ ...form }), value, meaning);
}

/** An absolute path; empty where the default is. */
export function path(name: string, value: string, meaning: string, more?: More): Key {
  return key(name, Type.String({ ...absolutePath }), value, meaning, more);
}

/** A file that may hold a secret: an absolute path, or a credential of systemd's. */
export function file(name: string, meaning: string): Key {
  return key(name, Type.String({ ...fileOrCredential }), '', meaning);
}

export function integer(name: string, value: number, [minimum, maximum]: [number, number], meaning: string): Key {
  return key(name, Type.Integer({ minimum, maximum }), value, meaning);
}

/** A number, or the word "auto", which is the default. */
export function automatic(name: string, [minimum, maximum]: [number, number], meaning: string): Key {
  return key(name, Type.Union([Type.Integer({ minimum, maximum }), Type.Literal('auto')]), 'auto', meaning);
}

export function toggle(name: string, value: boolean, meaning: string, more?: More): Key {
  return key(name, Type.Boolean(), value, meaning, more);
}

export function choice(name: string, value: string, choices: readonly string[], meaning: string): Key {
  return key(name, Type.Unsafe<string>({ type: 'string', enum: choices }), value, meaning);
}

export function list(name: string, value: readonly string[], meaning: string): Key {
  return key(name, Type.Array(Type.String({ minLength: 1 })), value, meaning);
}

/** `items`: how many there may be. */
export function integers(
  name: string,
  value: readonly number[],
  [minimum, maximum]: [number, number],
  [minItems, maxItems]: [number, number],
  meaning: string,
): Key {
  return key(name, Type.Array(Type.Integer({ minimum, maximum }), { minItems, maxItems }), value, meaning);
}

/** The same keys, taken by a reload in this way; keys are to be restarted for unless they say otherwise. */
export function reloaded(reload: Reload, ...some: readonly Key[]): Key[] {
  return some.map((one) => ({ ...one, reload }));
}
