/** The gRPC channel and its two clients. Loaded only when a command calls the service: gRPC costs start-up time. */
import { Channel, ChannelCredentials, type ChannelOptions } from '@grpc/grpc-js';
import { ClientError, createClient, Metadata } from 'nice-grpc';
import { LineServiceDefinition, SerialServiceDefinition } from '../../shared/proto/services.ts';
import { type Endpoint, endpointText, type TlsMaterial } from './endpoint.ts';
import type { Place } from './secrets.ts';

/** The largest entry is 1 MiB and a batch holds several: four times gRPC's own default. */
const maxMessageBytes = 16 * 1024 * 1024;
/** A dead network is noticed within half a minute: a follower would wait without end otherwise. */
const keepaliveMs = 20_000;
const keepaliveTimeoutMs = 10_000;

export function openChannel({ endpoint, tls, token }: Place) {
  const channel = new Channel(target(endpoint), credentials(tls), channelOptions(endpoint, tls));
  const metadata = Metadata(token === undefined ? {} : { authorization: `Bearer ${token}` });
  const defaults = { '*': { metadata } };
  return {
    serial: createClient(SerialServiceDefinition, channel, defaults),
    line: createClient(LineServiceDefinition, channel, defaults),
    close: (): void => channel.close(),
  };
}

export type OpenedChannel = ReturnType<typeof openChannel>;

/** The gRPC status behind an error, undefined for other errors. */
export function grpcStatus(error: unknown): { code: number; details: string } | undefined {
  return error instanceof ClientError ? { code: error.code, details: error.details } : undefined;
}

function target(endpoint: Endpoint): string {
  const kind = endpoint.kind === 'unix' ? 'unix' : endpoint.host.includes(':') ? 'ipv6' : 'dns';
  return `${kind}:${endpointText(endpoint)}`;
}

function credentials(tls: TlsMaterial | undefined): ChannelCredentials {
  if (tls === undefined) return ChannelCredentials.createInsecure();
  const verify = tls.isPinned ? { checkServerIdentity: () => undefined } : {};
  return ChannelCredentials.createSsl(tls.ca ?? null, tls.key ?? null, tls.cert ?? null, verify);
}

function channelOptions(endpoint: Endpoint, tls: TlsMaterial | undefined): ChannelOptions {
  return {
    'grpc.max_receive_message_length': maxMessageBytes,
    'grpc.max_send_message_length': maxMessageBytes,
    // The box is on this network: a proxy meant for web pages has no part in it.
    'grpc.enable_http_proxy': 0,
    ...(endpoint.kind === 'unix'
      ? {}
      : { 'grpc.keepalive_time_ms': keepaliveMs, 'grpc.keepalive_timeout_ms': keepaliveTimeoutMs }),
    ...(tls?.serverName === undefined
      ? {}
      : { 'grpc.ssl_target_name_override': tls.serverName, 'grpc.default_authority': tls.serverName }),
  };
}
