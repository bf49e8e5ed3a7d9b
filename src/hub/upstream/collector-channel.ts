/** A connection to a collector: what it is made with (the token is never quoted anywhere), its gRPC channel, and what it costs on the link. */
import { readFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { Channel, ChannelCredentials, compressionAlgorithms, type connectivityState } from '@grpc/grpc-js';
import { createClient, Metadata } from 'nice-grpc';
import { LinesideError, systemCode } from '../../shared/base/errors.ts';
import { isLoopback, parseListen } from '../../shared/config/listen.ts';
import { CollectorServiceDefinition } from '../../shared/proto/services.ts';
import type { UpstreamSettings } from './transport.ts';

export type CollectorSettings = Pick<
  UpstreamSettings,
  'collector' | 'collectorTokenFile' | 'collectorCaFile' | 'collectorInsecure' | 'compression'
>;

export type CollectorSecrets = Awaited<ReturnType<typeof readCollectorSecrets>>;

export async function readCollectorSecrets(settings: CollectorSettings) {
  const { collectorTokenFile: tokenFile, collectorCaFile: caFile } = settings;
  const isPlain = isPlainLink(settings);
  /** undefined: the authorities of the system. */
  const ca = isPlain || caFile === '' ? undefined : await read(caFile);
  return { isPlain, ca, token: tokenFile === '' ? '' : tokenIn(tokenFile, (await read(tokenFile)).toString('utf8')) };
}

/** Without TLS: if the configuration says so, or if the collector is on this machine and no authority is named. */
export function isPlainLink({ collector, collectorCaFile, collectorInsecure }: CollectorSettings): boolean {
  if (collectorInsecure) return true;
  const parsed = parseListen(collector, '/');
  return collectorCaFile === '' && typeof parsed !== 'string' && parsed.kind === 'tcp' && isLoopback(parsed.host);
}

/** RFC 6750's token68: anything else is no token, and must reach neither a header nor the journal. */
function tokenIn(file: string, text: string): string {
  const token = text.trim();
  if (/^[A-Za-z0-9._~+/=-]{1,4096}$/.test(token)) return token;
  const fault = token === '' ? 'it is empty' : 'it does not hold one token and nothing else';
  throw new LinesideError('CONFIG_INVALID', `cannot use ${file}: ${fault}`);
}

async function read(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new LinesideError('CONFIG_INVALID', `cannot read ${file}: ${systemCode(error) || 'failed'}`, {
      cause: error,
    });
  }
}

/** A link that dies while a call is open shows within this and PING_MS. */
const KEEPALIVE_TIMEOUT_MS = 15_000;
/** gRPC's own delay grows to two minutes. */
const MAX_RECONNECT_MS = 30_000;

const EncodedCollector = {
  ...CollectorServiceDefinition,
  push: { ...CollectorServiceDefinition.push, requestSerialize: (batch: Uint8Array): Uint8Array => batch },
} as const;

export type CollectorChannel = ReturnType<typeof openCollector>;

export function openCollector(address: string, { isPlain, ca }: CollectorSecrets, compresses: boolean) {
  const credentials = isPlain ? ChannelCredentials.createInsecure() : ChannelCredentials.createSsl(ca ?? null);
  const channel = new Channel(target(address), credentials, {
    // Pings only while a call is open: an idle connection costs nothing of this side's making.
    'grpc.keepalive_time_ms': PING_MS,
    'grpc.keepalive_timeout_ms': KEEPALIVE_TIMEOUT_MS,
    'grpc.max_reconnect_backoff_ms': MAX_RECONNECT_MS,
    'grpc.enable_http_proxy': 0,
    'grpc.use_local_subchannel_pool': 1,
    ...(compresses && { 'grpc.default_compression_algorithm': compressionAlgorithms.gzip }),
  });
  let isClosed = false;
  const watch = (call: (state: connectivityState) => void): void => {
    const before = channel.getConnectivityState(false);
    channel.watchConnectivityState(before, Number.POSITIVE_INFINITY, () => {
      if (isClosed) return;
      call(channel.getConnectivityState(false));
      watch(call);
    });
  };
  return {
    client: createClient(EncodedCollector, channel),
    watch,
    begin: (): void => void channel.getConnectivityState(true),
    /** Whether it is still what these would make. */
    fits: (now: CollectorSecrets, compressed: boolean): boolean =>
      now.isPlain === isPlain &&
      compressed === compresses &&
      (now.ca === ca || (ca !== undefined && now.ca?.equals(ca) === true)),
    metadata: (token: string) => Metadata(token === '' ? {} : { authorization: `Bearer ${token}` }),
    close(): void {
      if (isClosed) return;
      isClosed = true;
      channel.close();
    },
  };
}

function target(address: string): string {
  const parsed = parseListen(address, '/');
  if (typeof parsed === 'string' || parsed.kind !== 'tcp') return `dns:${address}`;
  return parsed.host.includes(':') ? `ipv6:[${parsed.host}]:${parsed.port}` : `dns:${parsed.host}:${parsed.port}`;
}

// Costs on the link: estimates that err upwards, for a cap and a budget to be kept by.

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

/** A TLS handshake with a chain of three certificates; half that when the session is resumed. */
const TLS_BYTES = 9_000;
const PLAIN_BYTES = 600;

/** One that does not come about: a few packets without an answer. */
export const ATTEMPT_BYTES = 500;

/** A keepalive ping and its answer, in packets of their own. */
export const PING_BYTES = 300;
/** The interval of `lineside collector`, and of the box while a call is open. */
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
