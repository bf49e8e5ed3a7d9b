/** The shapes of requests and answers: one set for checking, for types and for the OpenAPI document. */
import { type TSchema, Type } from '@sinclair/typebox';
import { type ErrorCode, errorCatalogue } from '../../shared/base/errors.ts';
import { DICTIONARY_NAME, type JsonObject } from '../outbox/event.ts';
import { CHANGE_REASON, PLAIN_TEXT } from '../refdata/face.ts';
import { ENTITY_TAGS } from './headers.ts';
import { MAX_BULK_CLOSE_KEYS } from './limits.ts';
import { PROBLEM_TYPE } from './problem.ts';
import { hostComponents } from './schemas-host.ts';
import { lineComponents } from './schemas-line.ts';
import { webhookComponents } from './schemas-webhooks.ts';
import { choice, count, dictionaryName, exact, jsonObject, page, reason, scope, time, version } from './shapes.ts';
import { validatedByDomain } from './validated-by-domain.ts';

export const businessKey = Type.String({
  [validatedByDomain]: true,
  minLength: 1,
  maxLength: 256,
  pattern: PLAIN_TEXT,
  description: 'Key of the record in its dictionary: any Unicode but control characters, compared byte by byte.',
  examples: ['room-12'],
});
const title = Type.String({
  [validatedByDomain]: true,
  minLength: 1,
  maxLength: 256,
  pattern: PLAIN_TEXT,
  description: 'What it is called for people.',
  examples: ['Rooms of the site'],
});
const jsonSchema = Type.Unsafe<JsonObject | null>({
  type: ['object', 'null'],
  description: 'JSON Schema (2020-12, or draft-07 by $schema) of data; null: any object.',
});
const changeReason = reason({ [validatedByDomain]: true });
const data = jsonObject('The record itself; numbers that a double cannot keep exactly are refused.', {
  examples: [{ name: 'Control room', floor: 2 }],
});

export const Body = {
  newDictionary: exact({
    name: Type.String({
      [validatedByDomain]: true,
      pattern: DICTIONARY_NAME,
      description: 'a-z, 0-9, ".", "_" and "-", beginning with a letter or digit, up to 128; never changes.',
      examples: ['site.rooms'],
    }),
    title,
    scope,
    schema: Type.Optional(jsonSchema),
    changeReason,
  }),
  dictionaryPatch: exact(
    {
      title: Type.Optional(title),
      scope: Type.Optional(scope),
      confirmWidening: Type.Optional(
        Type.Boolean({
          description: 'Must be true where scope is wider than before: more consumers may read every record.',
        }),
      ),
      schema: Type.Optional(jsonSchema),
      changeReason,
    },
    {
      [validatedByDomain]: true,
      anyOf: ['title', 'scope', 'schema'].map((name) => ({ required: [name], [validatedByDomain]: true })),
    },
  ),
  newDraft: exact({ schema: jsonObject('JSON Schema that is to become the dictionary’s.'), changeReason }),
  reason: exact({ changeReason: reason() }),
  decision: exact({ decision: choice(['approved', 'rejected'], 'What the review came to.'), changeReason: reason() }),
  newRecord: exact({
    businessKey,
    data,
    validFrom: Type.Optional(time('From when it is so; default: the time of the change.')),
    changeReason,
  }),
  recordChange: exact({
    data,
    validFrom: Type.Optional(time('From when it is so; default: the time of the change.')),
    changeReason,
  }),
  bulkClose: exact({
    businessKeys: Type.Array(businessKey, {
      [validatedByDomain]: true,
      minItems: 1,
      maxItems: MAX_BULK_CLOSE_KEYS,
      uniqueItems: true,
      description: 'Each once.',
    }),
    changeReason,
  }),
} as const;

const at = Type.Optional(time('As of this time; default: now.'));
/** As idOf in route.ts reads it. */
const ID = '^[0-9]{1,15}$';

export const Query = {
  page: exact(page),
  at: exact({ at }),
  pageAt: exact({ at, ...page }),
  audit: exact({
    action: Type.Optional(Type.String({ description: 'Only records of this action.', examples: ['outbox.dlq'] })),
    ...page,
  }),
} as const;

const draftId = Type.String({ pattern: ID, description: 'id of the draft.', examples: ['1'] });
export const Params = {
  dictionary: exact({ name: dictionaryName }),
  draft: exact({ name: dictionaryName, id: draftId }),
  record: exact({
    name: dictionaryName,
    key: Type.String({
      minLength: 1,
      maxLength: 256,
      pattern: PLAIN_TEXT,
      description: 'Business key, percent-encoded ("/" as %2F).',
      examples: ['room-12'],
    }),
  }),
  deadLetter: exact({ id: Type.String({ pattern: ID, description: 'id of the dead letter.', examples: ['17'] }) }),
} as const;

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
      type: Type.String({ format: 'uri' }),
      title: Type.String(),
      status: Type.Integer(),
      detail: Type.String(),
      instance: Type.String({ format: 'uri' }),
      code: Type.String({ description: 'Decide by this.', examples: ['NOT_FOUND'] }),
      reasons: Type.Optional(Type.Array(Type.String(), { description: 'Every fault, all at once.' })),
      hint: Type.Optional(Type.String({ description: 'What to do next.' })),
    },
    { additionalProperties: false, description: 'RFC 9457 problem details.' },
  ),
  Dictionary: exact({
    name: dictionaryName,
    title: Type.String(),
    scope,
    schema: jsonSchema,
    version,
    createdAt: time('When it was made.'),
    updatedAt: time('When it was last changed.'),
    changedBy: Type.String(),
  }),
  Draft: exact({
    id: Type.Integer(),
    dictionary: dictionaryName,
    state: choice(['draft', 'inReview', 'approved', 'rejected', 'published', 'withdrawn'], 'Where it stands.'),
    schema: jsonObject('JSON Schema.'),
    changeReason: Type.String(),
    createdBy: Type.String(),
    createdAt: time('When it was made.'),
    updatedBy: Type.String(),
    updatedAt: time('When it last took a step.'),
  }),
  Record: exact({
    dictionary: dictionaryName,
    businessKey,
    version,
    action: choice(['created', 'updated', 'closed'], 'What made this version.'),
    data,
    validFrom: time('From when it is so.'),
    validTo: time('Until when; 9999-12-31T23:59:59.999999+00:00 while it is open.'),
    txTime: time('Time of the transaction, strictly increasing on the device.'),
    changedBy: Type.String(),
    changeReason: Type.String(),
  }),
  BulkClosed: exact({ txTime: time('Time of the transaction.'), closed: count('Records closed.') }),
  ImportResult: exact({
    txTime: time('Time of the transaction.'),
    created: count('Records made, or opened again.'),
    updated: count('Records with a new version.'),
    closed: count('Records closed.'),
    unchanged: count('Upserts of what is so already.'),
  }),
  OutboxStatus: exact({
    waiting: count('Rows that the broker has still to acknowledge.'),
    oldest: Type.Optional(
      exact({ id: Type.Integer(), txTime: time('Of its transaction.'), ageSeconds: Type.Number() }),
    ),
    inFlight: count('Rows on their way.'),
    inFlightBytes: count('Their bytes.'),
    publishedTotal: count('Acknowledged since the start.'),
    refusedTotal: count('Refusals by a broker that was reached, since the start.'),
    unreachedTotal: count('Sendings that reached no broker, since the start.'),
    prunedTotal: count(
      'Oldest events removed unpublished, since the start: no broker, and outbox.max_bytes was reached.',
    ),
    deadLetters: count('Rows that cannot be published.'),
    blockedKeys: Type.Array(
      exact({
        topic: Type.String(),
        key: Type.String({ description: '<dictionary>:<businessKey>' }),
        outboxId: Type.Integer(),
        attempts: count('Refusals of its first row.'),
        reason: Type.String(),
        nextAttemptInSeconds: Type.Number(),
      }),
      { description: 'At most 100.' },
    ),
    blockedKeyCount: count('Of all.'),
    broker: exact({
      configured: Type.Boolean({ description: 'false: kafka.bootstrap is empty, rows wait.' }),
      connected: Type.Boolean(),
      reason: Type.String(),
      forSeconds: Type.Number(),
      producersReplaced: count('Times since the start that the client was recreated after a fatal error.'),
      topics: Type.Array(
        exact({
          name: Type.String(),
          partitions: count('0: not there, or not known yet.'),
          lacks: Type.Array(Type.String()),
        }),
      ),
    }),
  }),
  DeadLetter: exact({
    id: Type.Integer(),
    diedAt: time('When it was given up.'),
    attempts: count('Refusals.'),
    reason: Type.String(),
    topic: Type.String(),
    scope,
    dictionary: dictionaryName,
    businessKey,
    action: choice(['created', 'updated', 'closed'], 'What the change was.'),
    txTime: time('Of the change.'),
    envelope: Type.Unsafe<JsonObject | null>({
      type: ['object', 'null'],
      description: 'The event as it would have been sent; null where its scope is not open to the caller.',
    }),
  }),
  AuditRecord: exact({
    id: Type.Integer(),
    at: time('When.'),
    actor: Type.String(),
    action: Type.String({ examples: ['outbox.dlq'] }),
    subject: Type.String(),
    details: jsonObject('What belongs to the action.'),
  }),
  Alert: exact({
    name: Type.String({ examples: ['RefdataOutboxLagHigh'] }),
    severity: choice(['info', 'warning', 'critical'], 'How bad it is.'),
    forSeconds: Type.Number(),
    summary: Type.String(),
    value: Type.Number(),
  }),
  Health: exact({ status: Type.Literal('ok'), version: Type.String() }),
  ...webhookComponents,
  ...hostComponents,
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
