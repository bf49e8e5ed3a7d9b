/** What the routes have in common: the app's type, who calls, pages, versions. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyBaseLogger, FastifyInstance, FastifyReply, FastifyRequest, RawServerDefault } from 'fastify';
import type { Clock } from '../../shared/base/clock.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import type { HostAdmin } from '../../shared/host/host-facts.ts';
import type { WatchAdmin } from '../health/face.ts';
import type { OutboxAdmin, Page, PageRequest } from '../outbox/face.ts';
import type { Refdata } from '../refdata/face.ts';
import type { UpstreamAdmin } from '../upstream/face.ts';
import type { WebhookAdmin } from '../webhooks/face.ts';
import type { Access } from './access.ts';
import type { ConsoleFiles } from './console-files.ts';
import type { Authenticator, Caller } from './credentials.ts';
import { changeReason, etag } from './headers.ts';
import { DEFAULT_PAGE } from './limits.ts';
import type { LineCalls } from './line-calls.ts';
import type { LineHistory } from './line-history.ts';
import type { LogStreams } from './line-streams.ts';
import type { Metrics } from './metrics/metrics.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Who calls; undefined on open routes. */
    actor: Caller | undefined;
  }
  interface FastifyContextConfig {
    access?: Access;
    /** The handler reads the body itself, as it comes. */
    streams?: true;
  }
}

export type App = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;

/** What the routes work with. */
export interface RouteParts {
  readonly refdata: Refdata;
  readonly outbox: OutboxAdmin;
  readonly webhooks: WebhookAdmin;
  readonly host: HostAdmin;
  /** undefined: nothing is known of the line and of certificates. */
  readonly watch: WatchAdmin | undefined;
  readonly upstream: UpstreamAdmin | undefined;
  readonly line: LineCalls;
  readonly history: Pick<LineHistory, 'samples'>;
  readonly streams: LogStreams;
  readonly console: ConsoleFiles;
  readonly authenticate: Authenticator;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly version: string;
  readonly maxImportBytes: number;
  /** Why the service cannot work now; undefined: it can. */
  readonly trouble: () => LinesideError | undefined;
  /** The OpenAPI document as JSON: the same bytes for all requests, whose answers then share them. */
  readonly openapi: () => Promise<Buffer>;
}

export function actorOf(request: { readonly actor: Caller | undefined }): Caller {
  if (request.actor !== undefined) return request.actor;
  throw new LinesideError('INTERNAL', 'a route that is open to everyone asked who calls');
}

/** The body's, or the header's where the body has none. */
export function reasonOf(request: Pick<FastifyRequest, 'headers'>, body: { readonly changeReason?: string }): string {
  return body.changeReason ?? changeReason(request.headers['x-change-reason']);
}

export function pageOf(query: { readonly limit?: number; readonly cursor?: string }): PageRequest {
  return { limit: query.limit ?? DEFAULT_PAGE, cursor: query.cursor === '' ? undefined : query.cursor };
}

export function listed<T>({ items, nextCursor }: Page<T>): { items: readonly T[]; nextCursor: string | null } {
  return { items, nextCursor: nextCursor ?? null };
}

/** Something that has a version, with its ETag. */
export function versioned<T extends { readonly version: number }>(reply: Pick<FastifyReply, 'header'>, thing: T): T {
  reply.header('etag', etag(thing.version));
  return thing;
}

/** An id in a path. NOT_FOUND where it is no number: there is nothing of that name. */
export function idOf(text: string, what: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new LinesideError('NOT_FOUND', `there is no such ${what}`);
}
