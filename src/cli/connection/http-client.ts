/**
 * One HTTP exchange with the hub, by got: no retries, no redirects, nothing unpacked, the answer's size bounded. Loaded
 * only when a command calls the hub: got costs start-up time.
 */
import { Agent, type IncomingHttpHeaders, request as plainRequest } from 'node:http';
import { Agent as SecureAgent, request as secureRequest } from 'node:https';
import got, { type Options } from 'got';
import { messageOf, systemCode } from '../../shared/base/errors.ts';
import type { TlsMaterial } from './endpoint.ts';
import { type Endpoint, hubFace } from './endpoint.ts';
import type { Secrets } from './secrets.ts';

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Percent-encoded, with its query; sent as it is (a URL parser would take the key ".." for a step up). */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | AsyncGenerator<Uint8Array>;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** How far an exchange came before it failed: what may be said of its effect. */
export type Progress = 'unsent' | 'sent' | 'answering';

export class ExchangeError extends Error {
  override readonly name = 'ExchangeError';
  readonly progress: Progress;
  /** The code of the system, of TLS or of the HTTP parser; '' where there is none. */
  readonly code: string;

  constructor(message: string, code: string, progress: Progress, cause: unknown) {
    super(message, { cause });
    this.progress = progress;
    this.code = code;
  }
}

/** The largest page that the commands ask for holds 50 dead letters of 1 MB at most each. */
const maxAnswerBytes = 64 * 1024 * 1024;

/** A name, a connection, a handshake: the caller's own limit may be minutes. */
const connectMs = 10_000;

/** Any status is an answer; throws ExchangeError, also when the signal ends it. */
export async function exchange(
  endpoint: Endpoint,
  secrets: Secrets,
  request: HttpRequest,
  signal: AbortSignal,
): Promise<HttpAnswer> {
  let progress: Progress = 'unsent';
  const agent = newAgent(secrets.tls !== undefined);
  const stream = got.stream(
    // The place is given below: a URL holds neither every socket's path nor an IPv6 address with its zone.
    `${secrets.tls === undefined ? 'http' : 'https'}://localhost/`,
    gotOptions(endpoint, secrets, request, signal, agent, () => (progress = 'sent')),
  );
  let head: { readonly status: number; readonly headers: IncomingHttpHeaders } | undefined;
  stream.once('response', ({ statusCode, headers }: { statusCode: number; headers: IncomingHttpHeaders }) => {
    head = { status: statusCode, headers };
  });
  // What fails after the answer (the rest of a body that is not read) changes nothing about it.
  stream.on('error', () => undefined);
  const parts: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const part of stream as AsyncIterable<Buffer>) {
      bytes += part.length;
      if (bytes > maxAnswerBytes)
        throw new ExchangeError('the answer is too large', 'TOO_LARGE', 'answering', undefined);
      parts.push(part);
    }
  } catch (error) {
    throw error instanceof ExchangeError ? error : failed(error, head === undefined ? progress : 'answering');
  } finally {
    stream.destroy();
    agent.destroy();
  }
  if (head === undefined) throw failed(new Error('it ended the connection without an answer'), progress);
  return { ...head, body: Buffer.concat(parts) };
}

/**
 * A connection for each exchange: a kept one that the other side has just closed would leave a write in doubt. It is
 * asked to be kept all the same: a server that refuses a body early would otherwise cut it off before its answer is read.
 */
function newAgent(secure: boolean): Agent {
  return secure ? new SecureAgent({ keepAlive: true }) : new Agent({ keepAlive: true });
}

function failed(error: unknown, progress: Progress): ExchangeError {
  return new ExchangeError(messageOf(error), systemCode(error), progress, error);
}

type NativeRequest = NonNullable<Options['request']>;

function gotOptions(
  endpoint: Endpoint,
  secrets: Secrets,
  { method, path, headers, body }: HttpRequest,
  signal: AbortSignal,
  agent: Agent,
  onSent: () => void,
) {
  const native: NativeRequest = (url, options, answered) => {
    const place =
      endpoint.kind === 'unix' ? { socketPath: endpoint.path } : { hostname: endpoint.host, port: endpoint.port };
    const send = secrets.tls === undefined ? plainRequest : secureRequest;
    const made = send(url, { ...options, ...place, path, agent }, answered);
    made.once('finish', onSent);
    return made;
  };
  const authorization = secrets.token === undefined ? {} : { authorization: `Bearer ${secrets.token}` };
  return {
    method,
    headers: { accept: 'application/json, application/problem+json', ...authorization, ...headers },
    ...(body === undefined ? {} : { body }),
    request: native,
    https: secrets.tls === undefined ? {} : tlsOptions(secrets.tls),
    signal,
    throwHttpErrors: false,
    followRedirect: false,
    decompress: false,
    retry: { limit: 0 },
    timeout: { lookup: connectMs, connect: connectMs, secureConnect: connectMs },
  };
}

function tlsOptions({ ca, cert, key, serverName, isPinned }: TlsMaterial) {
  return {
    alpnProtocols: [hubFace.alpn],
    ...(ca === undefined ? {} : { certificateAuthority: ca }),
    ...(cert === undefined ? {} : { certificate: cert }),
    ...(key === undefined ? {} : { key }),
    ...(serverName === undefined ? {} : { serverName }),
    ...(isPinned ? { checkServerIdentity: () => undefined } : {}),
  };
}
