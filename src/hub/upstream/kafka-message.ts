/** A batch as a Kafka message, and what it costs on the link. */
import { constants, gzipSync, zstdCompressSync } from 'node:zlib';
import type { OutgoingMessage } from '../kafka/face.ts';
import { SCHEMA_VERSION } from './packer.ts';

export type Compression = 'none' | 'gzip' | 'zstd';

export function kafkaMessage(id: number, topic: string, deviceId: string, value: Uint8Array): OutgoingMessage {
  const headers = {
    'content-type': 'application/x-protobuf',
    message: 'lineside.v1.UpstreamBatch',
    'schema-version': String(SCHEMA_VERSION),
    'device-id': deviceId,
  };
  return { id, topic, key: deviceId, value, headers };
}

/** Key, headers and what Kafka puts around them, before compression. */
export const MESSAGE_BYTES = 512;
/**
 * What a request and its answer cost beside the batch: Kafka's own frames and the acknowledgements of TCP. Measured at an
 * interface, with a small batch in it: 614 bytes without TLS.
 */
const REQUEST_BYTES = 600;
/** TCP/IP headers of both directions for each segment of 1,448 bytes: 7 %; and TLS's for each 16 KiB. */
const LINK_FACTOR = 1.08;

/** What compresses worse than with librdkafka's own level is charged as it is here: a little more. */
export function wireBytes(value: Uint8Array, compression: Compression): number {
  return (
    Math.ceil((Math.min(compressed(value, compression), value.length) + MESSAGE_BYTES / 2) * LINK_FACTOR) +
    REQUEST_BYTES
  );
}

function compressed(value: Uint8Array, compression: Compression): number {
  switch (compression) {
    case 'none':
      return value.length;
    case 'gzip':
      return gzipSync(value, { level: 1 }).length;
    case 'zstd':
      return zstdCompressSync(value, { params: { [constants.ZSTD_c_compressionLevel]: 1 } }).length;
  }
}
