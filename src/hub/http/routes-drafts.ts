/** Schema drafts and their way to being published. */
import type { DraftStep } from '../refdata/face.ts';
import { type App, actorOf, idOf, listed, pageOf, type RouteParts, reasonOf } from './route.ts';
import { answers, Body, Headers, Params, Query, reading, writing } from './schemas.ts';

const tags = ['drafts'];
const drafts = '/api/v1/dictionaries/:name/drafts';
const one = { status: 200, what: 'The draft.', of: 'Draft' } as const;

export function draftRoutes(app: App, { refdata }: RouteParts): void {
  app.post(
    drafts,
    {
      schema: {
        operationId: 'createDraft',
        summary: 'Propose a schema',
        tags,
        headers: Headers.reason,
        params: Params.dictionary,
        body: Body.newDraft,
        response: answers({ ...one, status: 201 }, [...writing, 'NOT_FOUND']),
      },
    },
    async (request, reply) => {
      const { name } = request.params;
      const { schema } = request.body;
      const made = await refdata.createDraft(actorOf(request), name, schema, reasonOf(request, request.body));
      reply.code(201).header('location', `/api/v1/dictionaries/${encodeURIComponent(name)}/drafts/${made.id}`);
      return made;
    },
  );

  app.get(
    drafts,
    {
      schema: {
        operationId: 'listDrafts',
        summary: 'List the drafts of a dictionary',
        tags,
        params: Params.dictionary,
        querystring: Query.page,
        response: answers({ status: 200, what: 'Its drafts.', listOf: 'Draft' }, [...reading, 'NOT_FOUND']),
      },
    },
    async (request) => listed(refdata.drafts(actorOf(request), request.params.name, pageOf(request.query))),
  );

  app.get(
    `${drafts}/:id`,
    {
      schema: {
        operationId: 'getDraft',
        summary: 'Read a draft',
        tags,
        params: Params.draft,
        response: answers(one, [...reading, 'NOT_FOUND']),
      },
    },
    async ({ actor, params }) => refdata.draft(actorOf({ actor }), params.name, idOf(params.id, 'draft')),
  );
}

const steps: readonly (readonly [Exclude<DraftStep, 'decide'>, string, string])[] = [
  ['request-review', 'requestDraftReview', 'Ask for a review'],
  ['publish', 'publishDraft', 'Make an approved draft the schema of its dictionary'],
  ['withdraw', 'withdrawDraft', 'Take a draft back'],
];

export function draftStepRoutes(app: App, { refdata }: RouteParts): void {
  const response = answers(one, [...writing, 'NOT_FOUND', 'CONFLICT']);
  for (const [step, operationId, summary] of steps) {
    app.post(
      `${drafts}/:id/${step}`,
      {
        schema: {
          operationId,
          summary,
          tags,
          headers: Headers.reason,
          params: Params.draft,
          body: Body.reason,
          response,
        },
      },
      async (request) => {
        const { name, id } = request.params;
        const reason = reasonOf(request, request.body);
        return refdata.stepDraft(actorOf(request), name, idOf(id, 'draft'), step, undefined, reason);
      },
    );
  }

  app.post(
    `${drafts}/:id/decide`,
    {
      schema: {
        operationId: 'decideDraft',
        summary: 'Approve or reject a draft in review',
        tags,
        headers: Headers.reason,
        params: Params.draft,
        body: Body.decision,
        response,
      },
    },
    async (request) => {
      const { name, id } = request.params;
      const reason = reasonOf(request, request.body);
      const { decision } = request.body;
      return refdata.stepDraft(actorOf(request), name, idOf(id, 'draft'), 'decide', decision, reason);
    },
  );
}
