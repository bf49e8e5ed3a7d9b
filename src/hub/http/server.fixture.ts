/** A listening server on a real refdata.db, and a client that holds every answer against the OpenAPI document. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { Agent, type OutgoingHttpHeaders } from 'node:http';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { fullFormats } from 'ajv-formats/dist/formats.js';
import { addToken } from '../../shared/auth/token-file.ts';
import { TokenReader } from '../../shared/auth/token-reader.ts';
import { type Role } from '../../shared/auth/tokens.ts';
import type { Alert } from '../../shared/base/alerts.ts';
import { systemClock } from '../../shared/base/clock.ts';
import { type ErrorCode, errorCatalogue } from '../../shared/base/errors.ts';
import { type Exchanged, exchange } from '../../shared/base/exchange.fixture.ts';
import { type Logger, silentLogger } from '../../shared/base/logger.ts';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';
import { parseConfig } from '../../shared/config/parse.ts';
import { wellHost } from '../../shared/host/host-facts.fixture.ts';
import type { HostFacts } from '../../shared/host/host-facts.ts';
import { wellOutbox } from '../health/well.fixture.ts';
import { SeriesSums, spanOf } from '../history/series.ts';
import type { AuditRecord, DeadLetter, OutboxAdmin, OutboxStatus, WaitingEvent } from '../outbox/admin.ts';
import { openStoreIn } from '../outbox/change-store.fixture.ts';
import type { ChangeStore, ChangeStoreOptions } from '../outbox/change-store.ts';
import type { JsonObject } from '../outbox/event.ts';
import type { Page, PageRequest } from '../outbox/paging.ts';
import { openRefdata, type Refdata } from '../refdata/refdata.ts';
import type { Access } from './access.ts';
import { type HttpParts, type HttpServer, startHttpServer } from './server.ts';
import { FakeWebhooks } from './webhooks.fixture.ts';

/** The admin of an outbox in memory: this room's tests are of what it shows, not of how rows are kept. */
export class FakeOutbox implements OutboxAdmin {
  letters: DeadLetter[] = [1, 2, 3].map((id) => deadLetter(id));
  standing: Alert[] = [
    { name: 'RefdataOutboxLagHigh', severity: 'warning', forSeconds: 3, summary: '120 wait', value: 120 },
  ];
  now: OutboxStatus = {
    ...wellOutbox,
    waiting: 7,
    oldest: { id: 3, txTime: '2026-03-01T09:30:00+00:00', ageSeconds: 12.5 },
    inFlight: 2,
    inFlightBytes: 900,
    publishedTotal: 41,
    refusedTotal: 5,
    unreachedTotal: 6,
    deadLetters: 3,
    blockedKeys: [
      { topic: 't.public', key: 'tools:saw', outboxId: 3, attempts: 2, reason: 'ACL', nextAttemptInSeconds: 4.5 },
    ],
    blockedKeyCount: 1,
    broker: {
      ...wellOutbox.broker,
      producersReplaced: 2,
      topics: [{ name: 't.public', partitions: 3, lacks: ['retention.ms is 1, not 604800000'] }],
    },
  };
  /** What the next call throws. */
  failure: unknown;

  status(): OutboxStatus {
    this.#fail();
    return this.now;
  }
  deadLetters({ limit, cursor }: PageRequest): Page<DeadLetter> {
    this.#fail();
    const from = Number(cursor ?? 0);
    const items = this.letters.slice(from, from + limit);
    return { items, nextCursor: from + limit < this.letters.length ? String(from + limit) : undefined };
  }
  waitingEvents(): Page<WaitingEvent> {
    return { items: [], nextCursor: undefined };
  }
  async requeue(): Promise<void> {}
  async discard(): Promise<void> {}
  audit(action: string | undefined): Page<AuditRecord> {
    this.#fail();
    const record = {
      id: 1,
      at: '2026-03-01T09:30:00+00:00',
      actor: 'outbox',
      subject: 'row 1',
      details: { attempts: 9 },
    };
    return { items: [{ ...record, action: action ?? 'outbox.dlq' }], nextCursor: undefined };
  }
  alerts(): readonly Alert[] {
    this.#fail();
    return this.standing;
  }

  #fail(): void {
    const { failure } = this;
    this.failure = undefined;
    if (failure !== undefined) throw failure;
  }
}

/** A history without an hour. */
export const emptyHistory: HttpParts['history'] = {
  health: () => ({ fault: '', unstoredMinutes: 60, lostHours: 1, commits: 24 }),
  async read({ sinceMs, untilMs, stepMs }) {
    const span = spanOf(sinceMs, untilMs, stepMs);
    const known = { firstMs: null, isClockVerified: true, gaps: [], fault: '' };
    return { ...new SeriesSums(span).end(), ...known, fromMs: span.fromMs, stepS: stepMs / 1_000 };
  },
};

export const storage = () => ({
  usedBytes: 8_192,
  limitBytes: 2 ** 31,
  freeBytes: 2 ** 40,
  waitingChanges: 6,
  isDamaged: false,
  isFull: true,
});

function deadLetter(id: number): DeadLetter {
  return {
    id,
    diedAt: '2026-03-01T09:30:00+00:00',
    attempts: 1_001,
    reason: 'MSG_SIZE_TOO_LARGE',
    topic: 't.public',
    scope: 'PUBLIC',
    dictionary: 'tools',
    businessKey: `saw-${id}`,
    action: 'created',
    txTime: '2026-03-01T09:30:00+00:00',
    envelope: { schemaVersion: '1.0.0' },
  };
}

export class FakeHost {
  now: HostFacts = wellHost;
  standing: Alert[] = [];

  facts(): HostFacts {
    return this.now;
  }
  alerts(): readonly Alert[] {
    return this.standing;
  }
}

export interface Answer extends Exchanged {
  /** The body if it is JSON. Only tests read it, hence the loose type. */
  readonly json: Readonly<Record<string, unknown>>;
}

interface Call {
  /** undefined: none is sent. */
  readonly token?: string | undefined;
  readonly json?: unknown;
  readonly body?: string | Buffer;
  readonly headers?: OutgoingHttpHeaders;
  readonly socketPath?: string;
  /** An address of the server; default: its first. */
  readonly port?: number;
}

export interface TestServer {
  readonly http: HttpServer;
  readonly store: ChangeStore;
  readonly outbox: FakeOutbox;
  readonly webhooks: FakeWebhooks;
  readonly host: FakeHost;
  readonly refdata: Refdata;
  readonly port: number;
  readonly socketPath: string;
  readonly tokens: Readonly<Record<string, string>>;
  readonly dir: string;
  /** Sends the path as it is written; the answer has been found to be what the document says. */
  readonly call: (method: string, path: string, call?: Call) => Promise<Answer>;
  /** With the token of all roles and scopes. */
  readonly ask: (method: string, path: string, json?: unknown, headers?: OutgoingHttpHeaders) => Promise<Answer>;
}

export interface TestOptions {
  readonly http?: JsonObject;
  readonly tls?: JsonObject;
  readonly refdata?: (real: Refdata) => Refdata;
  readonly store?: Partial<ChangeStoreOptions>;
  /** In place of the one in memory. */
  readonly outbox?: (store: ChangeStore) => OutboxAdmin;
  readonly logger?: Logger;
  readonly parts?: Partial<HttpParts>;
}

const owners: Readonly<Record<string, readonly Role[]>> = {
  reader: ['reader'],
  writer: ['writer'],
  admin: ['admin'],
  viewer: ['viewer'],
  operator: ['operator'],
  internal: ['writer', 'refdata-internal'],
  all: ['admin', 'refdata-restricted'],
};

/** Once in each process, in the file of its first server: each token is a file that is replaced and synced. */
let issued: ReturnType<typeof issueTokens> | undefined;

function issueTokens(file: string) {
  const tokens = Object.fromEntries(
    Object.entries(owners).map(([name, roles]) => [name, addToken(file, name, roles, new Date())]),
  );
  return { tokens, text: readFileSync(file, 'utf8') };
}

/** Everything is closed and removed at the end of the test. */
export async function startTestServer(t: TestContext, options: TestOptions = {}): Promise<TestServer> {
  const dir = temporaryDirectory(t);
  const tokensFile = join(dir, 'tokens.json');
  const { text, tokens } = (issued ??= issueTokens(tokensFile));
  writeFileSync(tokensFile, text, { mode: 0o600 });
  const { config, faults } = parseConfig(
    {
      data: { dir, runtime_dir: dir },
      auth: { tokens_file: tokensFile },
      http: { listen: ['127.0.0.1:0', 'unix:http.sock'], ...options.http },
      ...(options.tls !== undefined && { tls: options.tls }),
    },
    {},
  );
  assert.deepEqual(faults, []);
  const store = openStoreIn(t, dir, { clock: systemClock, ...options.store });
  const real = openRefdata({
    store,
    path: join(dir, 'refdata.db'),
    maxBytes: config.outbox.maxBytes,
    maxImportBytes: config.http.maxImportBytes,
    clock: systemClock,
    logger: silentLogger,
  });
  const outbox = new FakeOutbox();
  const webhooks = new FakeWebhooks();
  const host = new FakeHost();
  const { parts = {}, logger = silentLogger } = options;
  const { clock = systemClock } = parts;
  const http = await startHttpServer({
    config,
    tokens: new TokenReader(tokensFile, clock, logger),
    trouble: () => undefined,
    storage,
    refdata: options.refdata?.(real) ?? real,
    outbox: options.outbox?.(store) ?? outbox,
    webhooks: webhooks.adminOn(store, join(dir, 'webhooks.key')),
    host,
    history: emptyHistory,
    line: undefined,
    consoleDir: join(dir, 'console'),
    clock,
    logger,
    version: '0.1.0',
    deviceId: 'lineside-0123456789ab',
    ...parts,
  });
  const agent = new Agent({ keepAlive: true });
  t.after(async () => {
    agent.destroy();
    await http.stop();
    await real.close();
  });
  const port = Number(/:(\d+)$/.exec(http.addresses[0] ?? '')?.[1]);
  const send = (method: string, path: string, call: Call): Promise<Answer> => sendOne(agent, port, method, path, call);
  const contract = contractOf((await send('GET', '/openapi.json', {})).text);
  const call = async (method: string, path: string, call: Call = {}): Promise<Answer> => {
    const answer = await send(method, path, call);
    contract.check(method, path, answer);
    return answer;
  };
  return {
    http,
    store,
    outbox,
    webhooks,
    host,
    refdata: real,
    port,
    socketPath: join(dir, 'http.sock'),
    tokens,
    dir,
    call,
    ask: (method, path, json, headers) =>
      call(method, path, {
        token: tokens.all,
        ...(json !== undefined && { json }),
        ...(headers !== undefined && { headers }),
      }),
  };
}

async function sendOne(agent: Agent, port: number, method: string, path: string, call: Call): Promise<Answer> {
  const text = call.json === undefined ? call.body : JSON.stringify(call.json);
  // A body of text would have Node send the headers in UTF-8 with it.
  const body = text === undefined ? undefined : Buffer.from(text);
  const chunked = call.headers?.['transfer-encoding'] !== undefined;
  const headers = {
    ...(call.token !== undefined && { authorization: `Bearer ${call.token}` }),
    ...(body !== undefined && {
      'content-type': 'application/json',
      ...(!chunked && { 'content-length': body.length }),
    }),
    ...call.headers,
  };
  const where =
    call.socketPath === undefined ? { host: '127.0.0.1', port: call.port ?? port } : { socketPath: call.socketPath };
  const answer = await exchange({ ...where, agent, method, path, headers }, body);
  const isJson = /\bjson\b/.test(answer.headers['content-type'] ?? '') && answer.text !== '';
  return { ...answer, json: isJson ? (JSON.parse(answer.text) as Answer['json']) : {} };
}

/** By the text of the document: servers with the same document share one, whose validators are compiled once. */
const contracts = new Map<string, Contract>();

function contractOf(text: string): Contract {
  const contract = contracts.get(text) ?? new Contract(JSON.parse(text) as JsonObject);
  contracts.set(text, contract);
  return contract;
}

/** The document as the judge of answers. */
class Contract {
  readonly document: JsonObject;
  readonly #ajv: Ajv2020;
  readonly #paths: readonly { readonly path: string; readonly pattern: RegExp }[];

  constructor(document: JsonObject) {
    this.document = document;
    this.#ajv = new Ajv2020({
      allErrors: true,
      strict: false,
      formats: { 'date-time': fullFormats['date-time'], uri: fullFormats.uri },
    });
    this.#ajv.addSchema(document, 'document');
    this.#paths = Object.keys(at(document, 'paths')).map((path) => ({
      path,
      pattern: new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{[a-z]+\}/g, '[^/]*')}$`),
    }));
  }

  check(method: string, url: string, answer: Answer): void {
    const said = `${method} ${url} answered ${answer.status} ${answer.text.slice(0, 500)}`;
    if (answer.status >= 400 && method !== 'HEAD') checkProblem(answer, said);
    const path = this.#paths.find(({ pattern }) => pattern.test(url.split('?', 1)[0] ?? ''))?.path;
    const operation = path === undefined ? undefined : at(this.document, 'paths', path)[method.toLowerCase()];
    if (path === undefined || operation === undefined) return;
    const type = (answer.headers['content-type'] ?? '').split(';', 1)[0] ?? '';
    const where = ['paths', path, method.toLowerCase(), 'responses', String(answer.status)];
    const response = at(this.document, ...where);
    assert.ok(Object.keys(response).length > 0, `the document has no such answer: ${said}`);
    for (const name of Object.keys(at(response, 'headers'))) {
      const { pattern = '' } = at(response, 'headers', name, 'schema') as { readonly pattern?: string };
      assert.match(String(answer.headers[name.toLowerCase()]), new RegExp(pattern), `${name}: ${said}`);
    }
    if (!('content' in response)) return assert.equal(answer.text, '', said);
    const content = at(response, 'content');
    if ('*/*' in content) return;
    assert.ok(type in content, `the document has no ${type} there: ${said}`);
    if (!/\bjson$/.test(type)) return;
    const pointer = [...where, 'content', type, 'schema']
      .map((part) => `/${encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))}`)
      .join('');
    const check = this.#ajv.getSchema(`document#${pointer}`);
    assert.ok(check?.(answer.json), `${said}: ${this.#ajv.errorsText(check?.errors)}`);
  }
}

/** What holds for every problem whatever it is about. */
function checkProblem({ status, headers, json }: Answer, said: string): void {
  assert.equal(headers['content-type'], 'application/problem+json', said);
  const code = String(json.code) as ErrorCode;
  assert.ok(code in errorCatalogue, said);
  assert.equal(errorCatalogue[code].http, status, said);
  assert.equal(json.status, status, said);
  assert.equal(json.type, `urn:lineside:problem:${code}`, said);
  assert.equal(headers['www-authenticate'] !== undefined, status === 401, said);
  const retries = status === 429 || status === 503 || status === 507;
  assert.equal(headers['retry-after'] !== undefined, retries, said);
}

/** Every route of the OpenAPI document, with example values in its path; no access: it is open. */
export function routesOf(document: JsonObject): readonly { method: string; path: string; access: Access }[] {
  const values: Readonly<Record<string, string>> = { name: 'd', key: 'k', id: '1', file: 'console.js' };
  return Object.entries(at(document, 'paths')).flatMap(([pattern, methods]) =>
    Object.entries(methods as JsonObject).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path: pattern.replaceAll(/\{([a-z]+)\}/g, (_, name: string) => values[name] ?? ''),
      access: (operation as { readonly 'x-role'?: Access })['x-role'] ?? 'open',
    })),
  );
}

/** The object at a path of names; empty where there is none. */
export function at(object: JsonObject, ...names: readonly string[]): JsonObject {
  let here: unknown = object;
  for (const name of names) here = typeof here === 'object' && here !== null ? Reflect.get(here, name) : undefined;
  return typeof here === 'object' && here !== null ? (here as JsonObject) : {};
}
