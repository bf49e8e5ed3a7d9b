/** Requests to the box that served this page, with the token that was typed. */
import { localProblem, ProblemError, problemOf } from '../problem.ts';
import { text as say } from '../text.ts';

/** Limit of an answer: a phone at the edge of the network gets it in seconds. */
const PATIENCE_MS = 20_000;

export interface Asked {
  /** A string is sent letter by letter. */
  readonly body?: object | string;
  /** Of a string that is not JSON. */
  readonly type?: string;
  /** Beside a body that has no field for it. */
  readonly changeReason?: string;
  /** For an answer that takes long. */
  readonly patienceMs?: number;
  readonly ifMatch?: number | undefined;
  readonly signal?: AbortSignal;
}

export class Api {
  readonly #token: string;
  readonly #onRefusedToken: () => void;

  constructor(token: string, onRefusedToken: () => void) {
    this.#token = token;
    this.#onRefusedToken = onRefusedToken;
  }

  async get<T>(path: string, signal?: AbortSignal, patienceMs = PATIENCE_MS): Promise<T> {
    const response = await this.#ask('GET', path, { patienceMs, ...(signal !== undefined && { signal }) });
    return (await response.json()) as T;
  }

  async file(path: string, patienceMs: number): Promise<Blob> {
    return (await this.#ask('GET', path, { patienceMs })).blob();
  }

  /** undefined: the answer has no body. */
  async send<T>(method: 'POST' | 'PUT' | 'PATCH' | 'DELETE', path: string, asked: Asked = {}): Promise<T | undefined> {
    const text = await (await this.#ask(method, path, asked)).text();
    return text === '' ? undefined : (JSON.parse(text) as T);
  }

  /** An answer without an end, piece by piece. */
  async stream(path: string, signal: AbortSignal): Promise<AsyncIterable<string>> {
    return pieces((await this.#body(path, signal)).body.pipeThrough(new TextDecoderStream()));
  }

  /** A file piece by piece; it fails if the file is cut short. The box limits how long it takes to make the file. */
  async download(path: string, signal: AbortSignal) {
    const { headers, body } = await this.#body(path, signal);
    return { ofBytes: Number(headers.get('content-length')), pieces: pieces(body) };
  }

  /** A file with its progress, which fetch does not report. The box limits how long it takes. */
  upload<T>(path: string, file: Blob, onProgress: (bytes: number) => void, signal: AbortSignal): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const request = new XMLHttpRequest();
    request.open('PUT', path);
    for (const [name, value] of this.#headers()) request.setRequestHeader(name, value);
    request.setRequestHeader('content-type', 'application/octet-stream');
    request.upload.addEventListener('progress', ({ loaded }) => onProgress(loaded));
    request.addEventListener('load', () => {
      const { status, responseText } = request;
      if (status === 200) resolve(JSON.parse(responseText) as T);
      else reject(this.#refusal(status, responseText));
    });
    request.addEventListener('error', () => reject(new TypeError(say.problems.uploadCut)));
    request.addEventListener('abort', () => reject(signal.reason as Error));
    signal.addEventListener('abort', () => request.abort(), { once: true });
    request.send(file);
    return promise;
  }

  async #body(path: string, signal: AbortSignal) {
    const response = await fetch(path, { ...plain, headers: this.#headers(), signal });
    if (!response.ok) throw this.#refusal(response.status, await response.text());
    if (response.body === null) throw new ProblemError(localProblem(say.problems.emptyAnswer, path));
    return { headers: response.headers, body: response.body };
  }

  async #ask(method: string, path: string, asked: Asked): Promise<Response> {
    const { body, type = 'application/json', ifMatch, changeReason = '', signal, patienceMs = PATIENCE_MS } = asked;
    const late = AbortSignal.timeout(patienceMs);
    const content = typeof body === 'object' ? JSON.stringify(body) : body;
    const headers = this.#headers();
    if (content !== undefined) headers.set('content-type', type);
    if (ifMatch !== undefined) headers.set('if-match', `"${ifMatch}"`);
    if (changeReason !== '') headers.set('x-change-reason', utf8Header(changeReason));
    const response = await fetch(path, {
      ...plain,
      method,
      headers,
      signal: signal === undefined ? late : AbortSignal.any([signal, late]),
      ...(content !== undefined && { body: content }),
    });
    if (!response.ok) throw this.#refusal(response.status, await response.text());
    return response;
  }

  #headers(): Headers {
    return new Headers({ authorization: `Bearer ${this.#token}` });
  }

  #refusal(status: number, body: string): ProblemError {
    if (status === 401) this.#onRefusedToken();
    return new ProblemError(problemOf(status, body));
  }
}

/** No cookies, no cache: the token alone identifies the caller. */
const plain = { credentials: 'omit', cache: 'no-store', redirect: 'error' } as const;

/** A header has bytes, which a browser wants as characters up to 255. */
const utf8Header = (text: string): string => String.fromCharCode(...new TextEncoder().encode(text));

async function* pieces<T>(body: ReadableStream<T>): AsyncIterable<T> {
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    // Releases the connection also if the caller stops early.
    await reader.cancel().catch(() => {});
  }
}
