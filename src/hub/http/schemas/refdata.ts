/** The shapes of reference data: dictionaries, drafts, records. Pure. */
import { Type } from '@sinclair/typebox';
import { DICTIONARY_NAME, type JsonObject } from '../../outbox/event.ts';
import { PLAIN_TEXT } from '../../refdata/face.ts';
import { MAX_BULK_CLOSE_KEYS } from '../limits.ts';
import {
  changeReason,
  choice,
  count,
  dictionaryName,
  exact,
  jsonObject,
  page,
  reason,
  scope,
  time,
  validatedByDomain,
  version,
} from './shapes.ts';

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
const validFrom = Type.Optional(time('From when it is so; default: the time of the change.'));
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
  newRecord: exact({ businessKey, data, validFrom, changeReason }),
  recordChange: exact({ data, validFrom, changeReason }),
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
export const Query = {
  page: exact(page),
  at: exact({ at }),
  records: exact({
    at,
    which: Type.Optional(
      choice(
        ['valid', 'all'],
        'all: closed ones and those that are not valid yet too, each in its newest version; not with at.',
        {
          default: 'valid',
        },
      ),
    ),
    prefix: Type.Optional(
      Type.String({
        maxLength: 256,
        pattern: PLAIN_TEXT,
        description: 'What the business keys begin with; upper and lower case differ.',
      }),
    ),
    ...page,
  }),
} as const;

export const refdataComponents = {
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
} as const;
