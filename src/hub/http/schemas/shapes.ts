/** Parts of the shapes of requests and answers. Pure. */
import { type TObject, type TProperties, type TSchema, Type } from '@sinclair/typebox';
import {
  CHANGE_REASON,
  DICTIONARY_NAME,
  type JsonObject,
  MAX_CHANGE_REASON_CHARS,
  scopes,
} from '../../outbox/event.ts';
import { CURSOR, MAX_CURSOR_CHARS } from '../../outbox/paging.ts';
import { DEFAULT_PAGE, MAX_PAGE } from '../limits.ts';

/**
 * Set on the schema of a value whose limits the room behind the route checks again, with the rest of the request. If only such
 * values have faults, the request is passed on to the room, which reports all faults at once. On an object: missing fields, too.
 */
export const validatedByDomain: unique symbol = Symbol('validatedByDomain');

/** Set on the schema of a body that holds a secret: no answer quotes any of it, even if it cannot be parsed. */
export const redacted: unique symbol = Symbol('redacted');

export function isRedacted(body: unknown): boolean {
  return typeof body === 'object' && body !== null && Object.hasOwn(body, redacted);
}

export function exact<T extends TProperties>(properties: T, options: object = {}): TObject<T> {
  return Type.Object(properties, { additionalProperties: false, ...options });
}

export function choice<const T extends string>(values: readonly T[], description: string, options: object = {}) {
  return Type.Unsafe<T>({ type: 'string', enum: [...values], description, ...options });
}

export const time = (description: string) =>
  Type.String({ description, format: 'date-time', examples: ['2026-03-01T09:30:00+00:00'] });
export const jsonObject = (description: string, options: object = {}) =>
  Type.Unsafe<JsonObject>({ type: 'object', description, ...options });
export const orNull = <T extends TSchema>(schema: T, description: string) =>
  Type.Union([schema, Type.Null()], { description });
export const count = (description: string) => Type.Integer({ description, minimum: 0 });
export const version = Type.Integer({ minimum: 1 });

export const dictionaryName = Type.String({
  pattern: DICTIONARY_NAME,
  description: 'Name of a dictionary.',
  examples: ['site.rooms'],
});
export const scope = choice(scopes, 'Who may know of it: names the topic of its events and the role that is needed.', {
  [validatedByDomain]: true,
});

export function reason(options: object = {}) {
  return Type.Optional(
    Type.String({
      maxLength: MAX_CHANGE_REASON_CHARS,
      pattern: CHANGE_REASON,
      description: 'Why; default: the header X-Change-Reason.',
      examples: ['moved in March'],
      ...options,
    }),
  );
}

/** For a change that its room checks as a whole. */
export const changeReason = reason({ [validatedByDomain]: true });

export const page = {
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: MAX_PAGE, default: DEFAULT_PAGE, description: 'Most items to answer.' }),
  ),
  cursor: Type.Optional(
    Type.String({
      [validatedByDomain]: true,
      pattern: CURSOR,
      maxLength: MAX_CURSOR_CHARS,
      description: 'nextCursor of the page before.',
    }),
  ),
};

/** A number, as idOf in routes/route.ts reads it. */
export const numberId = (description: string, example: string) =>
  Type.String({ pattern: '^[0-9]{1,15}$', description, examples: [example] });
