/** A small hub for the CLI's tests: a real HTTP server that speaks the routes, over plain fields. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach } from 'node:test';
import { FAR_FUTURE, instantOfMs } from '../../shared/base/instant.ts';
import { type Outcome, run, type testFiles } from '../drive.fixture.ts';
import type { Json, JsonObject } from '../output/json.ts';

interface Reply {
  readonly status?: number;
  readonly body: JsonObject | undefined;
}
interface Asked {
  readonly method: string;
  /** Decoded, below /api/v1. */
  readonly parts: readonly string[];
  readonly query: URLSearchParams;
  readonly body: JsonObject;
  readonly ifMatch: string | undefined;
  /** X-Change-Reason, as UTF-8. */
  readonly reason: string;
}
type Version = { [name: string]: Json } & { version: number; data: Json };

export class Refusal extends Error {
  readonly status: number;
  readonly problem: JsonObject;
  constructor(status: number, code: string, detail: string, more: JsonObject = {}) {
    super(detail);
    this.status = status;
    this.problem = { type: `urn:lineside:problem:${code}`, title: code, status, detail, code, ...more };
  }
}

/** The hub's own status when all is well. */
export const quietOutbox: JsonObject = {
  waiting: 0,
  inFlight: 0,
  inFlightBytes: 0,
  publishedTotal: 12,
  refusedTotal: 0,
  unreachedTotal: 0,
  prunedTotal: 0,
  deadLetters: 0,
  blockedKeys: [],
  blockedKeyCount: 0,
  broker: { configured: true, connected: true, reason: '', forSeconds: 7380, topics: [] },
};

interface Written {
  /** 'POST admin/webhooks/subscriptions/3/resend' */
  readonly call: string;
  readonly body: JsonObject;
  /** Of the header. */
  readonly reason: string;
  readonly ifMatch: string | undefined;
}

export class FakeHub {
  /** By method and path below /api/v1. A list is answered page by page, null as 204; what is not here is a 404. */
  answers: Record<string, JsonObject | readonly JsonObject[] | null> = {
    'GET alerts': { items: [] },
    'GET admin/outbox': quietOutbox,
    'GET admin/webhooks/status': { offline: false },
  };
  written: Written[] = [];
  /** "dictionary\0key" to its versions, oldest first. */
  records = new Map<string, Version[]>();
  imported: { bytes: number; text: string; headers: IncomingMessage['headers'] }[] = [];
  /** What an import waits for before it is answered, once it is there whole. */
  importHold: () => Promise<void> = async () => {};
  importAnswer: JsonObject = {
    txTime: instantOfMs(1_772_000_000_000),
    created: 2,
    updated: 0,
    closed: 0,
    unchanged: 0,
  };
  /** "GET /api/v1/alerts", as they came. */
  asked: string[] = [];
  token: string | undefined;
  /** Thrown by every route. */
  refusal: Refusal | undefined;
  /** Takes over before anything is read of the body. */
  override: ((request: IncomingMessage, response: ServerResponse) => void) | undefined;
  /** Called before a write is done. */
  beforeWrite: (() => void) | undefined;
  pageSize = 1000;
  #server: Server | undefined;

  /** A socket's path, or 0 for a port of loopback; answers the port. */
  async listen(
    place: string | 0,
    tls?: { cert: Buffer; key: Buffer; ca?: Buffer; requestCert?: boolean },
  ): Promise<number> {
    const handler = (request: IncomingMessage, response: ServerResponse): void => void this.#serve(request, response);
    this.#server = tls === undefined ? createServer(handler) : createTlsServer(tls, handler);
    const server = this.#server;
    await new Promise<void>((resolve) => {
      if (place === 0) server.listen(0, '127.0.0.1', resolve);
      else server.listen(place, resolve);
    });
    return place === 0 ? (server.address() as AddressInfo).port : 0;
  }

  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    request.on('error', () => undefined);
    this.asked.push(`${request.method} ${request.url}`);
    if (this.override !== undefined) return this.override(request, response);
    let reply: Reply;
    try {
      if (this.token !== undefined && request.headers.authorization !== `Bearer ${this.token}`)
        throw new Refusal(401, 'UNAUTHENTICATED', 'no valid token');
      if (this.refusal !== undefined) throw this.refusal;
      reply = await this.#route(request);
    } catch (error) {
      if (!(error instanceof Refusal)) return void response.destroy();
      reply = { status: error.status, body: error.problem };
    }
    const status = reply.status ?? 200;
    const type = status >= 400 ? 'application/problem+json' : 'application/json; charset=utf-8';
    response.writeHead(status, { 'content-type': type }).end(JSON.stringify(reply.body));
  }

  async #route(request: IncomingMessage): Promise<Reply> {
    const url = request.url ?? '';
    const question = url.indexOf('?');
    const path = question === -1 ? url : url.slice(0, question);
    const parts = path.replace('/api/v1/', '').split('/').map(decodeURIComponent);
    if (parts[0] === 'imports') return this.#import(request);
    const text = await bodyText(request);
    const asked: Asked = {
      method: request.method ?? '',
      parts,
      query: new URLSearchParams(question === -1 ? '' : url.slice(question + 1)),
      body: text === '' ? {} : (JSON.parse(text) as JsonObject),
      ifMatch: request.headers['if-match'],
      reason: Buffer.from(String(request.headers['x-change-reason'] ?? ''), 'latin1').toString('utf8'),
    };
    if (asked.method !== 'GET') this.beforeWrite?.();
    if (parts[2] === 'records') return this.#records(asked, parts[1] ?? '', parts[3], parts[4]);
    const { method, body, reason, ifMatch } = asked;
    const call = `${method} ${parts.join('/')}`;
    if (method !== 'GET') this.written.push({ call, body, reason, ifMatch });
    const answer = this.answers[call];
    if (answer === undefined)
      throw new Refusal(404, 'NOT_FOUND', `there is no such ${parts.at(-2)?.replace(/ies$/, 'y').replace(/s$/, '')}`);
    if (answer === null) return { status: 204, body: undefined };
    return Array.isArray(answer) ? this.#page(asked, answer) : { body: answer as JsonObject };
  }

  async #import(request: IncomingMessage): Promise<Reply> {
    let bytes = 0;
    let head = '';
    for await (const part of request as AsyncIterable<Buffer>) {
      if (bytes < 1000) head += part.toString('utf8');
      bytes += part.length;
    }
    this.imported.push({ bytes, text: head, headers: request.headers });
    await this.importHold();
    return { body: this.importAnswer };
  }

  #page(asked: Asked, all: readonly JsonObject[]): Reply {
    const from = Number(asked.query.get('cursor') ?? 0);
    const to = from + Math.min(this.pageSize, Number(asked.query.get('limit') ?? 100));
    return { body: { items: all.slice(from, to), nextCursor: to < all.length ? String(to) : null } };
  }

  #records(asked: Asked, dictionary: string, key: string | undefined, step: string | undefined): Reply {
    if (key === undefined && asked.method === 'GET') {
      const all = [...this.records].filter(([name]) => name.startsWith(`${dictionary}\0`));
      return this.#page(
        asked,
        all.flatMap(([, versions]) => versions.slice(-1)),
      );
    }
    const businessKey = key ?? textOf(asked.body['businessKey']);
    const versions = this.records.get(`${dictionary}\0${businessKey}`);
    if (key === undefined) return { status: 201, body: this.write(dictionary, businessKey, 'created', asked.body) };
    const now = versions?.at(-1);
    if (versions === undefined || now === undefined)
      throw new Refusal(404, 'NOT_FOUND', `there is no record "${businessKey}"`);
    if (step === 'history') return this.#page(asked, versions.toReversed());
    if (asked.method === 'GET') return { body: now };
    if (asked.ifMatch === undefined) throw new Refusal(428, 'VERSION_REQUIRED', 'If-Match is missing');
    if (asked.ifMatch !== `"${now.version}"`) throw new Refusal(412, 'STALE_VERSION', 'the version has changed');
    const data = step === 'close' ? { data: now.data } : {};
    return { body: this.write(dictionary, key, step === 'close' ? 'closed' : 'updated', { ...asked.body, ...data }) };
  }

  write(dictionary: string, businessKey: string, action: string, body: JsonObject, changedBy = 'local'): Version {
    const versions = this.records.get(`${dictionary}\0${businessKey}`) ?? [];
    const txTime = instantOfMs(1_772_000_000_000 + versions.length * 60_000);
    const validTo = action === 'closed' ? txTime : FAR_FUTURE;
    const made: Version = {
      dictionary,
      businessKey,
      action,
      validFrom: txTime,
      validTo,
      txTime,
      changedBy,
      changeReason: '',
      ...body,
      data: body['data'] ?? {},
      version: versions.length + 1,
    };
    this.records.set(`${dictionary}\0${businessKey}`, [...versions, made]);
    return made;
  }
}

function textOf(value: Json | undefined): string {
  return typeof value === 'string' ? value : '';
}

async function bodyText(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request as AsyncIterable<Buffer>) parts.push(part);
  return Buffer.concat(parts).toString('utf8');
}

// What the interface answers of the outbox and of webhooks.

const at = '2026-03-01T09:30:00+00:00';

export function subscription(id: string, more: JsonObject = {}): JsonObject {
  return {
    id,
    name: `site-${id}`,
    url: 'https://mes.example/hook',
    consumer: 'local',
    scopes: ['PUBLIC'],
    dictionaries: null,
    actions: null,
    categories: null,
    active: true,
    createdAt: at,
    updatedAt: at,
    version: 1,
    blocked: '',
    ...more,
  };
}

export function deadLetter(id: number, more: JsonObject = {}): JsonObject {
  const record = { dictionary: 'pumps', businessKey: `P-${id}`, action: 'updated', txTime: at, scope: 'PUBLIC' };
  const reason = 'larger than the broker takes\x1b[2J';
  return { id, diedAt: at, attempts: 1, reason, topic: 't.public', ...record, envelope: { n: id }, ...more };
}

export function attempt(number: number, more: JsonObject = {}): JsonObject {
  return {
    attempt: number,
    at,
    elapsedMs: 12,
    statusCode: 503,
    cause: 'http',
    message: 'mes.example answered 503',
    responseBody: 'busy',
    ...more,
  };
}

export function delivery(deliveryId: string, more: JsonObject = {}): JsonObject {
  return {
    deliveryId,
    subscription: '1',
    subscriptionName: 'site-1',
    state: 'pending',
    occurredAt: at,
    events: 1,
    attempts: 0,
    nextAttemptInSeconds: 0,
    endedAt: null,
    lastAttempt: null,
    body: '{"deliveryId":"x","events":[]}',
    attemptList: [],
    ...more,
  };
}

/** The hub of the test that runs, and its socket: a new one for each. */
export let hub: FakeHub;
export let httpSocket: string;

export function hubForEach({ at }: ReturnType<typeof testFiles>): void {
  let count = 0;
  beforeEach(async () => {
    count += 1;
    hub = new FakeHub();
    httpSocket = at(`hub-${count}.sock`);
    await hub.listen(httpSocket);
  });
  afterEach(() => hub.stop());
}

export function cli(...argv: string[]): Promise<Outcome> {
  return run(argv, { httpSocket });
}
