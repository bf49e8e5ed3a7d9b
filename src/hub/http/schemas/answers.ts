/** The answers of routes as OpenAPI has them: what is answered, headers, problems. One set of shapes for checking, types and the document. */
import { type TSchema, Type } from '@sinclair/typebox';
import { type ErrorCode, errorCatalogue } from '../../../shared/base/errors.ts';
import { CHANGE_REASON } from '../../refdata/face.ts';
import { ENTITY_TAGS } from '../headers.ts';
import { PROBLEM_TYPE } from '../problem.ts';
import { lineComponents } from './line.ts';
import { operationComponents } from './operations.ts';
import { refdataComponents } from './refdata.ts';
import { webhookComponents } from './webhooks.ts';

const theVersion = Type.String({
  pattern: ENTITY_TAGS,
  description:
    'The version that is to be changed: its ETag, several of them, or "*" for any. A weak tag matches none (RFC 9110).',
  examples: ['"3"'],
});
const reasonHeader = Type.Optional(
  Type.String({ pattern: CHANGE_REASON, description: 'changeReason where the body has none; UTF-8.' }),
);
/** For the document; what they say is read by headers.ts. */
export const Headers = {
  known: Type.Object({
    'If-None-Match': Type.Optional(
      Type.String({
        pattern: ENTITY_TAGS,
        description: 'ETags that the caller has, or "*": if the answer has one of them, it is 304 without a body.',
        examples: ['"3"'],
      }),
    ),
  }),
  reason: Type.Object({ 'X-Change-Reason': reasonHeader }),
  version: Type.Object({ 'If-Match': Type.Optional(theVersion), 'X-Change-Reason': reasonHeader }),
  versionNeeded: Type.Object({ 'If-Match': theVersion, 'X-Change-Reason': reasonHeader }),
} as const;

/** What is answered, by the name it has in the document. */
export const components = {
  Problem: Type.Object(
    {
      type: Type.String({ format: 'uri', description: 'The code again, as RFC 9457 wants it.' }),
      title: Type.String(),
      status: Type.Integer(),
      detail: Type.String(),
      instance: Type.String({ format: 'uri', description: 'X-Request-Id of the answer, as a URN.' }),
      code: Type.String({ description: 'Decide by this.', examples: ['NOT_FOUND'] }),
      reasons: Type.Optional(Type.Array(Type.String(), { description: 'Every fault, all at once.' })),
      hint: Type.Optional(Type.String({ description: 'What to do next.' })),
    },
    { additionalProperties: false, description: 'RFC 9457 problem details.' },
  ),
  ...refdataComponents,
  ...operationComponents,
  ...webhookComponents,
  ...lineComponents,
} as const satisfies Readonly<Record<string, TSchema>>;

type ComponentName = keyof typeof components;

function reference(name: ComponentName): object {
  return { $ref: `${name}#` };
}

function listOf(name: ComponentName): object {
  return {
    type: 'object',
    required: ['items', 'nextCursor'],
    additionalProperties: false,
    properties: {
      items: { type: 'array', items: reference(name) },
      nextCursor: { type: ['string', 'null'], description: 'cursor of the next page; null: this was the last.' },
    },
  };
}

export interface Answer {
  /** Default 200. */
  readonly status?: number;
  readonly what: string;
  readonly of?: ComponentName;
  readonly listOf?: ComponentName;
  /** Media type and schema, where it is none of the components. */
  readonly raw?: readonly [string, object];
  readonly etag?: true;
}

const header = (description: string, pattern?: string): object => ({
  type: 'string',
  description,
  ...(pattern !== undefined && { pattern }),
});
/** Says to @fastify/swagger that there is no body. */
const NO_BODY = { type: 'null' } as const;

/** The answers of a route: the good one, and the problems it may end with. */
export function answers(good: Answer, problems: readonly ErrorCode[]): Record<string, object> {
  const { status = 200 } = good;
  const schema =
    good.of !== undefined ? reference(good.of) : good.listOf !== undefined ? listOf(good.listOf) : undefined;
  const [type, shape] = good.raw ?? (schema === undefined ? [] : ['application/json', schema]);
  const headers = {
    ...(good.etag === true && { ETag: header('The version, in quotes.', '^"[0-9]+"$') }),
    ...((status === 201 || status === 302) && { Location: header('Where it can be read.') }),
  };
  const response: Record<string, object> = {
    [status]: {
      description: good.what,
      headers,
      ...(type === undefined ? NO_BODY : { content: { [type]: { schema: shape } } }),
    },
  };
  const byStatus = Map.groupBy(new Set(problems), (code) => errorCatalogue[code].http);
  for (const [failed, codes] of byStatus) {
    response[failed] = { description: codes.join(', '), content: { [PROBLEM_TYPE]: { schema: reference('Problem') } } };
  }
  return response;
}

/** Beside the good answer of a route that has Headers.known. */
export const unchanged = { 304: { ...NO_BODY, description: 'It is still the one that If-None-Match names.' } };

/** Problems that any route may end with, by what it asks for. */
export const common: readonly ErrorCode[] = [
  'MALFORMED',
  'REQUEST_TIMEOUT',
  'HEADERS_TOO_LARGE',
  'SHUTTING_DOWN',
  'INTERNAL',
];
export const guarded: readonly ErrorCode[] = [...common, 'UNAUTHENTICATED', 'PERMISSION_DENIED', 'TOO_MANY'];
/** NOT_READY: the line does not answer. */
export const readingLine: readonly ErrorCode[] = [...guarded, 'INVALID_ARGUMENT', 'NOT_READY'];
export const changingLine: readonly ErrorCode[] = [
  ...readingLine,
  'TOO_LARGE',
  'UNSUPPORTED_MEDIA',
  'NOT_CONNECTED',
  'PORT_IO',
  'QUEUE_FULL',
  'UNSUPPORTED',
];
export const reading: readonly ErrorCode[] = [...guarded, 'INVALID_ARGUMENT', 'STORAGE_FAILED', 'STORAGE_DAMAGED'];
export const writing: readonly ErrorCode[] = [...reading, 'TOO_LARGE', 'UNSUPPORTED_MEDIA', 'STORAGE_FULL'];
