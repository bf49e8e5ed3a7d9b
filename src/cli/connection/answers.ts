/** The hub's answers, read field by field: what is not of the expected kind is said, and never shown as "undefined". Pure. */
import { CliFailure } from '../failure.ts';
import type { Json, JsonObject } from '../output/json.ts';

export function badAnswer(why: string, place = ''): CliFailure {
  return new CliFailure('refused', 'BAD_ANSWER', why, {
    what: `cannot understand the answer${place === '' ? '' : ` of ${place}`}`,
    next: 'Is that the HTTP interface of lineside, and of this version? Check --host and its port, or --socket.',
  });
}

/** An object of an answer. Each read throws BAD_ANSWER where the field is missing or of another kind. */
export class Fields {
  readonly raw: JsonObject;
  readonly #name: string;

  /** `name`: what it is, for the failure: "the record". */
  constructor(raw: JsonObject, name: string) {
    this.raw = raw;
    this.#name = name;
  }

  text(field: string): string {
    const value = this.raw[field];
    return typeof value === 'string' ? value : this.#missing(field, 'text');
  }

  /** A text, or a number as text. */
  shown(field: string): string {
    return typeof this.raw[field] === 'number' ? String(this.number(field)) : this.text(field);
  }

  /** null and missing are the default. */
  textOr<D>(field: string, otherwise: D): string | D {
    return this.raw[field] == null ? otherwise : this.text(field);
  }

  number(field: string): number {
    const value = this.raw[field];
    return typeof value === 'number' && Number.isFinite(value) ? value : this.#missing(field, 'number');
  }

  truth(field: string): boolean {
    const value = this.raw[field];
    return typeof value === 'boolean' ? value : this.#missing(field, 'truth value');
  }

  object(field: string): Fields {
    const value = this.raw[field];
    return isObject(value) ? new Fields(value, `${this.#name}'s ${field}`) : this.#missing(field, 'object');
  }

  objectOr<D>(field: string, otherwise: D): Fields | D {
    return this.raw[field] == null ? otherwise : this.object(field);
  }

  objects(field: string): readonly JsonObject[] {
    const value = this.raw[field];
    return isList(value) && value.every(isObject) ? value : this.#missing(field, 'list of objects');
  }

  texts(field: string): readonly string[] {
    const value = this.raw[field];
    return isList(value) && value.every((item) => typeof item === 'string')
      ? value
      : this.#missing(field, 'list of texts');
  }

  #missing(field: string, kind: string): never {
    throw badAnswer(`${this.#name} has no ${kind} "${field}"`);
  }
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isList(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}
