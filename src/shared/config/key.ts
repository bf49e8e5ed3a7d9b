/**
 * How a configuration key is declared: a TypeBox schema says its type, default and limits, its description the meaning,
 * and keywords of our own (x-...) the rest. `lineside config schema` prints them as they are. Pure.
 */
import { type Static, type TObject, type TProperties, type TSchema, Type } from '@sinclair/typebox';
import { FILE_PATTERN } from './credential.ts';
import type { ListenAddress } from './listen.ts';

export type Value = string | number | boolean | readonly string[] | readonly number[];

/**
 * The effect of "systemctl reload lineside" on a changed key. live: the line applies it, the port stays open. hub: the hub
 * restarts with it, the line continues. restart: both must be restarted.
 */
export type Reload = 'live' | 'hub' | 'live, hub' | 'restart';

/** A key's properties besides type, default and meaning. */
interface More {
  readonly 'x-reload'?: Reload;
  /** A variable that systemd sets (StateDirectory=, RuntimeDirectory=), which overrides the default. */
  readonly 'x-systemd'?: string;
  /** Only the file may set it: a stray variable must not open the service to the network. */
  readonly 'x-file-only'?: true;
  /** The key's path until it was renamed; still accepted, with a warning. */
  readonly 'x-old-path'?: string;
  /** How a string must look; `errorMessage`: the fault of one that does not, before ", not ...". */
  readonly pattern?: string;
  readonly errorMessage?: string;
}

export type KeySchema = TSchema &
  More & { readonly default: Value; readonly description: string; readonly 'x-reload': Reload };

export interface Key {
  /** Dotted path in the file: section, [subsection,] key. */
  readonly path: string;
  readonly schema: KeySchema;
}

export const KIB = 1024;
export const MIB = 1024 * KIB;
export const GIB = 1024 * MIB;

export const live: More = { 'x-reload': 'live' };
export const hub: More = { 'x-reload': 'hub' };
export const liveAndHub: More = { 'x-reload': 'live, hub' };
export const fileOnly: More = { 'x-file-only': true };

function key<S extends TSchema>(schema: S, value: Value, description: string, more: More = {}): S & KeySchema {
  return Object.assign(schema, { default: value, description, 'x-reload': 'restart' as const, ...more });
}

export function text(value: string, meaning: string, more?: More) {
  return key(Type.String(), value, meaning, more);
}

/** An absolute path; empty where the default is. */
export function path(value: string, meaning: string, more?: More) {
  const absolute = { pattern: '^(/|$)', errorMessage: 'must be an absolute path' };
  return key(Type.String({ 'x-kind': 'path' }), value, meaning, { ...absolute, ...more });
}

/** A file that may hold a secret: an absolute path, or a credential of systemd. The Config has the path of either. */
export function file(meaning: string, more?: More) {
  const credential = { pattern: FILE_PATTERN, errorMessage: 'must be an absolute path or "credential:NAME"' };
  return key(Type.String({ 'x-kind': 'file' }), '', meaning, { ...credential, ...more });
}

export function integer(value: number, [minimum, maximum]: [number, number], meaning: string, more?: More) {
  return key(Type.Integer({ minimum, maximum }), value, meaning, more);
}

/** A number, or the word "auto", which is the default; undefined in the Config. */
export function automatic([minimum, maximum]: [number, number], meaning: string, more?: More) {
  const anyOf = [Type.Integer({ minimum, maximum }), Type.Literal('auto')];
  return key(Type.Unsafe<number | undefined>({ anyOf, 'x-kind': 'automatic' }), 'auto', meaning, more);
}

export function toggle(value: boolean, meaning: string, more?: More) {
  return key(Type.Boolean(), value, meaning, more);
}

export function choice<const T extends string>(value: NoInfer<T>, choices: readonly T[], meaning: string) {
  return key(Type.Unsafe<T>({ type: 'string', enum: choices }), value, meaning);
}

const strings = { type: 'array', items: { type: 'string', minLength: 1 } };

export function list(value: readonly string[], meaning: string, more?: More) {
  return key(Type.Unsafe<readonly string[]>(strings), value, meaning, more);
}

export function listen(value: readonly string[], meaning: string) {
  return key(Type.Unsafe<readonly ListenAddress[]>({ ...strings, 'x-kind': 'listen' }), value, meaning);
}

/** `items`: how many there may be. */
export function integers(
  value: readonly number[],
  [minimum, maximum]: [number, number],
  [minItems, maxItems]: [number, number],
  meaning: string,
) {
  const items = { type: 'integer', minimum, maximum };
  return key(Type.Unsafe<readonly number[]>({ type: 'array', items, minItems, maxItems }), value, meaning);
}

/** A table of the file; every key of it is optional there. */
export function section<P extends TProperties>(keys: P): TObject<P> {
  const table: TObject<P> = Type.Object(keys, { additionalProperties: false });
  Reflect.deleteProperty(table, 'required');
  return table;
}

/** A section of the hub: a changed key restarts the hub alone. */
export function hubSection<P extends TProperties>(keys: P): TObject<P> {
  for (const one of Object.values(keys)) Object.assign(one, hub);
  return section(keys);
}

export function isSection(schema: TSchema): schema is TObject {
  return schema['type'] === 'object';
}

/** All keys below a section, by their paths. */
export function keysOf(table: TObject, prefix = ''): Key[] {
  return Object.entries(table.properties).flatMap(([name, schema]) =>
    isSection(schema) ? keysOf(schema, `${prefix}${name}.`) : [{ path: prefix + name, schema: schema as KeySchema }],
  );
}

/** rx_buffer_bytes of the file is rxBufferBytes in the code. */
export function camel(name: string): string {
  return name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

type Camel<S extends string> = S extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<Camel<Tail>>}` : S;

export type Resolved<S extends TSchema> =
  S extends TObject<infer P> ? { readonly [K in keyof P & string as Camel<K>]: Resolved<P[K]> } : Static<S>;
