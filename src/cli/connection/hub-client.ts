/** The hub as the commands see it: requests with a time limit, answers read and checked, failures people can act on. */
import type { Clock } from '../../shared/base/clock.ts';
import { CliFailure, type ExitStatus, exitStatus } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import type { JsonObject } from '../output/json.ts';
import { badAnswer, Fields } from './answers.ts';
import { unreachable } from './diagnose.ts';
import { chosenEndpoint, type Endpoint, endpointText, hubFace } from './endpoint.ts';
import type { ExchangeError, HttpAnswer, HttpRequest } from './http-client.ts';
import { readSecrets, type Secrets } from './secrets.ts';
import { type ConnectSettings, tooSlow } from './service.ts';

interface HubLimits {
  readonly stop: AbortSignal;
  readonly timeoutMs: number;
  readonly clock: Clock;
}

export type Query = Readonly<Record<string, string | number | undefined>>;

/** A path below /api/v1, each part percent-encoded: keys may hold anything. */
export function apiPath(...parts: readonly (string | number)[]): string {
  return `/api/v1/${parts.map((part) => encodeURIComponent(part)).join('/')}`;
}

export class Hub {
  readonly #endpoint: Endpoint;
  readonly #secrets: Secrets;
  readonly #limits: HubLimits;

  private constructor(endpoint: Endpoint, secrets: Secrets, limits: HubLimits) {
    this.#endpoint = endpoint;
    this.#secrets = secrets;
    this.#limits = limits;
  }

  static async find(settings: ConnectSettings, limits: HubLimits): Promise<Hub> {
    const { options, env, localSocket } = settings;
    const chosen = chosenEndpoint(options, env, hubFace);
    const endpoint = chosen ?? { kind: 'unix', path: await localSocket(options.config) };
    return new Hub(endpoint, await readSecrets(endpoint, hubFace), limits);
  }

  /** Where it is, for people. */
  get place(): string {
    return endpointText(this.#endpoint);
  }

  get(path: string, query: Query = {}): Promise<JsonObject> {
    return this.#limited({ method: 'GET', path: path + queryText(query), headers: {} });
  }

  write(
    method: 'POST' | 'PUT' | 'PATCH',
    path: string,
    body: JsonObject,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<JsonObject> {
    const type = { 'content-type': 'application/json' };
    return this.#limited({ method, path, headers: { ...type, ...headers }, body: JSON.stringify(body) });
  }

  remove(path: string, headers: Readonly<Record<string, string>>): Promise<JsonObject> {
    // With no body at all got would wait for one.
    return this.#limited({ method: 'DELETE', path, headers, body: '' });
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
  async #answered(request: HttpRequest, signal: AbortSignal): Promise<JsonObject> {
    signal.throwIfAborted();
    const { exchange, ExchangeError } = await import('./http-client.ts');
    let answer: HttpAnswer;
    try {
      answer = await exchange(this.#endpoint, this.#secrets, request, signal);
    } catch (error) {
      signal.throwIfAborted();
      throw error instanceof ExchangeError ? await this.#broken(error, request.method !== 'GET') : error;
    }
    if (answer.status === 204) return {};
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
      const next = 'Try again: it may be stopping.';
      const what = `cannot hear the service at ${this.place} out`;
      return inDoubt(
        new CliFailure({ status: exitStatus.unreachable, code: 'BROKEN_ANSWER', what, why, next }),
        writes,
      );
    }
    const said = `it ended the connection without an answer${code === '' ? '' : ` (${safeText(code)})`}`;
    const failure = await unreachable(this.#endpoint, this.#secrets.tls, said, hubFace);
    return inDoubt(failure, writes && progress === 'sent');
  }
}

/** A write whose answer never came may have been done all the same. */
function inDoubt(failure: CliFailure, doubtful: boolean): CliFailure {
  if (!doubtful) return failure;
  const { status, code, what, message, cause } = failure;
  const next = 'It may have been done all the same: look before you try again.';
  return new CliFailure({ status, code, what, why: message, next, cause });
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

// What the hub answered when it did not do what was asked (RFC 9457), as a failure that says what to do next.

interface Meaning {
  readonly status: ExitStatus;
  /** Where the hub gives no hint of its own. */
  readonly next: string;
}

const meanings: Readonly<Record<number, Meaning>> = {
  401: {
    status: exitStatus.denied,
    next: 'Give a valid one: --token-file FILE, or LINESIDE_TOKEN_FILE; "lineside token list" on the box names them.',
  },
  403: { status: exitStatus.denied, next: 'This needs a token with another role: see lineside token list on the box.' },
  404: { status: exitStatus.nothing, next: '' },
  410: { status: exitStatus.nothing, next: '' },
  413: { status: exitStatus.refused, next: 'Send less at a time, or raise the limit in the configuration of the box.' },
  429: { status: exitStatus.refused, next: 'Try again in a moment.' },
  500: { status: exitStatus.refused, next: 'See the log of the service: journalctl -u lineside-hub.' },
  503: { status: exitStatus.refused, next: 'Try again in a moment.' },
  507: {
    status: exitStatus.refused,
    next: 'Nothing was written. Look at lineside outbox: what waits goes when the broker is back; or free space on the disk.',
  },
};

/** The command says itself what cannot be done. */
const nested = /^the (?:subscription|secret|delivery|deliveries) cannot be [a-z ]+: /;

/** More than a person reads; the count of the rest is said. The hub itself lists up to 10,000. */
const mostReasons = 10_000;
/** A line of a terminal or a few: what is longer is not made for reading. */
const mostChars = 2000;

/** `problem`: the body, where it was JSON. */
function problemFailure(httpStatus: number, problem: JsonObject | undefined): CliFailure {
  const known = meanings[httpStatus] ?? { status: exitStatus.refused, next: '' };
  const strange = 'Is that the HTTP interface of lineside? Check --host and its port, or --socket.';
  const meaning = problem === undefined && known.next === '' ? { ...known, next: strange } : known;
  const code = text(problem?.['code']);
  const detail = (text(problem?.['detail']) || text(problem?.['title'])).replace(nested, '');
  const stopping = code === 'SHUTTING_DOWN';
  return new CliFailure({
    status: stopping ? exitStatus.unreachable : meaning.status,
    code: code === '' ? `HTTP_${httpStatus}` : code,
    why: detail === '' ? `the answer is HTTP status ${httpStatus} and no word more` : detail,
    // What the hub advises a client without a token is about headers.
    next: httpStatus === 401 ? meaning.next : sentence(text(problem?.['hint'])) || meaning.next,
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
