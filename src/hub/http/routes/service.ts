/**
 * The service itself, open to every client: health, metrics, OpenAPI, the files of the console; and its operation: the outbox
 * and its dead letters, the audit, the alerts, the machine.
 */
import { hostname } from 'node:os';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { LinesideError } from '../../../shared/base/errors.ts';
import type { ConsoleFile } from '../console-files.ts';
import { guarded, Headers } from '../schemas/answers.ts';
import { AuditQuery, EventQuery } from '../schemas/operations.ts';
import { Body } from '../schemas/refdata.ts';
import { idOf, type RouteParts, type Routes } from './route.ts';

export function serviceRoutes(routes: Routes, { metrics, version, deviceId, trouble, openapi }: RouteParts): void {
  // A network may give the host another name while the service runs.
  const ok = () => ({ status: 'ok', version, name: hostname(), deviceId });
  const route = routes('service');
  route('GET /healthz', 'open', {
    id: 'getHealth',
    summary: 'Whether the process lives',
    answer: { what: 'It does.', of: 'Health' },
    handle: ok,
  });
  route('GET /readyz', 'open', {
    id: 'getReadiness',
    summary: 'Whether the service works, and why not',
    answer: { what: 'It does.', of: 'Health' },
    problems: ['NOT_READY'],
    handle() {
      const error = trouble();
      if (error !== undefined) throw notReady(error);
      return ok();
    },
  });
  route('GET /metrics', 'open', {
    id: 'getMetrics',
    summary: 'Numbers for Prometheus',
    answer: { what: 'Text format 0.0.4.', raw: ['text/plain', { type: 'string' }] },
    problems: ['UPDATE_ON_TRIAL'],
    handle: async ({ reply }) => reply.type(metrics.contentType).send(await metrics.text()),
  });
  route('GET /openapi.json', 'open', {
    id: 'getOpenapi',
    summary: 'This document',
    answer: { what: 'OpenAPI 3.1.', raw: ['application/json', { type: 'object' }] },
    handle: ({ reply }) => reply.type('application/json; charset=utf-8').send(openapi()),
  });
  route('GET /api/v1/whoami', 'any role', {
    id: 'getCaller',
    summary: 'Whose token this is, and what it may do',
    base: guarded,
    answer: { what: 'The caller.', of: 'Caller' },
    handle: ({ caller: { name, roles } }) => ({ name, roles }),
  });
}

const CONSOLE = '/console/';

export function consoleRoutes(routes: Routes, { consoleFile }: RouteParts): void {
  const route = routes('console');
  for (const [name, id] of [
    ['GET /', 'goToConsole'],
    ['GET /console', 'goToConsoleDirectory'],
  ] as const) {
    route(name, 'open', {
      id,
      summary: 'To the console',
      answer: { status: 302, what: 'There.' },
      handle: ({ reply }) => reply.redirect(CONSOLE, 302),
    });
  }
  route('GET /console/', 'open', {
    id: 'getConsole',
    summary: 'The console',
    headers: Headers.known,
    answer: { what: 'The page.', raw: ['text/html', { type: 'string' }] },
    problems: ['NOT_FOUND'],
    handle: async ({ request, reply }) => sendFile(request, reply, await consoleFile('index.html')),
  });
  route('GET /console/:file', 'open', {
    id: 'getConsoleFile',
    summary: 'A file of the console',
    headers: Headers.known,
    answer: { what: 'The file.', raw: ['*/*', { type: 'string' }] },
    handle: async ({ request, reply, params }) => sendFile(request, reply, await consoleFile(params.file)),
  });
}

/** 503 whatever the error is, for probes and load balancers. */
function notReady(error: LinesideError): LinesideError {
  const { code, message, hint } = error;
  return new LinesideError('NOT_READY', message, { cause: error, hint, reasons: [`${code}: ${message}`] });
}

/** A browser may keep a file and must revalidate it, one small answer on the LAN; unless its name changes with its content. */
async function sendFile(request: FastifyRequest, reply: FastifyReply, file: ConsoleFile): Promise<FastifyReply> {
  const { plain, gzipped, type, isHashed } = file;
  const takesGzip = /\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/i.test(request.headers['accept-encoding']?.toString() ?? '');
  const chosen = (takesGzip ? gzipped : undefined) ?? plain;
  reply.headers({
    'cache-control': isHashed ? 'public, max-age=31536000, immutable' : 'no-cache',
    etag: `"${chosen.etag}"`,
    vary: 'accept-encoding',
    'content-length': chosen.size,
  });
  if (chosen === gzipped) reply.header('content-encoding', 'gzip');
  return reply.type(type).send(chosen.read());
}

export function operationRoutes(routes: Routes, { outbox, webhooks, host, watch, upstream }: RouteParts): void {
  const ofOutbox = routes('outbox');
  ofOutbox('GET /api/v1/admin/outbox', 'admin', {
    id: 'getOutbox',
    summary: 'Lag, oldest row, blocked keys and why, the broker',
    answer: { what: 'How it stands.', of: 'OutboxStatus' },
    handle: () => outbox.status(),
  });
  const shortPage = 'A page may hold fewer than requested, or none, and still have a nextCursor.';
  ofOutbox('GET /api/v1/admin/outbox/waiting', 'admin', {
    id: 'listWaitingEvents',
    summary: 'List events that the broker has not acknowledged, and why, oldest first',
    description: shortPage,
    query: EventQuery,
    answer: { what: 'Waiting events.', listOf: 'WaitingEvent' },
    handle: ({ query, page }) => outbox.waitingEvents({ ...query, ...page }),
  });
  ofOutbox('GET /api/v1/admin/outbox/dead-letters', 'admin', {
    id: 'listDeadLetters',
    summary: 'List rows that cannot be published',
    description: shortPage,
    query: EventQuery,
    answer: { what: 'Dead letters.', listOf: 'DeadLetter' },
    handle({ caller: { scopes }, query, page }) {
      const { items, nextCursor } = outbox.deadLetters({ ...query, ...page });
      // An admin decides on every letter; the data is for those who may read the dictionary.
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
    handle: ({ query, page }) => outbox.audit(query.action, page),
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
