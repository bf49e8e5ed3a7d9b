/** The hub's HTTP interface as a client without any code of the product uses it: over TCP or its Unix socket. */
import { Agent } from 'node:http';
import { type RequestOptions as HttpsOptions, Agent as TlsAgent } from 'node:https';
import { type Exchanged, exchange } from '../../src/shared/base/exchange.fixture.ts';

export interface Answer extends Exchanged {
  /** The JSON of the body; undefined where it is empty or something else. */
  readonly body: Body | undefined;
}

/** The fields of answers that tests read: each may be missing. */
export interface Body {
  readonly [name: string]: unknown;
  readonly version?: number;
  readonly txTime?: string;
  readonly status?: number;
  readonly code?: string;
  readonly reasons?: readonly string[];
  readonly items?: readonly Body[];
  readonly nextCursor?: string;
}

export interface RequestOptions {
  /** An object is sent as JSON; text or bytes as they are, of `contentType`. */
  readonly body?: object | string | Uint8Array;
  readonly contentType?: string;
  readonly ifMatch?: number;
  readonly changeReason?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export class HubApi {
  readonly #agent: Agent;
  readonly #where: HttpsOptions;
  readonly #token: string;

  /** `address`: "host:port" or "unix:PATH"; `token`: '' for none. `tls`: with TLS. */
  constructor(address: string, token = '', tls?: { readonly ca: string; readonly servername: string }) {
    const [, host = '', port = ''] = /^(.*):(\d+)$/.exec(address) ?? [];
    const unix = address.startsWith('unix:');
    this.#agent = new (tls === undefined ? Agent : TlsAgent)({ keepAlive: true, maxSockets: 64 });
    this.#where = { ...(unix ? { socketPath: address.slice('unix:'.length) } : { host, port: Number(port) }), ...tls };
    this.#token = token;
  }

  get(path: string): Promise<Answer> {
    return this.send('GET', path);
  }

  post(path: string, body: object, more: RequestOptions = {}): Promise<Answer> {
    return this.send('POST', path, { ...more, body });
  }

  /** Whatever the status; rejects only where there was no whole answer. */
  async send(method: string, path: string, options: RequestOptions = {}): Promise<Answer> {
    const { body, contentType = 'application/json', ifMatch, changeReason, headers: more } = options;
    const bytes = body === undefined ? undefined : bytesOf(body);
    const headers = {
      ...(this.#token !== '' && { authorization: `Bearer ${this.#token}` }),
      ...(bytes !== undefined && { 'content-type': contentType, 'content-length': bytes.length }),
      ...(ifMatch !== undefined && { 'if-match': `"${ifMatch}"` }),
      ...(changeReason !== undefined && { 'x-change-reason': changeReason }),
      ...more,
    };
    const answer = await exchange({ ...this.#where, agent: this.#agent, method, path, headers }, bytes);
    return { ...answer, body: parsed(answer.text) };
  }

  close(): void {
    this.#agent.destroy();
  }
}

/** As a part of a path. */
export function recordPath(dictionary: string, key: string): string {
  return `/api/v1/dictionaries/${dictionary}/records/${encodeURIComponent(key)}`;
}

function bytesOf(body: object | string | Uint8Array): Uint8Array {
  if (body instanceof Uint8Array) return body;
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
}

function parsed(whole: string): Body | undefined {
  try {
    return JSON.parse(whole) as Body;
  } catch {
    return undefined;
  }
}
