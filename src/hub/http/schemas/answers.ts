/** What routes answer, by the names of the document; the headers they read; the problems they may end with. */
import { type TSchema, Type } from '@sinclair/typebox';
import type { ErrorCode } from '../../../shared/base/errors.ts';
import { CHANGE_REASON } from '../../outbox/event.ts';
import { ENTITY_TAGS } from '../headers.ts';
import { adminComponents } from './admin.ts';
import { historyComponents } from './history.ts';
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
/** For the document; headers.ts reads them. */
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
  ...adminComponents,
  ...historyComponents,
} as const satisfies Readonly<Record<string, TSchema>>;

export type ComponentName = keyof typeof components;

export interface Answer {
  /** Default 200. */
  readonly status?: number;
  readonly what: string;
  readonly of?: ComponentName;
  readonly listOf?: ComponentName;
  /** Media type and schema, if the answer is none of the components. */
  readonly raw?: readonly [string, object];
  readonly etag?: true;
}

/** Problems of any route, by its kind. */
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
export const reading: readonly ErrorCode[] = [
  ...guarded,
  'INVALID_ARGUMENT',
  'STORAGE_FAILED',
  'STORAGE_DAMAGED',
  'UPDATE_ON_TRIAL',
];
export const writing: readonly ErrorCode[] = [...reading, 'TOO_LARGE', 'UNSUPPORTED_MEDIA', 'STORAGE_FULL'];
