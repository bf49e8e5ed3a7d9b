/** A small hub for the CLI's tests: a real HTTP server that speaks the routes, over plain fields. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { FAR_FUTURE, instantOfMs } from '../../shared/base/instant.ts';
import type { Json, JsonObject } from '../output/json.ts';
import { FakeWebhooks } from './fake-webhooks.fixture.ts';

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

export class FakeHub {
  dictionaries: JsonObject[] = [];
  drafts: JsonObject[] = [];
  /** "dictionary\0key" to its versions, oldest first. */
  records = new Map<string, Version[]>();
  outbox: JsonObject = quietOutbox;
  deadLetters: JsonObject[] = [];
  readonly webhooks = new FakeWebhooks();
  auditRecords: JsonObject[] = [];
  alerts: JsonObject[] = [];
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
    if (parts[0] === 'admin') return this.#admin(asked);
    if (parts[0] === 'alerts') return { body: { items: this.alerts } };
    if (parts[2] === 'records') return this.#records(asked, parts[1] ?? '', parts[3], parts[4]);
    if (parts[2] === 'drafts') return this.#drafts(asked, parts[1] ?? '', parts[3], parts[4]);
    return this.#dictionaries(asked, parts[1]);
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

  #dictionaries(asked: Asked, name: string | undefined): Reply {
    if (name === undefined && asked.method === 'GET') return this.#page(asked, this.dictionaries);
    const found = this.dictionaries.find((item) => item['name'] === (name ?? asked.body['name']));
    if (name === undefined) {
      if (found !== undefined) throw new Refusal(409, 'CONFLICT', 'there is a dictionary of that name');
      const made = { schema: null, ...asked.body, version: 1, ...who('created') };
      this.dictionaries.push(made);
      return { status: 201, body: made };
    }
    if (found === undefined) throw new Refusal(404, 'NOT_FOUND', `there is no dictionary "${name}"`);
    if (asked.method === 'GET') return { body: found };
    const next = { ...found, ...asked.body, version: Number(found['version']) + 1 };
    this.dictionaries[this.dictionaries.indexOf(found)] = next;
    return { body: next };
  }

  #drafts(asked: Asked, dictionary: string, id: string | undefined, step: string | undefined): Reply {
    if (id === undefined && asked.method === 'GET') return this.#page(asked, this.drafts);
    if (id === undefined) {
      const made = { id: this.drafts.length + 1, dictionary, state: 'draft', ...asked.body, ...who('created') };
      this.drafts.push(made);
      return { status: 201, body: made };
    }
    const found = this.drafts[Number(id) - 1];
    if (found === undefined) throw new Refusal(404, 'NOT_FOUND', 'there is no such draft');
    if (step === undefined) return { body: found };
    const states: Record<string, Json> = { 'request-review': 'inReview', publish: 'published', withdraw: 'withdrawn' };
    const next = { ...found, state: states[step] ?? asked.body['decision'] ?? 'none' };
    this.drafts[Number(id) - 1] = next;
    return { body: next };
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

  #admin(asked: Asked): Reply {
    const [, area, list, id, step] = asked.parts;
    if (area === 'audit') {
      const action = asked.query.get('action');
      return this.#page(
        asked,
        this.auditRecords.filter((item) => action === null || item['action'] === action),
      );
    }
    if (area === 'webhooks') return this.#webhooks(asked);
    if (list === undefined) return { body: this.outbox };
    if (id === undefined) return this.#page(asked, this.deadLetters);
    const at = this.deadLetters.findIndex((item) => item['id'] === Number(id));
    if (at === -1) throw new Refusal(404, 'NOT_FOUND', `there is no dead letter ${id}`);
    this.auditRecords.push({ action: `outbox.${step}`, subject: id, details: asked.body });
    this.deadLetters.splice(at, 1);
    return { status: 204, body: undefined };
  }

  #webhooks(asked: Asked): Reply {
    const [, , list, ...place] = asked.parts;
    if (asked.method === 'GET' && place.length === 0 && list !== 'status')
      return this.#page(asked, this.webhooks.list(list, asked.query));
    const reply = this.webhooks.answer(asked.method, asked.parts.slice(2), asked);
    if (reply === undefined)
      throw new Refusal(404, 'NOT_FOUND', `there is no such ${list === 'deliveries' ? 'delivery' : 'subscription'}`);
    return reply;
  }
}

function who(step: string): JsonObject {
  const at = instantOfMs(1_772_000_000_000);
  const by = step === 'created' ? { createdBy: 'local', updatedBy: 'local', changedBy: 'local' } : {};
  return { ...by, createdAt: at, updatedAt: at };
}

function textOf(value: Json | undefined): string {
  return typeof value === 'string' ? value : '';
}

async function bodyText(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request as AsyncIterable<Buffer>) parts.push(part);
  return Buffer.concat(parts).toString('utf8');
}
