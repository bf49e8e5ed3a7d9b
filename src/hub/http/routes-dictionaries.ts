/** Dictionaries and their definitions. */
import { ifMatch } from './headers.ts';
import { type App, actorOf, listed, pageOf, type RouteParts, reasonOf, versioned } from './route.ts';
import { answers, Body, Headers, Params, Query, reading, unchanged, writing } from './schemas.ts';

const tags = ['dictionaries'];
const one = { status: 200, what: 'The dictionary.', of: 'Dictionary', etag: true } as const;

export function dictionaryRoutes(app: App, { refdata }: RouteParts): void {
  app.post(
    '/api/v1/dictionaries',
    {
      schema: {
        operationId: 'createDictionary',
        summary: 'Make a dictionary',
        tags,
        headers: Headers.reason,
        body: Body.newDictionary,
        response: answers({ ...one, status: 201 }, [...writing, 'CONFLICT']),
      },
    },
    async (request, reply) => {
      const { changeReason: _, ...wanted } = request.body;
      const made = await refdata.createDictionary(actorOf(request), wanted, reasonOf(request, request.body));
      reply.code(201).header('location', `/api/v1/dictionaries/${encodeURIComponent(made.name)}`);
      return versioned(reply, made);
    },
  );

  app.get(
    '/api/v1/dictionaries',
    {
      schema: {
        operationId: 'listDictionaries',
        summary: 'List dictionaries',
        tags,
        querystring: Query.page,
        response: answers({ status: 200, what: 'Those in the caller’s scopes.', listOf: 'Dictionary' }, reading),
      },
    },
    async (request) => listed(refdata.dictionaries(actorOf(request), pageOf(request.query))),
  );

  app.get(
    '/api/v1/dictionaries/:name',
    {
      schema: {
        operationId: 'getDictionary',
        summary: 'Read a dictionary',
        tags,
        headers: Headers.known,
        params: Params.dictionary,
        response: { ...answers(one, [...reading, 'NOT_FOUND']), ...unchanged },
      },
    },
    async (request, reply) => versioned(reply, refdata.dictionary(actorOf(request), request.params.name)),
  );

  app.patch(
    '/api/v1/dictionaries/:name',
    {
      schema: {
        operationId: 'updateDictionary',
        summary: 'Change title, scope or schema',
        description:
          'A new schema binds changes from then on; records that exist stay. If-Match may be left out. A wider scope needs confirmWidening: otherwise 409 with the number of records.',
        tags,
        headers: Headers.version,
        params: Params.dictionary,
        body: Body.dictionaryPatch,
        response: answers(one, [...writing, 'NOT_FOUND', 'STALE_VERSION', 'CONFLICT']),
      },
    },
    async (request, reply) => {
      const { changeReason: _, ...patch } = request.body;
      const reason = reasonOf(request, request.body);
      const version = ifMatch(request.headers['if-match']);
      return versioned(
        reply,
        await refdata.updateDictionary(actorOf(request), request.params.name, patch, reason, version),
      );
    },
  );
}
