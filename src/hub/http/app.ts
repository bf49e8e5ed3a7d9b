/** The Fastify app: what is done for every request around its route's handler. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { TSchema } from '@sinclair/typebox';
import Fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifyServerOptions,
} from 'fastify';
import type { AuthFailureLog } from '../../shared/base/burst-log.ts';
import type { Clock } from '../../shared/base/clock.ts';
import { errorCatalogue, LinesideError, systemCode } from '../../shared/base/errors.ts';
import type { Logger } from '../../shared/base/logger.ts';
import type { Access, Caller } from './access.ts';
import { type BodyBudget, checkEncoding, checkLength, readJson } from './bodies.ts';
import { isKnown, requestId, securityHeaders } from './headers.ts';
import { LINGER_MS, MAX_HEADER_BYTES, MAX_QUERY_PARAMETERS, MAX_QUOTED_CHARS } from './limits.ts';
import { NO_ROUTE } from './metrics/metrics.ts';
import { errorOf, problemHeaders, problemOf } from './problem.ts';
import type { Route, RouteParts, StreamedBody } from './routes/route.ts';
import { routesWith } from './routes/routes.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The caller; undefined on open routes. */
    actor: Caller | undefined;
  }
  interface FastifyContextConfig {
    access?: Access;
    query?: TSchema | undefined;
    body?: TSchema | undefined;
    streams?: StreamedBody | undefined;
  }
}

export interface AppParts extends RouteParts {
  readonly refusals: AuthFailureLog;
  readonly logger: Logger;
  readonly maxBodyBytes: number;
  readonly bodies: BodyBudget;
  readonly isStopping: () => boolean;
}

export async function buildApp(parts: AppParts): Promise<FastifyInstance> {
  const app = Fastify(optionsFor(parts));
  app.decorateRequest('actor', undefined);
  app.setErrorHandler((error, request, reply) => answerProblem(parts, error, request, reply));
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, async (request: FastifyRequest, bytes: Buffer) =>
    readJson(request, bytes),
  );
  addHooks(app, parts);
  await addRoutes(app, routesWith(parts));
  await app.ready();
  return app;
}

async function addRoutes(app: FastifyInstance, routes: readonly Route[]): Promise<void> {
  const add = (scope: FastifyInstance, all: readonly Route[]): void => {
    for (const { method, url, access, query, body, streams, handle } of all)
      scope.route({ method, url, config: { access, query, body, streams }, handler: handle });
  };
  for (const [types, group] of Map.groupBy(routes, ({ streams }) => streams?.types.join(' '))) {
    if (types === undefined) add(app, group);
    // In a scope of their own: here bodies are not parsed.
    else
      await app.register(async (scope) => {
        scope.removeAllContentTypeParsers();
        scope.addContentTypeParser(types.split(' '), (_request, _payload, done) => done(null));
        add(scope, group);
      });
  }
}

function optionsFor(parts: AppParts): FastifyServerOptions {
  return {
    bodyLimit: parts.maxBodyBytes,
    genReqId: (raw) => requestId(raw.headers['x-request-id']) ?? randomUUID(),
    // No shorter than the whole request line may be: the length of a key is the handler's to check.
    routerOptions: { maxParamLength: MAX_HEADER_BYTES, querystringParser: parseQuery },
    // For paths that cannot be parsed, for which no hook runs.
    frameworkErrors: (error, request, reply) => {
      parts.metrics.answered(NO_ROUTE, request.method, errorCatalogue[errorOf(error).code].http, 0);
      answerProblem(parts, error, request, reply);
    },
    // Loads neither of Fastify's own compilers: check.ts checks requests, JSON.stringify writes answers.
    // (Fastify's type of a validator is Ajv's.)
    schemaController: {
      compilersFactory: {
        buildValidator: (() => () => () => true) as never,
        buildSerializer: () => () => JSON.stringify,
      },
    },
  };
}

function addHooks(app: FastifyInstance, parts: AppParts): void {
  const served: ServedRoute[] = [];
  app.addHook('onRoute', ({ method, url }) => {
    const path = url.replaceAll('.', '\\.').replaceAll(/:[a-z]+/g, '[^/]*');
    served.push({ method: String(method), pattern: new RegExp(`^${path}$`) });
  });
  app.addHook('onRequest', async (request, reply) => {
    reply.headers({ 'x-request-id': request.id, ...securityHeaders(request.url) });
    if (parts.isStopping()) throw stopping();
    if (request.is404) return answerUnrouted(served, request, reply);
    await admit(parts, request);
    // The body of a GET is never read.
    if (request.method !== 'GET' && request.method !== 'HEAD') admitBody(parts, request, reply);
  });
  app.addHook('preValidation', async (request) => {
    const { access, query: querySchema = NO_PARAMETERS, body, streams } = request.routeOptions.config;
    // Probes may carry any query.
    if (access === undefined || access === 'open') return;
    const query = request.query as Readonly<Record<string, unknown>> & { readonly [queryFault]?: string };
    if (query[queryFault] !== undefined) throw new LinesideError('MALFORMED', `the query ${query[queryFault]}`);
    const bodySchema = streams === undefined ? body : undefined;
    // There is nothing to check: a box that is only probed need not load the checker.
    if (bodySchema === undefined && Object.keys(query).length === 0) return;
    const { check } = await import('./check.ts');
    const checked = check(bodySchema, querySchema, { body: request.body, query });
    request.body = checked.body;
    request.query = checked.query;
  });
  app.addHook('preHandler', async (request, reply) => {
    // The client disconnected while the token and the body were read: the handler is the expensive part.
    if (request.raw.socket.destroyed) return reply.hijack();
  });
  app.addHook('onSend', async (request, reply, payload) => {
    // An idle connection would delay the stop.
    if (parts.isStopping()) reply.header('connection', 'close');
    const etag = reply.getHeader('etag');
    const mayBeKnown = (request.method === 'GET' || request.method === 'HEAD') && reply.statusCode === 200;
    if (!mayBeKnown || typeof etag !== 'string' || !isKnown(etag, request.headers['if-none-match'])) return payload;
    reply.code(304);
    for (const name of ['content-type', 'content-length', 'content-encoding']) reply.removeHeader(name);
    // HEAD answers with the length of the answer alone.
    return request.method === 'HEAD' ? payload : null;
  });
  app.addHook('onResponse', async (request, reply) => {
    const route = request.routeOptions.url ?? NO_ROUTE;
    parts.metrics.answered(route, request.method, reply.statusCode, reply.elapsedTime / 1_000);
    cutIfUnread(parts.clock, request.raw);
    // An answer that began before the stop has promised to keep its connection.
    if (parts.isStopping()) request.raw.socket.destroySoon();
  });
}

const NO_PARAMETERS = { type: 'object', additionalProperties: false, properties: {} };

async function admit({ authenticate, refusals }: AppParts, request: FastifyRequest): Promise<void> {
  if (request.routeOptions.config.access === 'open') return;
  try {
    request.actor = await authenticate(request);
  } catch (error) {
    if (error instanceof LinesideError) {
      refusals.note(`${request.method} ${request.routeOptions.url ?? NO_ROUTE}`, request.ip, error.message);
    }
    throw error;
  }
}

function admitBody(parts: AppParts, request: FastifyRequest, reply: FastifyReply): void {
  checkEncoding(request.headers['content-encoding']);
  const { 'content-length': length } = request.headers;
  const { streams } = request.routeOptions.config;
  if (streams !== undefined) checkLength(length, streams.maxBytes, streams.limit);
  else {
    checkLength(length, parts.maxBodyBytes, 'http.max_body_bytes');
    parts.bodies.take(request, reply);
  }
  if (request.headers.expect?.toLowerCase() === '100-continue') reply.raw.writeContinue();
}

interface ServedRoute {
  readonly method: string;
  readonly pattern: RegExp;
}

function answerUnrouted(served: readonly ServedRoute[], request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const path = request.url.split('?', 1)[0] ?? '';
  const methods = served.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method);
  if (methods.length === 0)
    throw new LinesideError('NOT_FOUND', 'no route has this path', { hint: 'see /openapi.json' });
  methods.push('OPTIONS');
  reply.header('allow', methods.join(', '));
  if (request.method === 'OPTIONS') return reply.code(204).send();
  throw new LinesideError('METHOD_NOT_ALLOWED', `this path has only ${methods.join(', ')}`);
}

function answerProblem(parts: AppParts, thrown: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const error = errorOf(thrown);
  const problem = problemOf(error, request.id);
  if (error.code === 'INTERNAL') logInternal(parts.logger, error, request);
  // Of the answer that failed. And Fastify closes the connection when it refuses a body; then the client may never read the reason.
  for (const name of ['connection', 'content-encoding', 'content-length']) reply.removeHeader(name);
  reply.code(problem.status).headers({ 'x-request-id': request.id, ...problemHeaders(error.code) });
  reply.serializer((body: unknown) => JSON.stringify(body)).send(problem);
}

/** Without the message, which may quote business keys. */
function logInternal(logger: Logger, error: LinesideError, request: FastifyRequest): void {
  const cause = error.cause ?? error;
  const frames = cause instanceof Error ? (cause.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line)) : [];
  logger.error('an HTTP request met an unforeseen fault', {
    request: request.id,
    route: `${request.method} ${request.routeOptions.url ?? NO_ROUTE}`,
    error: cause instanceof Error ? cause.name : typeof cause,
    code: systemCode(cause) || undefined,
    at: frames
      .slice(0, 3)
      .map((line) => line.trim())
      .join(' < '),
  });
}

/** Reads and drops the rest of a refused body for a while: a client that is still sending would not see its answer. */
function cutIfUnread(clock: Clock, raw: IncomingMessage): void {
  if (raw.complete || raw.destroyed) return;
  const timer = clock.timer(LINGER_MS, () => {
    if (!raw.complete) raw.socket.destroy();
  });
  raw.once('close', () => timer.cancel());
}

export function stopping(): LinesideError {
  return new LinesideError('SHUTTING_DOWN', 'the service is stopping', { hint: 'try again in a few seconds' });
}

// Query strings, strictly: each parameter once, properly encoded, few of them.

/** Set instead of the parameters if the query cannot be parsed; the router does not handle an exception. */
export const queryFault: unique symbol = Symbol('queryFault');

export type Query = Readonly<Record<string, string>> & { readonly [queryFault]?: string };

/** "+" is a plus, not a space, because of the offsets of times ("at=2026-03-01T09:30:00+00:00"). */
export function parseQuery(text: string): Query {
  const parameters: Record<string, string> = Object.create(null) as Record<string, string>;
  const parts = text.split('&').filter(Boolean);
  if (parts.length > MAX_QUERY_PARAMETERS) return faulty(`has more than ${MAX_QUERY_PARAMETERS} parameters`);
  for (const part of parts) {
    const [, name, value] = (/^([^=]*)=?(.*)$/s.exec(part) ?? []).map(decoded);
    if (name === undefined || value === undefined) return faulty('is not properly percent-encoded UTF-8');
    if (name in parameters) return faulty(`has "${name.slice(0, MAX_QUOTED_CHARS)}" twice`);
    parameters[name] = value;
  }
  return parameters;
}

function faulty(message: string): Query {
  return Object.assign(Object.create(null) as Record<string, string>, { [queryFault]: message });
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
