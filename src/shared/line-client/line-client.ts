/** The client of the line for processes of the box (hub, doctor): gRPC on a Unix socket that may be unreachable. The CLI has its own. */
import { setDefaultHighWaterMark } from 'node:stream';
import { Channel, ChannelCredentials } from '@grpc/grpc-js';
import { createClient } from 'nice-grpc';
import { LineServiceDefinition, SerialServiceDefinition } from '../proto/services.ts';

/** gRPC's own delay grows to two minutes; the socket is on this machine, and an attempt costs nothing. */
const MAX_RECONNECT_MS = 2_000;

export type LineClient = ReturnType<typeof connectLine>;

/**
 * Messages of a stream that are read ahead of their consumer: one to hand over, one in flight. Node's own 16 are 16 MiB
 * for a slow reader of large entries, and the hub has two dozen readers in 384 MB.
 */
const READ_AHEAD = 2;

/** Connects with the first call, and again whenever it has to: every call may fail with UNAVAILABLE meanwhile. */
export function connectLine(socketPath: string) {
  // For all object streams of the process: neither library lets a call have its own, and the hub has no others.
  setDefaultHighWaterMark(true, READ_AHEAD);
  // Not createChannel(): it takes the path of a Unix socket for a host and adds a port.
  const channel = new Channel(`unix:${socketPath}`, ChannelCredentials.createInsecure(), {
    'grpc.initial_reconnect_backoff_ms': MAX_RECONNECT_MS,
    'grpc.max_reconnect_backoff_ms': MAX_RECONNECT_MS,
    'grpc.enable_http_proxy': 0,
  });
  return {
    serial: createClient(SerialServiceDefinition, channel),
    line: createClient(LineServiceDefinition, channel),
    close: (): void => channel.close(),
  };
}
