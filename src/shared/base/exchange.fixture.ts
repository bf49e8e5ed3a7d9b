import { once } from 'node:events';
import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { type RequestOptions, request as requestTls } from 'node:https';
import { text } from 'node:stream/consumers';
import { LIMIT_MS } from './wait.fixture.ts';

export interface Exchanged {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** One request with its path as it is written, over TLS with a `ca`, and the whole answer. Rejects where none comes. */
export async function exchange(options: RequestOptions, body?: string | Uint8Array): Promise<Exchanged> {
  const asked = (options.ca === undefined ? request : requestTls)({ timeout: LIMIT_MS * 3, ...options });
  asked.on('timeout', () => asked.destroy(new Error(`no answer to ${options.method} ${options.path}`)));
  // Also after the answer has begun: then its body breaks off.
  asked.on('error', () => {});
  asked.end(body);
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  return { status: response.statusCode ?? 0, headers: response.headers, text: await text(response) };
}
