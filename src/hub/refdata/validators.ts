/** The checks of dictionaries' schemas, compiled once for each version of a dictionary, on one connection. */

import type { Connection } from '../../shared/storage/open.ts';
import type { JsonObject } from '../outbox/event.ts';
import { compileSchema, type DataCheck } from './json-schema.ts';

/** Compiled, a small schema takes some 50 KB. */
const maxKept = 100;

const anyObject: DataCheck = () => [];

export class Validators {
  readonly #schema;
  readonly #noTimeLimit: boolean;
  /** By id and version; in the order of their last use. */
  readonly #kept = new Map<string, DataCheck>();

  /** `noTimeLimit`: off the main thread, where a check may take its time. */
  constructor(connection: Connection, noTimeLimit: boolean) {
    this.#schema = connection.prepare<[number], string | null>('SELECT schema FROM dictionaries WHERE id = ?').pluck();
    this.#noTimeLimit = noTimeLimit;
  }

  /** Of a committed dictionary: what is kept here must not be rolled back. */
  of(id: number, version: number): DataCheck {
    const key = `${id}:${version}`;
    const check = this.#kept.get(key) ?? this.#compiled(id);
    this.#kept.delete(key);
    this.#kept.set(key, check);
    const oldest = this.#kept.keys().next();
    if (this.#kept.size > maxKept && oldest.done !== true) this.#kept.delete(oldest.value);
    return check;
  }

  #compiled(id: number): DataCheck {
    const text = this.#schema.get(id);
    if (text === undefined || text === null) return anyObject;
    const compiled = compileSchema(JSON.parse(text) as JsonObject, '/schema', this.#noTimeLimit);
    if ('check' in compiled) return compiled.check;
    // It was taken once, by an older lineside or on an idler machine: data that cannot be checked is not taken.
    return () => [`/data cannot be checked: the schema of its dictionary does not compile: ${compiled.faults[0]}`];
  }
}
