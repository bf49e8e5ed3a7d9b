/** Operations: the outbox, its dead letters, the audit, the alerts. */
import { type App, actorOf, idOf, listed, pageOf, type RouteParts, reasonOf } from './route.ts';
import { answers, Body, Headers, Params, Query, reading, writing } from './schemas.ts';

const deadLetters = '/api/v1/admin/outbox/dead-letters';

export function outboxRoutes(app: App, { outbox }: RouteParts): void {
  const tags = ['outbox'];
  app.get(
    '/api/v1/admin/outbox',
    {
      schema: {
        operationId: 'getOutbox',
        summary: 'Lag, oldest row, blocked keys and why, the broker',
        tags,
        response: answers({ status: 200, what: 'How it stands.', of: 'OutboxStatus' }, reading),
      },
    },
    async () => outbox.status(),
  );

  app.get(
    deadLetters,
    {
      schema: {
        operationId: 'listDeadLetters',
        summary: 'List rows that cannot be published',
        tags,
        querystring: Query.page,
        response: answers({ status: 200, what: 'Dead letters.', listOf: 'DeadLetter' }, reading),
      },
    },
    async (request) => {
      const { scopes } = actorOf(request);
      const { items, nextCursor } = outbox.deadLetters(pageOf(request.query));
      // What is to be decided on is listed whole; the data is read by those who may read the dictionary.
      const shown = items.map((letter) => (scopes.includes(letter.scope) ? letter : { ...letter, envelope: null }));
      return listed({ items: shown, nextCursor });
    },
  );

  const steps = [
    ['requeue', 'requeueDeadLetter', 'Send a dead letter again', 'It is among the waiting rows.'],
    ['discard', 'discardDeadLetter', 'Discard a dead letter permanently', 'It is gone; the change itself stays.'],
  ] as const;
  for (const [step, operationId, summary, what] of steps) {
    app.post(
      `${deadLetters}/:id/${step}`,
      {
        schema: {
          operationId,
          summary,
          tags,
          headers: Headers.reason,
          params: Params.deadLetter,
          body: Body.reason,
          response: answers({ status: 204, what }, [...writing, 'NOT_FOUND', 'CONFLICT']),
        },
      },
      async (request, reply) => {
        const reason = reasonOf(request, request.body);
        await outbox[step](idOf(request.params.id, 'dead letter'), actorOf(request).name, reason);
        return reply.code(204).send();
      },
    );
  }
}

export function oversightRoutes(app: App, { outbox, webhooks, host, watch, upstream }: RouteParts): void {
  app.get(
    '/api/v1/admin/audit',
    {
      schema: {
        operationId: 'listAudit',
        summary: 'List who did what, newest first',
        tags: ['audit'],
        querystring: Query.audit,
        response: answers({ status: 200, what: 'Audit records.', listOf: 'AuditRecord' }, reading),
      },
    },
    async (request) => listed(outbox.audit(request.query.action, pageOf(request.query))),
  );

  app.get(
    '/api/v1/alerts',
    {
      schema: {
        operationId: 'listAlerts',
        summary: 'List what is wrong now',
        tags: ['alerts'],
        response: answers({ status: 200, what: 'Alerts that stand.', listOf: 'Alert' }, reading),
      },
    },
    async () => {
      const items = [outbox, webhooks, host, watch, upstream].flatMap((source) => source?.alerts() ?? []);
      return listed({ items, nextCursor: undefined });
    },
  );
}
