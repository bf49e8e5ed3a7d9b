/** A configuration key in words: for the commented example, the reference and the manual page. Pure. */
import type { TSchema } from '@sinclair/typebox';
import type { Key } from '../src/shared/config/key.ts';

/** The keywords of a key's schema that limit its values. */
export interface Rules {
  readonly type?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly anyOf?: readonly TSchema[];
  readonly items?: TSchema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly enum?: readonly string[];
}

/** "1 to 60"; '' when any value of the type is allowed. */
export function limitsOf(schema: TSchema): string {
  const { minimum, maximum, anyOf, items, minItems, maxItems, enum: choices } = schema as Rules;
  if (choices !== undefined) return choices.map(shown).join(', ');
  if (anyOf !== undefined)
    return anyOf.map((one) => (one.const === undefined ? limitsOf(one) : shown(one.const))).join(', or ');
  if (minimum !== undefined) return `${minimum} to ${maximum}`;
  return maxItems === undefined || items === undefined ? '' : `${minItems ?? 0} to ${maxItems} of ${limitsOf(items)}`;
}

/** As TOML writes it. */
export function shown(value: unknown): string {
  return Array.isArray(value) ? `[${value.map(shown).join(', ')}]` : JSON.stringify(value);
}

export function sectionOf({ path }: Key): string {
  return path.slice(0, path.lastIndexOf('.'));
}
