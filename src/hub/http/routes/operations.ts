/** Operations: the outbox and its dead letters, the audit, the alerts, the machine. */
import { AuditQuery, DeadLetterParams } from '../schemas/operations.ts';
import { Body, Query } from '../schemas/refdata.ts';
import { idOf, pageOf, type RouteParts, type Routes } from './route.ts';

export function operationRoutes(routes: Routes, { outbox, webhooks, host, watch, upstream }: RouteParts): void {
  const ofOutbox = routes('outbox');
  ofOutbox('GET /api/v1/admin/outbox', 'admin', {
    id: 'getOutbox',
    summary: 'Lag, oldest row, blocked keys and why, the broker',
    answer: { what: 'How it stands.', of: 'OutboxStatus' },
    handle: () => outbox.status(),
  });
  ofOutbox('GET /api/v1/admin/outbox/dead-letters', 'admin', {
    id: 'listDeadLetters',
    summary: 'List rows that cannot be published',
    query: Query.page,
    answer: { what: 'Dead letters.', listOf: 'DeadLetter' },
    handle({ caller: { scopes }, query }) {
      const { items, nextCursor } = outbox.deadLetters(pageOf(query));
      // What is to be decided on is listed whole; the data is read by those who may read the dictionary.
      const shown = items.map((letter) => (scopes.includes(letter.scope) ? letter : { ...letter, envelope: null }));
      return { items: shown, nextCursor };
    },
  });
  const steps = [
    ['requeue', 'requeueDeadLetter', 'Send a dead letter again', 'It is among the waiting rows.'],
    ['discard', 'discardDeadLetter', 'Discard a dead letter permanently', 'It is gone; the change itself stays.'],
  ] as const;
  for (const [step, id, summary, what] of steps) {
    ofOutbox(`POST /api/v1/admin/outbox/dead-letters/:id/${step}`, 'admin', {
      id,
      summary,
      params: DeadLetterParams,
      body: Body.reason,
      answer: { status: 204, what },
      problems: ['CONFLICT'],
      handle: ({ caller, params, reason }) => outbox[step](idOf(params.id, 'dead letter'), caller.name, reason),
    });
  }
  routes('audit')('GET /api/v1/admin/audit', 'admin', {
    id: 'listAudit',
    summary: 'List who did what, newest first',
    query: AuditQuery,
    answer: { what: 'Audit records.', listOf: 'AuditRecord' },
    handle: ({ query }) => outbox.audit(query.action, pageOf(query)),
  });
  routes('alerts')('GET /api/v1/alerts', 'reader or viewer', {
    id: 'listAlerts',
    summary: 'List what is wrong now',
    answer: { what: 'Alerts that stand.', listOf: 'Alert' },
    handle: () => ({
      items: [outbox, webhooks, host, watch, upstream].flatMap((source) => source?.alerts() ?? []),
      nextCursor: undefined,
    }),
  });
  routes('host')('GET /api/v1/admin/host', 'viewer', {
    id: 'getHost',
    summary: 'Temperature, voltage, memory, disk and card, clock, boots and losses of power',
    answer: { what: 'How it stands.', of: 'HostFacts' },
    handle: () => ({ ...host.facts(), hub: watch?.hubFaults() ?? { configurationRefused: '', listenerFault: '' } }),
  });
}
