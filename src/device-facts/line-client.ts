/** The line as the hub sees it: a gRPC service on a Unix socket, which may be away. */
import { Channel, ChannelCredentials } from '@grpc/grpc-js';
import { createClient } from 'nice-grpc';
import { LineServiceDefinition, SerialServiceDefinition } from '../proto/services.ts';
import type { LineSource } from './keeper.ts';

/** gRPC's own delay grows to two minutes; the socket is on this machine, and asking costs nothing. */
const MAX_RECONNECT_MS = 2_000;

export function connectLine(socketPath: string): LineSource {
  // Not createChannel(): it takes the path of a Unix socket for a host and adds a port.
  const channel = new Channel(`unix:${socketPath}`, ChannelCredentials.createInsecure(), {
    'grpc.initial_reconnect_backoff_ms': MAX_RECONNECT_MS,
    'grpc.max_reconnect_backoff_ms': MAX_RECONNECT_MS,
    'grpc.enable_http_proxy': 0,
  });
  const serial = createClient(SerialServiceDefinition, channel);
  const line = createClient(LineServiceDefinition, channel);
  return {
    async look(signal) {
      const [{ devices }, status] = await Promise.all([
        serial.listDevices({}, { signal }),
        line.getStatus({}, { signal }),
      ]);
      return { devices, status };
    },
    close: () => channel.close(),
  };
}
