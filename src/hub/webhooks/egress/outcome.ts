/** Results of attempts, with messages for reviewers: those of Node and OpenSSL show addresses and source lines. Pure. */
import { systemCode } from '../../../shared/base/errors.ts';
import type { Cause } from '../face.ts';
import type { Phase } from './connections.ts';
import { EgressRefused } from './guard.ts';
import { NameUnresolved } from './resolver.ts';

export interface Outcome {
  /** undefined: no answer. */
  readonly status: number | undefined;
  /** '' accepted: 200, 201, 202, 204 in time. */
  readonly cause: Cause | '';
  /** For reviewers: never shows a resolved address. */
  readonly message: string;
  /** The first 4 KiB of the answer. */
  readonly answer: Buffer;
  readonly elapsedMs: number;
  /** Of cause ssrf: each rule that was broken. */
  readonly reasons: readonly string[];
  /** It failed before a connection was established: it does not count while the device is offline. */
  readonly unreached: boolean;
}

export interface Failure extends Pick<Outcome, 'message' | 'reasons' | 'unreached'> {
  readonly cause: Cause;
}

export function failedOutcome(failure: Failure, status: number | undefined, elapsedMs: number): Outcome {
  return { ...failure, status, answer: Buffer.alloc(0), elapsedMs: Math.round(elapsedMs) };
}

export function failure(cause: Cause, message: string, unreached: boolean): Failure {
  return { cause, message, reasons: [], unreached };
}

const connection: Readonly<Record<string, string>> = {
  ENETUNREACH: 'there is no route to HOST',
  EHOSTUNREACH: 'HOST cannot be reached',
  ENETDOWN: 'the network is down',
  EADDRNOTAVAIL: 'the device has no address to call HOST from',
  ECONNREFUSED: 'HOST refused the connection',
  ECONNRESET: 'HOST closed the connection without an answer',
  EPIPE: 'HOST closed the connection before the request was sent',
  ETIMEDOUT: 'the connection to HOST died',
  EPERM: 'the device itself forbids to call HOST (its firewall, or the unit of the service)',
  EACCES: 'the device itself forbids to call HOST (its firewall, or the unit of the service)',
};
const clockHint = "is the device's clock right?";
const issuerHint = 'webhooks.ca_file takes authorities of your own';
const certificates: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: `the certificate of HOST has expired (${clockHint})`,
  CERT_NOT_YET_VALID: `the certificate of HOST is not valid yet (${clockHint})`,
  CERT_REVOKED: 'the certificate of HOST is revoked',
  CERT_REJECTED: 'the certificate of HOST is rejected',
  CERT_UNTRUSTED: `the certificate of HOST is not trusted (${issuerHint})`,
  ERR_TLS_CERT_ALTNAME_INVALID: 'the certificate is for other names than HOST',
  DEPTH_ZERO_SELF_SIGNED_CERT: `the certificate of HOST is self-signed (${issuerHint})`,
  SELF_SIGNED_CERT_IN_CHAIN: `the certificate of HOST comes from an authority that is not known here (${issuerHint})`,
  UNABLE_TO_GET_ISSUER_CERT: `the certificate of HOST comes from an authority that is not known here (${issuerHint})`,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: `the certificate of HOST comes from an authority that is not known here, or HOST does not send its intermediate certificate (${issuerHint})`,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: `the certificate of HOST comes from an authority that is not known here, or HOST does not send its intermediate certificate (${issuerHint})`,
  INVALID_CA: 'the certificate of HOST comes from what is no authority',
  INVALID_PURPOSE: 'the certificate of HOST is not for servers',
};
const phases: Readonly<Record<Phase, string>> = {
  resolve: 'resolving the name HOST',
  connect: 'connecting to HOST',
  tls: 'in the TLS handshake with HOST',
  send: 'sending the request to HOST',
  wait: 'waiting for the answer of HOST',
  read: 'reading the answer of HOST',
};

/** Phases before the TCP connection is established. */
const before: readonly Phase[] = ['resolve', 'connect'];

export function lateIn(phase: Phase, host: string, timeoutMs: number): Failure {
  return failure('timeout', `${timeoutMs} ms were over while ${named(phases[phase], host)}`, before.includes(phase));
}

/** For a caller that needs no outcome. */
export const cancelled = failure('connect', 'cancelled', true);

/** An answer of another status than 200, 201, 202 and 204. */
export function notAccepted(status: number, host: string): Failure {
  const redirect = status >= 300 && status < 400 ? '; redirects are not followed' : '';
  const other = status >= 200 && status < 300 ? ', which is none of 200, 201, 202 and 204' : '';
  return failure('http', `${host} answered ${status}${redirect}${other}`, false);
}

/** An accepting answer that is incomplete: the subscriber may have the delivery, and repeating it is safe. */
export function truncated(status: number, host: string): Failure {
  return failure('connect', `${host} answered ${status} and closed the connection before the end of the answer`, false);
}

/** `host`: as the URL has it. */
export function failureOf(error: unknown, phase: Phase, host: string): Failure {
  if (error instanceof EgressRefused) {
    // A delivery keeps only the message, which must name the rules.
    return { ...failure('ssrf', `${host} may not be called: ${error.message}`, false), reasons: error.reasons };
  }
  if (error instanceof NameUnresolved) return failure('dns', error.message, true);
  const code = systemCode(error);
  const plain = (cause: Cause, text: string): Failure => failure(cause, named(text, host), before.includes(phase));
  const certificate = certificates[code];
  if (certificate !== undefined) return plain('tls', certificate);
  if (code.startsWith('ERR_SSL_') || code === 'EPROTO') return plain('tls', `TLS with HOST failed: ${reasonOf(error)}`);
  if (phase === 'tls') return plain('tls', `TLS with HOST failed: ${tlsEnd(code)}`);
  if (code === 'HPE_HEADER_OVERFLOW') return plain('http', 'the headers of the answer of HOST are too long');
  if (code.startsWith('HPE_')) return plain('http', `HOST answered what is not HTTP (${code})`);
  // The kernel's timeout of connect().
  if (code === 'ETIMEDOUT' && phase === 'connect') return plain('timeout', 'HOST does not answer a connection');
  return plain(
    'connect',
    connection[code] ?? `the connection to HOST failed (${code === '' ? 'no reason given' : code})`,
  );
}

/** Whether this file has a message for a failed connection. */
export function isExpected(error: unknown): boolean {
  return systemCode(error) in connection;
}

function named(text: string, host: string): string {
  return text.replaceAll('HOST', () => host);
}

/** OpenSSL's reason ("tlsv1 alert protocol version") shows no address. */
function reasonOf(error: unknown): string {
  const known = error instanceof Error && 'reason' in error ? error.reason : undefined;
  return typeof known === 'string' ? known : systemCode(error);
}

function tlsEnd(code: string): string {
  return code === '' || code === 'ECONNRESET' ? 'the connection was closed in the handshake' : code;
}
