/** Routes as data: what each declares, and the request as its handler sees it. */
import type { Static, TSchema } from '@sinclair/typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { AlertSource } from '../../../shared/base/alerts.ts';
import type { Clock } from '../../../shared/base/clock.ts';
import { type ErrorCode, LinesideError } from '../../../shared/base/errors.ts';
import type { ExpectedVersion } from '../../../shared/base/expected-version.ts';
import type { HostFacts } from '../../../shared/host/host-facts.ts';
import type { WatchAdmin } from '../../health/watch.ts';
import type { History } from '../../history/history.ts';
import type { OutboxAdmin } from '../../outbox/admin.ts';
import type { Page, PageRequest } from '../../outbox/paging.ts';
import type { Refdata } from '../../refdata/refdata.ts';
import type { UpstreamStatus } from '../../upstream/status.ts';
import type { WebhookAdmin } from '../../webhooks/webhooks.ts';
import { type Access, type Authenticator, type Caller } from '../access.ts';
import type { AdminClient } from '../admin-client.ts';
import type { ConsoleFile } from '../console-files.ts';
import { changeReason, etag, ifMatch } from '../headers.ts';
import { DEFAULT_PAGE } from '../limits.ts';
import type { LineCalls } from '../line/line-calls.ts';
import type { LogStreams } from '../line/line-log.ts';
import type { TerminalTickets } from '../line/terminal-tickets.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { type Answer, common, Headers, reading, writing } from '../schemas/answers.ts';

export interface HubParts {
  readonly refdata: Refdata;
  readonly outbox: OutboxAdmin;
  readonly webhooks: WebhookAdmin;
  readonly host: AlertSource & { facts(): HostFacts };
  readonly history: Pick<History, 'read' | 'health'>;
  /** undefined: the state of the line and of certificates is unknown. */
  readonly watch?: WatchAdmin | undefined;
  /** The transport of the serial log to the central side; undefined: there is none. */
  readonly upstream?: (AlertSource & { status(): UpstreamStatus }) | undefined;
  readonly clock: Clock;
  readonly version: string;
  readonly deviceId: string;
}

export interface RouteParts extends HubParts {
  readonly line: LineCalls;
  readonly streams: LogStreams;
  readonly tickets: TerminalTickets;
  readonly consoleFile: (name: string) => Promise<ConsoleFile>;
  readonly authenticate: Authenticator;
  readonly metrics: Metrics;
  readonly admin: AdminClient;
  readonly maxImportBytes: number;
  /** Why the service cannot work now; undefined: it can. */
  readonly trouble: () => LinesideError | undefined;
  /** The OpenAPI document as JSON: all answers share the same bytes. */
  readonly openapi: () => Buffer;
}

export interface StreamedBody {
  /** Its media types. */
  readonly types: readonly string[];
  readonly maxBytes: number;
  /** What sets this limit, for the refusal. */
  readonly limit: string;
}

/** A route as data. What follows from its method, path, body and answer is not declared again. */
interface Declaration<P, Q extends TSchema, B extends TSchema> {
  readonly id: string;
  readonly summary: string;
  readonly description?: string;
  readonly query?: Q;
  readonly body?: B;
  /** Whether If-Match names the version that is to be changed. */
  readonly version?: 'optional' | 'required';
  /** Default: If-None-Match if a version is read; X-Change-Reason and If-Match for a change with a reason. */
  readonly headers?: TSchema;
  readonly answer: Answer;
  /** Beyond those of `base` and those of parameters and versions. */
  readonly problems?: readonly ErrorCode[];
  /** Default: by method and access. */
  readonly base?: readonly ErrorCode[];
  /** The handler reads the body itself, as it comes. */
  readonly streams?: StreamedBody;
  /** Answers a thing, a page of them, or the reply if it has been sent. */
  readonly handle: (call: Call<P, Q, B>) => unknown;
}

/** A request as its handler sees it; each part is read when the handler needs it. */
export class Call<P = object, Q extends TSchema = TSchema, B extends TSchema = TSchema> {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;

  constructor(request: FastifyRequest, reply: FastifyReply) {
    this.request = request;
    this.reply = reply;
  }

  get caller(): Caller {
    if (this.request.actor !== undefined) return this.request.actor;
    throw new LinesideError('INTERNAL', 'a route that is open to everyone asked who calls');
  }

  /** Of the header, for the helper: it checks the token itself. */
  get authorization(): string | undefined {
    return this.request.headers.authorization;
  }

  get params(): P {
    return this.request.params as P;
  }

  get query(): Static<Q> {
    return this.request.query;
  }

  get page(): PageRequest {
    const { limit = DEFAULT_PAGE, cursor } = this.request.query as {
      readonly limit?: number;
      readonly cursor?: string;
    };
    return { limit, cursor: cursor === '' ? undefined : cursor };
  }

  /** Without changeReason, which is `reason`. */
  get body(): Omit<Static<B>, 'changeReason'> {
    const { changeReason: _, ...body } = this.request.body as { readonly changeReason?: string };
    return body as Omit<Static<B>, 'changeReason'>;
  }

  /** Of the body, or of the header if the body has none. */
  get reason(): string {
    const body = this.request.body as { readonly changeReason?: string } | undefined;
    return body?.changeReason ?? changeReason(this.request.headers['x-change-reason']);
  }

  get version(): ExpectedVersion | undefined {
    return ifMatch(this.request.headers['if-match']);
  }

  /** Fires when the client disconnects, and after its answer. */
  get gone(): AbortSignal {
    const { raw } = this.reply;
    const gone = new AbortController();
    if (raw.destroyed) gone.abort();
    raw.once('close', () => gone.abort());
    return gone.signal;
  }

  created<T>(thing: T, location: string): T {
    this.reply.header('location', location);
    return thing;
  }
}

/** Method and pattern of the path: "GET /api/v1/dictionaries/:name". */
type RouteName = `${'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'} /${string}`;

type ParamsOf<Name extends string> = Name extends `${string}/:${infer Param}/${infer Rest}`
  ? Readonly<Record<Param, string>> & ParamsOf<`/${Rest}`>
  : Name extends `${string}/:${infer Param}`
    ? Readonly<Record<Param, string>>
    : object;

type AnyDeclaration = Declaration<object, TSchema, TSchema>;

/** A declared route, with everything that follows from its name and its access. */
export interface Route extends Omit<AnyDeclaration, 'handle' | 'headers'> {
  readonly tag: string;
  readonly method: string;
  readonly url: string;
  readonly access: Access;
  readonly headers: TSchema | undefined;
  readonly problems: readonly ErrorCode[];
  readonly handle: (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>;
}

export type Routes = ReturnType<typeof routesOf>;

/** What is declared is added to the list. */
export function routesOf(list: Route[]) {
  return (tag: string) =>
    <N extends RouteName, Q extends TSchema, B extends TSchema>(
      name: N,
      access: Access,
      { handle, ...declared }: Declaration<ParamsOf<N>, Q, B>,
    ): void => {
      const [method = '', url = ''] = name.split(' ');
      list.push({
        ...declared,
        tag,
        method,
        url,
        access,
        headers: headersOf(name, declared),
        problems: problemsOf(name, access, declared),
        handle: async (request, reply) =>
          answered(declared.answer, reply, await handle(new Call<ParamsOf<N>, Q, B>(request, reply))),
      });
    };
}

function headersOf(
  name: string,
  { headers, version, answer, body }: Omit<AnyDeclaration, 'handle'>,
): TSchema | undefined {
  if (headers !== undefined) return headers;
  if (name.startsWith('GET ')) return answer.etag && Headers.known;
  if (version !== undefined) return version === 'required' ? Headers.versionNeeded : Headers.version;
  return body !== undefined && !('content' in body) && 'changeReason' in body.properties ? Headers.reason : undefined;
}

function problemsOf(
  name: RouteName,
  access: Access,
  { base, problems = [], version }: Pick<AnyDeclaration, 'base' | 'problems' | 'version'>,
): ErrorCode[] {
  const usual = access === 'open' ? common : name.startsWith('GET ') ? reading : writing;
  return [
    ...(base ?? usual),
    ...(name.includes(':') ? (['NOT_FOUND'] as const) : []),
    ...problems,
    ...(version !== undefined ? (['STALE_VERSION'] as const) : []),
    ...(version === 'required' ? (['VERSION_REQUIRED'] as const) : []),
  ];
}

function answered({ status = 200, listOf, etag: isVersioned }: Answer, reply: FastifyReply, thing: unknown): unknown {
  if (thing === reply) return reply;
  reply.code(status);
  if (status === 204) return reply.send();
  if (isVersioned) reply.header('etag', etag((thing as { readonly version: number }).version));
  if (listOf === undefined) return thing;
  const { items, nextCursor } = thing as Page<unknown>;
  return { items, nextCursor: nextCursor ?? null };
}

/** An id in a path. NOT_FOUND if it is not a number. */
export function idOf(text: string, what: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new LinesideError('NOT_FOUND', `there is no such ${what}`);
}
