/** What was found for each key, and what is wrong. */
import type { Value } from './key.ts';

export interface Fault {
  /** The key's path, or the variable's name where that is what is wrong. */
  readonly path: string;
  readonly message: string;
}

type Source = 'file' | 'environment' | 'default';

export interface Setting {
  readonly value: Value;
  readonly source: Source;
}

/** By the key's path. */
export type Settings = ReadonlyMap<string, Setting>;
