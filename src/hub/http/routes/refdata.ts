/** Reference data: dictionaries, the drafts of their schemas, records, and bundles of records. */
import type { IncomingMessage } from 'node:http';
import { Type } from '@sinclair/typebox';
import { LinesideError } from '../../../shared/base/errors.ts';
import type { RecordChange } from '../../refdata/face.ts';
import { checkCharset, NDJSON } from '../bodies.ts';
import { changeReason } from '../headers.ts';
import { Headers } from '../schemas/answers.ts';
import { Body, businessKey, Query } from '../schemas/refdata.ts';
import { choice, dictionaryName, exact, jsonObject, time } from '../schemas/shapes.ts';
import { idOf, type RouteParts, type Routes } from './route.ts';

const at = (...parts: readonly string[]): string => `/api/v1/dictionaries/${parts.map(encodeURIComponent).join('/')}`;

export function dictionaryRoutes(routes: Routes, { refdata }: RouteParts): void {
  const route = routes('dictionaries');
  const one = { what: 'The dictionary.', of: 'Dictionary', etag: true } as const;
  route('POST /api/v1/dictionaries', 'admin', {
    id: 'createDictionary',
    summary: 'Make a dictionary',
    body: Body.newDictionary,
    answer: { ...one, status: 201 },
    problems: ['CONFLICT'],
    async handle(call) {
      const made = await refdata.createDictionary(call.caller, call.body, call.reason);
      return call.created(made, at(made.name));
    },
  });
  route('GET /api/v1/dictionaries', 'reader', {
    id: 'listDictionaries',
    summary: 'List dictionaries',
    query: Query.page,
    answer: { what: 'Those in the caller’s scopes.', listOf: 'Dictionary' },
    handle: ({ caller, page }) => refdata.dictionaries(caller, page),
  });
  route('GET /api/v1/dictionaries/:name', 'reader', {
    id: 'getDictionary',
    summary: 'Read a dictionary',
    answer: one,
    handle: ({ caller, params }) => refdata.dictionary(caller, params.name),
  });
  route('PATCH /api/v1/dictionaries/:name', 'admin', {
    id: 'updateDictionary',
    summary: 'Change title, scope or schema',
    description:
      'A new schema binds changes from then on; records that exist stay. If-Match may be left out. A wider scope needs confirmWidening: otherwise 409 with the number of records.',
    body: Body.dictionaryPatch,
    version: 'optional',
    answer: one,
    problems: ['CONFLICT'],
    handle: ({ caller, params, body, reason, version }) =>
      refdata.updateDictionary(caller, params.name, body, reason, version),
  });
}

export function draftRoutes(routes: Routes, { refdata }: RouteParts): void {
  const route = routes('drafts');
  const one = { what: 'The draft.', of: 'Draft' } as const;
  route('POST /api/v1/dictionaries/:name/drafts', 'writer', {
    id: 'createDraft',
    summary: 'Propose a schema',
    body: Body.newDraft,
    answer: { ...one, status: 201 },
    async handle(call) {
      const { name } = call.params;
      const made = await refdata.createDraft(call.caller, name, call.body.schema, call.reason);
      return call.created(made, at(name, 'drafts', String(made.id)));
    },
  });
  route('GET /api/v1/dictionaries/:name/drafts', 'reader', {
    id: 'listDrafts',
    summary: 'List the drafts of a dictionary',
    query: Query.page,
    answer: { what: 'Its drafts.', listOf: 'Draft' },
    handle: ({ caller, params, page }) => refdata.drafts(caller, params.name, page),
  });
  route('GET /api/v1/dictionaries/:name/drafts/:id', 'reader', {
    id: 'getDraft',
    summary: 'Read a draft',
    answer: one,
    handle: ({ caller, params }) => refdata.draft(caller, params.name, idOf(params.id, 'draft')),
  });
  const steps = [
    ['request-review', 'writer', 'requestDraftReview', 'Ask for a review'],
    ['publish', 'admin', 'publishDraft', 'Make an approved draft the schema of its dictionary'],
    ['withdraw', 'writer', 'withdrawDraft', 'Take a draft back'],
  ] as const;
  for (const [step, access, id, summary] of steps) {
    route(`POST /api/v1/dictionaries/:name/drafts/:id/${step}`, access, {
      id,
      summary,
      body: Body.reason,
      answer: one,
      problems: ['CONFLICT'],
      handle: ({ caller, params, reason }) =>
        refdata.stepDraft(caller, params.name, idOf(params.id, 'draft'), step, undefined, reason),
    });
  }
  route('POST /api/v1/dictionaries/:name/drafts/:id/decide', 'admin', {
    id: 'decideDraft',
    summary: 'Approve or reject a draft in review',
    body: Body.decision,
    answer: one,
    problems: ['CONFLICT'],
    handle: ({ caller, params, body, reason }) =>
      refdata.stepDraft(caller, params.name, idOf(params.id, 'draft'), 'decide', body.decision, reason),
  });
}

export function recordRoutes(routes: Routes, { refdata }: RouteParts): void {
  const route = routes('records');
  const one = { what: 'The record.', of: 'Record', etag: true } as const;
  route('GET /api/v1/dictionaries/:name/records', 'reader', {
    id: 'listRecords',
    summary: 'List the records of a dictionary',
    query: Query.records,
    answer: { what: 'By business key.', listOf: 'Record' },
    handle: ({ caller, params, query, page }) => refdata.records(caller, params.name, query, page),
  });
  route('GET /api/v1/dictionaries/:name/records/:key', 'reader', {
    id: 'getRecord',
    summary: 'Read a record',
    description: 'The version that is valid now, or was at the time asked for.',
    query: Query.at,
    answer: one,
    handle: ({ caller, params, query }) => refdata.record(caller, params.name, params.key, query.at),
  });
  route('GET /api/v1/dictionaries/:name/records/:key/history', 'reader', {
    id: 'getRecordHistory',
    summary: 'Read all versions of a record',
    query: Query.page,
    answer: { what: 'Newest first.', listOf: 'Record' },
    handle: ({ caller, params, page }) => refdata.history(caller, params.name, params.key, page),
  });
  route('POST /api/v1/dictionaries/:name/records', 'writer', {
    id: 'createRecord',
    summary: 'Make a record',
    description: 'A business key that was closed is opened again, its versions counted on.',
    body: Body.newRecord,
    answer: { ...one, status: 201 },
    problems: ['CONFLICT'],
    async handle(call) {
      const { name } = call.params;
      const { businessKey } = call.body;
      const made = await refdata.createRecord(call.caller, name, businessKey, changeOf(call.body, call.reason));
      return call.created(made, at(name, 'records', businessKey));
    },
  });
  route('PUT /api/v1/dictionaries/:name/records/:key', 'writer', {
    id: 'updateRecord',
    summary: 'Give a record a new version',
    body: Body.recordChange,
    version: 'required',
    answer: one,
    problems: ['CONFLICT'],
    handle: ({ caller, params, body, reason, version }) =>
      refdata.updateRecord(caller, params.name, params.key, changeOf(body, reason), version),
  });
  route('POST /api/v1/dictionaries/:name/records/:key/close', 'writer', {
    id: 'closeRecord',
    summary: 'Close a record',
    body: Body.reason,
    version: 'required',
    answer: one,
    problems: ['CONFLICT'],
    handle: ({ caller, params, reason, version }) =>
      refdata.closeRecord(caller, params.name, params.key, reason, version),
  });
  route('POST /api/v1/dictionaries/:name/bulk-close', 'writer', {
    id: 'bulkClose',
    summary: 'Close many records in one transaction',
    body: Body.bulkClose,
    answer: { what: 'All of them are closed.', of: 'BulkClosed' },
    problems: ['CONFLICT'],
    handle: ({ caller, params, body, reason }) => refdata.bulkClose(caller, params.name, body.businessKeys, reason),
  });
}

function changeOf({ data, validFrom }: Pick<RecordChange, 'data' | 'validFrom'>, changeReason: string): RecordChange {
  return { data, changeReason, ...(validFrom !== undefined && { validFrom }) };
}

// Bundle import: the body is streamed, never held whole.

/** For the document: the import itself checks its items. */
const item = exact(
  {
    dictionary: dictionaryName,
    businessKey,
    data: Type.Optional(jsonObject('Not with close.')),
    validFrom: Type.Optional(time('From when it is so; default: the time of the import.')),
    action: Type.Optional(
      choice(['upsert', 'close'], 'Make or update the record, or close it.', { default: 'upsert' }),
    ),
  },
  {
    anyOf: [
      { properties: { action: { const: 'upsert' } }, required: ['data'] },
      { properties: { action: { const: 'close' }, data: false, validFrom: false }, required: ['action'] },
    ],
    examples: [{ dictionary: 'site.rooms', businessKey: 'room-12', data: { floor: 2 } }],
  },
);

const body = Type.Unsafe<never>({
  content: {
    [NDJSON]: { schema: { ...item, description: 'A line each.' } },
    'application/json': { schema: exact({ items: Type.Array(item, { description: 'A record each.' }) }) },
  },
});

export function importRoutes(routes: Routes, { refdata, maxImportBytes }: RouteParts): void {
  routes('imports')('POST /api/v1/imports', 'writer', {
    id: 'importBundle',
    summary: 'Import a bundle in one transaction, all or nothing',
    description: 'A line (or item) for each record. Every fault is listed with its line.',
    streams: { types: ['application/json', NDJSON], maxBytes: maxImportBytes, limit: 'http.max_import_bytes' },
    headers: Headers.reason,
    body,
    answer: { what: 'All of it is in.', of: 'ImportResult' },
    problems: ['NOT_FOUND', 'CONFLICT'],
    handle({ caller, request }) {
      const type = request.headers['content-type'];
      if (type === undefined)
        throw new LinesideError('UNSUPPORTED_MEDIA', `send the bundle as ${NDJSON} or application/json`);
      checkCharset(type);
      const format = type.toLowerCase().startsWith(NDJSON) ? 'ndjson' : 'json';
      const reason = changeReason(request.headers['x-change-reason']);
      return refdata.importBundle(caller, format, reason, bytesOf(request.raw, maxImportBytes));
    },
  });
}

/** Breaking out keeps the connection open: the client still gets its answer. */
async function* bytesOf(body: IncomingMessage, maxBytes: number): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  try {
    for await (const chunk of body.iterator({ destroyOnReturn: false })) {
      if (!(chunk instanceof Uint8Array)) continue;
      bytes += chunk.length;
      if (bytes > maxBytes) throw tooLarge(maxBytes);
      yield chunk;
    }
  } catch (error) {
    if (error instanceof LinesideError) throw error;
    throw new LinesideError('MALFORMED', 'the bundle ended before it was whole', { cause: error });
  }
}

function tooLarge(maxBytes: number): LinesideError {
  return new LinesideError('TOO_LARGE', `the bundle is larger than http.max_import_bytes allows (${maxBytes} bytes)`, {
    hint: 'send it in parts; each part is a transaction of its own',
  });
}
