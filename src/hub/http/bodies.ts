/** Request bodies: exact JSON in UTF-8, uncompressed; and a budget for the bodies in memory. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { LinesideError } from '../../shared/base/errors.ts';
import { decodeUtf8, parseExactJson } from '../../shared/base/json.ts';
import { MAX_BODIES_BYTES } from './limits.ts';
import { isRedacted } from './schemas/shapes.ts';

export const NDJSON = 'application/x-ndjson';

/** The value; undefined: there is no body. MALFORMED names the place of the fault. */
export function readJson(request: FastifyRequest, bytes: Buffer): unknown {
  checkCharset(request.headers['content-type']);
  if (bytes.length === 0) return undefined;
  const text = decodeUtf8(bytes);
  if (text === undefined) throw new LinesideError('MALFORMED', 'the body is not UTF-8');
  const { value, fault } = parseExactJson(text);
  if (fault === undefined) return value;
  const { pointer } = fault;
  const message = isRedacted(request.routeOptions.config.body) ? withoutQuotation(fault.message) : fault.message;
  throw new LinesideError('MALFORMED', pointer === '' ? `the body ${message}` : `${pointer} in the body ${message}`);
}

/** A parser's message quotes the text around a fault, and the digits of a number that a double cannot keep. */
function withoutQuotation(message: string): string {
  if (!message.startsWith('is not JSON')) return message.replace(/the number \S+/, 'the number');
  return `is not JSON${/ at position \d+/.exec(message)?.[0] ?? ''}`;
}

/** JSON is UTF-8 (RFC 8259); a client that announces another charset sends another charset. */
export function checkCharset(contentType: string | undefined): void {
  const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(contentType ?? '')?.[1]?.toLowerCase();
  if (charset === undefined || charset === 'utf-8' || charset === 'utf8' || charset === 'us-ascii') return;
  throw new LinesideError('UNSUPPORTED_MEDIA', 'the body must be in UTF-8');
}

/** Nothing is decompressed: a small gzip file can hold gigabytes. */
export function checkEncoding(contentEncoding: string | undefined): void {
  if (contentEncoding === undefined || contentEncoding.toLowerCase() === 'identity') return;
  throw new LinesideError('UNSUPPORTED_MEDIA', 'the body must not be compressed', {
    hint: 'send it without Content-Encoding',
  });
}

/** Refuses by the announced length, before the client sends any of it. */
export function checkLength(contentLength: string | undefined, maxBytes: number, limit: string): void {
  if (Number(contentLength ?? 0) <= maxBytes) return;
  throw new LinesideError('TOO_LARGE', `the body is larger than ${limit} allows (${maxBytes} bytes)`);
}

export class BodyBudget {
  readonly #maxBodyBytes: number;
  heldBytes = 0;

  constructor(maxBodyBytes: number) {
    this.#maxBodyBytes = maxBodyBytes;
  }

  /** TOO_MANY if the budget is used up. Returned when the answer is sent, or its connection is closed. */
  take(request: FastifyRequest, reply: FastifyReply): void {
    const { 'content-length': announced, 'transfer-encoding': encoding } = request.headers;
    const bytes = Math.min(encoding === undefined ? Number(announced ?? 0) : this.#maxBodyBytes, this.#maxBodyBytes);
    if (bytes === 0) return;
    if (this.heldBytes > 0 && this.heldBytes + bytes > MAX_BODIES_BYTES) {
      throw new LinesideError('TOO_MANY', 'too many large requests at one time', { hint: 'send fewer at a time' });
    }
    this.heldBytes += bytes;
    reply.raw.once('close', () => {
      this.heldBytes -= bytes;
    });
  }
}
