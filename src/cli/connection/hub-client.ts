/** The hub as the commands see it: requests with a time limit, answers read and checked, failures people can act on. */
import { Agent, type IncomingHttpHeaders, type IncomingMessage, request as plainRequest } from 'node:http';
import { Agent as SecureAgent, request as secureRequest } from 'node:https';
import { pipeline } from 'node:stream';
import { messageOf, systemCode } from '../../shared/base/errors.ts';
import { CliFailure, type Outcome } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import type { JsonObject } from '../output/json.ts';
import { badAnswer, Fields } from './answers.ts';
import { tlsOptions, unreachable } from './diagnose.ts';
import { endpointText } from './endpoint.ts';
import type { Place } from './secrets.ts';
import { giveToken, tooSlow } from './service.ts';

interface HubLimits {
  readonly stop: AbortSignal;
  readonly timeoutMs: number;
}

export type Query = Readonly<Record<string, string | number | undefined>>;

/** A path below /api/v1, each part percent-encoded: keys may hold anything. */
export function apiPath(...parts: readonly (string | number)[]): string {
  return `/api/v1/${parts.map((part) => encodeURIComponent(part)).join('/')}`;
}

export class Hub {
  readonly #place: Place;
  readonly #limits: HubLimits;

  constructor(place: Place, limits: HubLimits) {
    this.#place = place;
    this.#limits = limits;
  }

  /** Where it is, for people. */
  get place(): string {
    return endpointText(this.#place.endpoint);
  }

  get(path: string, query: Query = {}): Promise<JsonObject> {
    return this.#limited({ method: 'GET', path: path + queryText(query), headers: {} });
  }

  /** A DELETE has no body. */
  write(method: WriteMethod, path: string, body: JsonObject, headers: HttpRequest['headers']): Promise<JsonObject> {
    if (method === 'DELETE') return this.#limited({ method, path, headers });
    const type = { 'content-type': 'application/json' };
    return this.#limited({ method, path, headers: { ...type, ...headers }, body: JSON.stringify(body) });
  }

  /** The pages of a list, until its end or until `most` items have come. */
  async *pages(path: string, query: Query, pageSize: number, most: number): AsyncGenerator<readonly JsonObject[]> {
    let cursor: string | undefined;
    let left = most;
    do {
      const page: JsonObject = await this.get(path, { ...query, limit: Math.min(pageSize, left), cursor });
      const fields = new Fields(page, 'the list');
      const items = fields.objects('items');
      const next = fields.textOr('nextCursor', undefined);
      if (next !== undefined && (next === cursor || next === '')) throw badAnswer('the list has no end');
      cursor = next;
      left -= items.length;
      yield left < 0 ? items.slice(0, left) : items;
    } while (cursor !== undefined && left > 0);
  }

  /** A request whose body takes its time; `ended` is the caller's own limit. */
  upload(request: HttpRequest, ended: AbortSignal): Promise<JsonObject> {
    return this.#answered(request, AbortSignal.any([ended, this.#limits.stop]));
  }

  /** A GET whose answer is a file: `save` takes its bytes as they come. `ended`: the caller's own limit. */
  async download(path: string, ended: AbortSignal, save: SaveFile): Promise<void> {
    const request = { method: 'GET', path, headers: { accept: '*/*' } } as const;
    await this.#answered(request, AbortSignal.any([ended, this.#limits.stop]), save);
  }

  async #limited(request: HttpRequest): Promise<JsonObject> {
    const { stop, timeoutMs } = this.#limits;
    const limit = AbortSignal.timeout(timeoutMs);
    try {
      return await this.#answered(request, AbortSignal.any([limit, stop]));
    } catch (error) {
      stop.throwIfAborted();
      const answered = error instanceof CliFailure;
      throw limit.aborted && !answered ? inDoubt(tooSlow(timeoutMs), request.method !== 'GET') : error;
    }
  }

  /** The answer's object; throws the signal's reason, or CliFailure. */
  async #answered(request: HttpRequest, signal: AbortSignal, save?: SaveFile): Promise<JsonObject> {
    signal.throwIfAborted();
    let answer: HttpAnswer;
    try {
      answer = await exchange(this.#place, request, signal, save);
    } catch (error) {
      signal.throwIfAborted();
      throw error instanceof ExchangeError ? await this.#broken(error, request.method !== 'GET') : error;
    }
    if (answer.status === 204 || (answer.status === 200 && save !== undefined)) return {};
    const body = jsonBody(answer);
    if (answer.status >= 200 && answer.status <= 299) {
      if (body === undefined) throw badAnswer('it is no JSON object', this.place);
      return body;
    }
    throw problemFailure(answer.status, body);
  }

  async #broken(error: ExchangeError, writes: boolean): Promise<CliFailure> {
    const { code, progress } = error;
    if (code === 'TOO_LARGE') return badAnswer('it has more than 64 MiB', this.place);
    if (code.startsWith('HPE_')) return badAnswer('it is no HTTP', this.place);
    if (progress === 'answering') {
      const why = 'the service broke off in the middle of its answer';
      const details = { what: `cannot hear the service at ${this.place} out`, next: 'Try again: it may be stopping.' };
      return inDoubt(new CliFailure('unreachable', 'BROKEN_ANSWER', why, details), writes);
    }
    const said = `it ended the connection without an answer${code === '' ? '' : ` (${safeText(code)})`}`;
    const failure = await unreachable(this.#place, said);
    return inDoubt(failure, writes && progress === 'sent');
  }
}

/** A write whose answer never came may have been done all the same. */
function inDoubt(failure: CliFailure, doubtful: boolean): CliFailure {
  return doubtful ? failure.with({ next: 'It may have been done all the same: look before you try again.' }) : failure;
}

// One HTTP exchange: no retries, no redirects, nothing unpacked, the answer's size bounded.

type WriteMethod = 'POST' | 'PUT' | 'PATCH' | 'DELETE';

interface HttpRequest {
  readonly method: 'GET' | WriteMethod;
  /** Percent-encoded, with its query; sent as it is (a URL parser would take the key ".." for a step up). */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | AsyncGenerator<Uint8Array>;
}

export type SaveFile = (pieces: AsyncIterable<Buffer>) => Promise<void>;

interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

class ExchangeError extends Error {
  override readonly name = 'ExchangeError';
  /** How far the exchange came before it failed: what may be said of its effect. */
  readonly progress: 'unsent' | 'sent' | 'answering';
  /** The code of the system, of TLS or of the HTTP parser; '' where there is none. */
  readonly code: string;

  constructor(cause: unknown, progress: ExchangeError['progress']) {
    super(messageOf(cause), { cause });
    this.progress = progress;
    this.code = systemCode(cause);
  }
}

/** The largest page that the commands ask for holds 50 dead letters of 1 MB at most each. */
const maxAnswerBytes = 64 * 1024 * 1024;

/** A name, a connection and a handshake: the caller's own limit may be minutes. */
const connectMs = 10_000;

/**
 * Any status is an answer; throws ExchangeError, also when the signal ends it. With `save`, the body of status 200 is a file; what that
 * throws of its own (a full disk) is thrown as it is.
 */
async function exchange(place: Place, request: HttpRequest, signal: AbortSignal, save?: SaveFile): Promise<HttpAnswer> {
  const { endpoint, tls, token } = place;
  const { method, path, body } = request;
  const address =
    endpoint.kind === 'unix' ? { socketPath: endpoint.path } : { host: endpoint.host, port: endpoint.port };
  const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const headers = { accept: 'application/json, application/problem+json', ...authorization, ...request.headers };
  // A connection for each exchange: a kept one that the hub has just closed would leave a write in doubt. The
  // hub keeps it all the same (keep-alive): if it refuses a body early, it would otherwise close it before its answer is read.
  const agent = tls === undefined ? new Agent({ keepAlive: true }) : new SecureAgent({ keepAlive: true });
  const common = { ...address, method, path, headers, agent, signal };
  const sent = tls === undefined ? plainRequest(common) : secureRequest({ ...common, ...tlsOptions(tls, place.face) });
  let progress: ExchangeError['progress'] = 'unsent';
  sent.once('finish', () => (progress = 'sent'));
  sent.once('socket', (socket) => {
    socket.setTimeout(connectMs, () => sent.destroy(Object.assign(new Error('no answer'), { code: 'ETIMEDOUT' })));
    socket.once(tls === undefined ? 'connect' : 'secureConnect', () => socket.setTimeout(0));
  });
  try {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      // What fails after the answer (the rest of a body that is not read) changes nothing about it.
      sent.on('error', reject).once('response', resolve);
      if (typeof body === 'object') pipeline(body, sent, () => undefined);
      else sent.end(body);
    });
    progress = 'answering';
    const status = response.statusCode ?? 0;
    if (status !== 200 || save === undefined)
      return { status, headers: response.headers, body: await wholeBody(response) };
    await savePieces(response, save);
    return { status, headers: response.headers, body: Buffer.alloc(0) };
  } catch (error) {
    throw error instanceof CliFailure ? error : new ExchangeError(error, progress);
  } finally {
    sent.destroy();
    agent.destroy();
  }
}

/** What breaks the answer off is no fault of the file. */
async function savePieces(response: IncomingMessage, save: SaveFile): Promise<void> {
  let broken: unknown;
  const pieces = async function* (): AsyncGenerator<Buffer> {
    try {
      yield* response as AsyncIterable<Buffer>;
    } catch (error) {
      broken = error;
      throw error;
    }
  };
  try {
    await save(pieces());
  } catch (error) {
    throw broken ?? error;
  }
}

async function wholeBody(response: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of response as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > maxAnswerBytes) throw Object.assign(new Error('the answer is too large'), { code: 'TOO_LARGE' });
    parts.push(part);
  }
  return Buffer.concat(parts);
}

function jsonBody({ headers, body }: HttpAnswer): JsonObject | undefined {
  if (!/^application\/(?:[\w.]+\+)?json\b/.test(headers['content-type'] ?? '')) return undefined;
  try {
    const value: unknown = JSON.parse(body.toString('utf8'));
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : undefined;
  } catch {
    return undefined;
  }
}

function queryText(query: Query): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`],
  );
  return pairs.length === 0 ? '' : `?${pairs.join('&')}`;
}

// A problem of the hub (RFC 9457) as a failure with the next step.

/** `next`: where the hub gives no hint of its own. */
const meanings: Readonly<Record<number, readonly [outcome: Outcome, next: string]>> = {
  401: ['denied', giveToken],
  403: ['denied', 'This needs a token with another role: see lineside token list on the box.'],
  404: ['nothing', ''],
  410: ['nothing', ''],
  413: ['refused', 'Send less at a time, or raise the limit in the configuration of the box.'],
  429: ['refused', 'Try again in a moment.'],
  500: ['refused', 'See the log of the service: journalctl -u lineside-hub.'],
  503: ['refused', 'Try again in a moment.'],
  507: [
    'refused',
    'Nothing was written. See lineside outbox: waiting changes are published when the broker is back; or free space on the disk.',
  ],
};

/** The command says itself what cannot be done. */
const nested = /^the (?:subscription|secret|delivery|deliveries) cannot be [a-z ]+: /;

/** More than a person reads; the count of the rest is said. The hub itself lists up to 10,000. */
const mostReasons = 10_000;
/** A line of a terminal or a few: what is longer is not made for reading. */
const mostChars = 2000;

/** `problem`: the body, where it was JSON. */
function problemFailure(httpStatus: number, problem: JsonObject | undefined): CliFailure {
  const strange = 'Is that the HTTP interface of lineside? Check --host and its port, or --socket.';
  const [outcome, known] = meanings[httpStatus] ?? ['refused', ''];
  const usual = problem === undefined && known === '' ? strange : known;
  const code = text(problem?.['code']);
  const detail = (text(problem?.['detail']) || text(problem?.['title'])).replace(nested, '');
  const why = detail === '' ? `the answer is HTTP status ${httpStatus} and no word more` : detail;
  return new CliFailure(code === 'SHUTTING_DOWN' ? 'unreachable' : outcome, code || `HTTP_${httpStatus}`, why, {
    // What the hub advises a client without a token is about headers.
    next: httpStatus === 401 ? usual : sentence(text(problem?.['hint'])) || usual,
    reasons: reasonsOf(problem?.['reasons']),
  });
}

function reasonsOf(given: unknown): readonly string[] {
  const all = Array.isArray(given) ? given : [];
  const shown = all.slice(0, mostReasons).map((reason) => text(reason));
  return all.length > shown.length ? [...shown, `... and ${all.length - shown.length} more`] : shown;
}

function text(value: unknown): string {
  return typeof value === 'string' ? safeText(value.slice(0, mostChars)) : '';
}

/** "free some space" as "Free some space." */
function sentence(hint: string): string {
  const begun = hint.charAt(0).toUpperCase() + hint.slice(1);
  return begun === '' || /[.!?]$/.test(begun) ? begun : `${begun}.`;
}
