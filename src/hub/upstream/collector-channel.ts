/** One gRPC channel to a collector, and its client, which is handed batches that are encoded already. */
import { Channel, ChannelCredentials, compressionAlgorithms, type connectivityState } from '@grpc/grpc-js';
import { createClient, Metadata } from 'nice-grpc';
import { parseListen } from '../../shared/config/listen.ts';
import { CollectorServiceDefinition } from '../../shared/proto/services.ts';
import { PING_MS } from './collector-cost.ts';
import type { CollectorSecrets } from './collector-secrets.ts';

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
