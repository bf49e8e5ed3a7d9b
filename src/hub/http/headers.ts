/** Request headers besides credentials: expected version, change reason, request id; and the security headers of answers. Pure. */
import { LinesideError } from '../../shared/base/errors.ts';
import type { ExpectedVersion } from '../../shared/base/expected-version.ts';
import { decodeUtf8 } from '../../shared/base/json.ts';
import { MAX_CHANGE_REASON_CHARS } from '../outbox/event.ts';
import { MAX_QUOTED_CHARS, MAX_REQUEST_ID_CHARS } from './limits.ts';
import { invalid } from './problem.ts';

const TAG = String.raw`(W/)?"[\x21\x23-\x7e\x80-\xff]*"`;
/** "*" or a list of entity tags (RFC 9110, 8.8.3), for If-Match and If-None-Match. */
export const ENTITY_TAGS = `^(\\*|${TAG}([ \\t]*,[ \\t]*${TAG})*)$`;
const entityTags = new RegExp(ENTITY_TAGS);

/** undefined: it cannot be read. */
function tagsOf(header: string): '*' | readonly string[] | undefined {
  if (!entityTags.test(header)) return undefined;
  return header === '*' ? '*' : (header.match(new RegExp(TAG, 'g')) ?? []);
}

/** The versions that If-Match names; undefined: the header is missing. A weak tag names none: the comparison is strong. */
export function ifMatch(header: string | undefined): ExpectedVersion | undefined {
  if (header === undefined) return undefined;
  const tags = tagsOf(header);
  if (tags === undefined) {
    throw new LinesideError('MALFORMED', 'If-Match is neither "*" nor a list of versions in quotes', {
      hint: 'send the ETag that reading gave, for example If-Match: "3"',
    });
  }
  return tags === '*' ? tags : tags.flatMap((tag) => (/^"[1-9]\d{0,14}"$/.test(tag) ? Number(tag.slice(1, -1)) : []));
}

/** Whether If-None-Match names this tag: the caller has it already. The comparison is weak. */
export function isKnown(etag: string, header: string | undefined): boolean {
  const tags = tagsOf(header ?? '');
  return tags === '*' || tags?.some((tag) => tag.replace(/^W\//, '') === etag) === true;
}

/** No other site may frame an answer, and only the console loads anything. */
const BARE = "default-src 'none'; frame-ancestors 'none'";
/** The console loads its own files, sends its own requests, and cannot turn a string into code. */
const OF_CONSOLE = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

/** Of every answer, problems included. */
export function securityHeaders(url: string): Record<string, string> {
  return {
    'cache-control': 'no-store',
    'content-security-policy': /^\/console(?:[/?]|$)/.test(url) ? OF_CONSOLE : BARE,
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
  };
}

/**
 * PERMISSION_DENIED unless the page that asks is this host's own. Browsers send Origin with each WebSocket, and set no other limit to who
 * opens one. Without TLS here a proxy may have it: the scheme is then the proxy's.
 */
export function checkOrigin(
  headers: { readonly origin?: string | undefined; readonly host?: string | undefined },
  hasTls: boolean,
): void {
  const { origin = '', host = '' } = headers;
  const own = hasTls ? [`https://${host}`] : [`http://${host}`, `https://${host}`];
  if (host !== '' && own.includes(origin.toLowerCase())) return;
  const named = origin === '' ? 'there is none' : `not "${origin.slice(0, MAX_QUOTED_CHARS)}"`;
  throw new LinesideError('PERMISSION_DENIED', `Origin must be ${own.join(' or ')}: ${named}`, {
    hint: 'open the console by the address of the box; a proxy must keep the Host header',
  });
}

export function etag(version: number): string {
  return `"${version}"`;
}

/**
 * X-Change-Reason: plain text, its bytes read as UTF-8 (Node hands header bytes over as Latin-1). '' if there is none.
 * MALFORMED: no UTF-8; INVALID_ARGUMENT: too long.
 */
export function changeReason(header: string | readonly string[] | undefined): string {
  if (header === undefined) return '';
  const text = decodeUtf8(Uint8Array.from(String(header), (character) => character.charCodeAt(0)));
  if (text === undefined) throw new LinesideError('MALFORMED', 'X-Change-Reason is not UTF-8');
  if (Array.from(text).length > MAX_CHANGE_REASON_CHARS) {
    throw invalid(`X-Change-Reason must have at most ${MAX_CHANGE_REASON_CHARS} characters`);
  }
  return text;
}

/** The client's X-Request-Id if it is safe in a log line and a header; undefined: lineside makes one. */
export function requestId(header: string | readonly string[] | undefined): string | undefined {
  if (typeof header !== 'string' || header.length > MAX_REQUEST_ID_CHARS) return undefined;
  return /^[\w.:/+=@-]+$/.test(header) ? header : undefined;
}
