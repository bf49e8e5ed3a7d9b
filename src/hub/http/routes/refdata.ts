/** Records: read now or as of a time, their history, and every change of one. */
import type { RecordChange } from '../refdata/face.ts';
import { ifMatch } from './headers.ts';
import { type App, actorOf, listed, pageOf, type RouteParts, reasonOf, versioned } from './route.ts';
import { answers, Body, Headers, Params, Query, reading, unchanged, writing } from './schemas.ts';

const tags = ['records'];
const records = '/api/v1/dictionaries/:name/records';
const one = { status: 200, what: 'The record.', of: 'Record', etag: true } as const;

export function recordReadRoutes(app: App, { refdata }: RouteParts): void {
  app.get(
    records,
    {
      schema: {
        operationId: 'listRecords',
        summary: 'List the records that are valid',
        tags,
        params: Params.dictionary,
        querystring: Query.pageAt,
        response: answers({ status: 200, what: 'By business key.', listOf: 'Record' }, [...reading, 'NOT_FOUND']),
      },
    },
    async ({ actor, params, query }) =>
      listed(refdata.records(actorOf({ actor }), params.name, query.at, pageOf(query))),
  );

  app.get(
    `${records}/:key`,
    {
      schema: {
        operationId: 'getRecord',
        summary: 'Read a record',
        description: 'The version that is valid now, or was at the time asked for.',
        tags,
        headers: Headers.known,
        params: Params.record,
        querystring: Query.at,
        response: { ...answers(one, [...reading, 'NOT_FOUND']), ...unchanged },
      },
    },
    async ({ actor, params, query }, reply) =>
      versioned(reply, refdata.record(actorOf({ actor }), params.name, params.key, query.at)),
  );

  app.get(
    `${records}/:key/history`,
    {
      schema: {
        operationId: 'getRecordHistory',
        summary: 'Read all versions of a record',
        tags,
        params: Params.record,
        querystring: Query.page,
        response: answers({ status: 200, what: 'Newest first.', listOf: 'Record' }, [...reading, 'NOT_FOUND']),
      },
    },
    async ({ actor, params, query }) =>
      listed(refdata.history(actorOf({ actor }), params.name, params.key, pageOf(query))),
  );
}

export function recordChangeRoutes(app: App, { refdata }: RouteParts): void {
  app.post(
    records,
    {
      schema: {
        operationId: 'createRecord',
        summary: 'Make a record',
        description: 'A business key that was closed is opened again, its versions counted on.',
        tags,
        headers: Headers.reason,
        params: Params.dictionary,
        body: Body.newRecord,
        response: answers({ ...one, status: 201 }, [...writing, 'NOT_FOUND', 'CONFLICT']),
      },
    },
    async (request, reply) => {
      const { name } = request.params;
      const { businessKey } = request.body;
      const change = changeOf(request.body, reasonOf(request, request.body));
      const made = await refdata.createRecord(actorOf(request), name, businessKey, change);
      const path = `/api/v1/dictionaries/${encodeURIComponent(name)}/records/${encodeURIComponent(businessKey)}`;
      reply.code(201).header('location', path);
      return versioned(reply, made);
    },
  );

  app.put(
    `${records}/:key`,
    {
      schema: {
        operationId: 'updateRecord',
        summary: 'Give a record a new version',
        tags,
        headers: Headers.versionNeeded,
        params: Params.record,
        body: Body.recordChange,
        response: answers(one, [...writing, 'NOT_FOUND', 'CONFLICT', 'STALE_VERSION', 'VERSION_REQUIRED']),
      },
    },
    async (request, reply) => {
      const { name, key } = request.params;
      const version = ifMatch(request.headers['if-match']);
      const change = changeOf(request.body, reasonOf(request, request.body));
      return versioned(reply, await refdata.updateRecord(actorOf(request), name, key, change, version));
    },
  );
}

export function recordCloseRoutes(app: App, { refdata }: RouteParts): void {
  app.post(
    `${records}/:key/close`,
    {
      schema: {
        operationId: 'closeRecord',
        summary: 'Close a record',
        tags,
        headers: Headers.versionNeeded,
        params: Params.record,
        body: Body.reason,
        response: answers(one, [...writing, 'NOT_FOUND', 'CONFLICT', 'STALE_VERSION', 'VERSION_REQUIRED']),
      },
    },
    async (request, reply) => {
      const { name, key } = request.params;
      const version = ifMatch(request.headers['if-match']);
      const reason = reasonOf(request, request.body);
      return versioned(reply, await refdata.closeRecord(actorOf(request), name, key, reason, version));
    },
  );

  app.post(
    '/api/v1/dictionaries/:name/bulk-close',
    {
      schema: {
        operationId: 'bulkClose',
        summary: 'Close many records in one transaction',
        tags,
        headers: Headers.reason,
        params: Params.dictionary,
        body: Body.bulkClose,
        response: answers({ status: 200, what: 'All of them are closed.', of: 'BulkClosed' }, [
          ...writing,
          'NOT_FOUND',
          'CONFLICT',
        ]),
      },
    },
    async (request) => {
      const { businessKeys } = request.body;
      const reason = reasonOf(request, request.body);
      return refdata.bulkClose(actorOf(request), request.params.name, businessKeys, reason);
    },
  );
}

function changeOf({ data, validFrom }: Pick<RecordChange, 'data' | 'validFrom'>, changeReason: string): RecordChange {
  return { data, changeReason, ...(validFrom !== undefined && { validFrom }) };
}
