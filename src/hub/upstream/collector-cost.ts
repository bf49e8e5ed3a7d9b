/** What the way to a collector costs on the link: estimates that err upwards, for a cap and a budget to be kept by. */
import { gzipSync } from 'node:zlib';

/**
 * The largest batch: below gRPC's own default of 4 MiB for what a server takes, so that who writes a collector of his own
 * needs to set nothing.
 */
export const MAX_BATCH_BYTES = 4 * 1024 * 1024 - 1024;

/** A call without its message: HTTP/2 headers with a token both ways, flow control, TLS records, TCP's acknowledgements. */
export const CALL_BYTES = 1_500;
/** Of the message: TCP/IP headers in packets of 1,400 bytes and what acknowledges them, HTTP/2 frames and TLS records of 16 KiB. */
const PER_BYTE = 1.1;
/** gRPC's head of a message, and what gzip adds to what it cannot pack. */
const MESSAGE_BYTES = 64;

/** A TLS handshake with a chain of three certificates; half that where the session is taken up again. */
const TLS_BYTES = 9_000;
const PLAIN_BYTES = 600;

/** One that does not come about: a few packets without an answer. */
export const ATTEMPT_BYTES = 500;

/** A keepalive ping and its answer, in packets of their own. */
export const PING_BYTES = 300;
/** How often: as `lineside collector` asks, and as the box asks while a call is open. */
export const PING_MS = 20_000;

/** As grpc-js packs it: the same library at the same level. */
export function gzippedBytes(batch: Uint8Array): number {
  return gzipSync(batch).length;
}

export function callCost(messageBytes: number): number {
  return CALL_BYTES + Math.ceil((messageBytes + MESSAGE_BYTES) * PER_BYTE);
}

export function connectionCost(isPlain: boolean): number {
  return isPlain ? PLAIN_BYTES : TLS_BYTES;
}
