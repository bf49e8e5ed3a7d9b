/** Failures as RFC 9457 problem details. The status is the error catalogue's; nothing internal is shown. Pure. */
import { type ErrorCode, errorCatalogue, LinesideError, systemCode } from '../../shared/base/errors.ts';
import type { Problem } from '../../shared/gen/http.ts';

export const PROBLEM_TYPE = 'application/problem+json';

/** The same for every occurrence of a code. */
export const titles: Readonly<Record<ErrorCode, string>> = {
  INVALID_ARGUMENT: 'Something in the request is not valid',
  SETTING_REFUSED: 'The setting was refused',
  PORT_NOT_FOUND: 'There is no such port',
  PORT_BUSY: 'The port is in use',
  PORT_PERMISSION: 'The port may not be opened',
  PORT_IO: 'The port failed',
  NOT_CONNECTED: 'No port is open',
  QUEUE_FULL: 'The queue is full',
  WRITE_TIMEOUT: 'Writing took too long',
  NOT_SENT: 'Nothing was sent',
  BUFFER_EMPTY: 'Nothing was received',
  UNSUPPORTED: 'That is not supported',
  LOG_NOT_STORED: 'The log did not store it',
  LOG_LOST: 'Entries of the log are gone',
  LOG_REPLACED: 'The log was replaced',
  TOO_MANY: 'Too many requests',
  UNAUTHENTICATED: 'Credentials are missing or not accepted',
  PERMISSION_DENIED: 'The role for this is missing',
  SHUTTING_DOWN: 'The service is stopping',
  CONFIG_INVALID: 'The configuration is not valid',
  MALFORMED: 'The request cannot be read',
  NOT_FOUND: 'There is no such thing',
  CONFLICT: 'That is not possible as things are',
  STALE_VERSION: 'The version has changed meanwhile',
  VERSION_REQUIRED: 'The version is missing',
  TOO_LARGE: 'The body is too large',
  UNSUPPORTED_MEDIA: 'The type or encoding of the body is not supported',
  STORAGE_FULL: 'The storage is full',
  STORAGE_FAILED: 'The storage failed',
  STORAGE_DAMAGED: 'The storage is damaged',
  NOT_READY: 'The service cannot work now',
  UPDATE_ON_TRIAL: 'The update is on trial',
  METHOD_NOT_ALLOWED: 'This path has no such method',
  REQUEST_TIMEOUT: 'The request did not arrive in time',
  HEADERS_TOO_LARGE: 'The headers are too large',
  INTERNAL: 'The service has failed',
};

/** Seconds after which a client may try again, by status: a full disk needs an operator, the others recover automatically. */
const retryAfterS: Readonly<Record<number, number>> = { 429: 1, 503: 5, 507: 60 };

export function problemOf(error: LinesideError, requestId: string): Problem {
  const { code, reasons, hint } = error;
  return {
    type: `urn:lineside:problem:${code}`,
    title: titles[code],
    status: errorCatalogue[code].http,
    // The message of an unforeseen error may hold anything: the request's id leads to its log line.
    detail: code === 'INTERNAL' ? 'an unforeseen fault; see the log of the service' : error.message,
    instance: `urn:lineside:request:${requestId}`,
    code,
    ...(reasons.length > 0 && { reasons }),
    ...(hint !== '' && { hint }),
  };
}

export function invalid(...reasons: readonly string[]): LinesideError {
  return new LinesideError('INVALID_ARGUMENT', reasons.join('; '), { reasons });
}

export function problemHeaders(code: ErrorCode): Record<string, string> {
  const seconds = retryAfterS[errorCatalogue[code].http];
  return {
    'content-type': PROBLEM_TYPE,
    'cache-control': 'no-store',
    ...(code === 'UNAUTHENTICATED' && { 'www-authenticate': 'Bearer realm="lineside"' }),
    ...(seconds !== undefined && { 'retry-after': String(seconds) }),
  };
}

/** Fastify's own errors, by their codes. */
const frameworkErrors: Readonly<Record<string, readonly [ErrorCode, string]>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: ['TOO_LARGE', 'the body is larger than http.max_body_bytes allows'],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['UNSUPPORTED_MEDIA', 'the Content-Type is not one that this route reads'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['MALFORMED', 'the body is not as long as Content-Length says'],
  FST_ERR_BAD_URL: ['MALFORMED', 'the path is not properly percent-encoded UTF-8'],
  FST_ERR_MAX_PARAM_LENGTH: ['MALFORMED', 'a part of the path is too long'],
};

export function errorOf(thrown: unknown): LinesideError {
  if (thrown instanceof LinesideError) return thrown;
  const [ours, message] = frameworkErrors[systemCode(thrown)] ?? [];
  if (ours !== undefined && message !== undefined) return new LinesideError(ours, message, { cause: thrown });
  // Fastify's mark of an error while it read the body.
  if (property(thrown, 'statusCode') === 400) {
    return new LinesideError('MALFORMED', 'the body could not be read to its end', { cause: thrown });
  }
  return new LinesideError('INTERNAL', 'unforeseen', { cause: thrown });
}

export function property(of: unknown, name: string): unknown {
  return typeof of === 'object' && of !== null ? Reflect.get(of, name) : undefined;
}
