/** The service definitions as this server uses them: streams of the log are handed over encoded already. */
import type { MethodDefinition } from 'nice-grpc';
import { LineServiceDefinition, SerialServiceDefinition } from '../../shared/proto/services.ts';

function encodedResponses<QI, QO, RI, RO, QS extends boolean, RS extends boolean>(
  definition: MethodDefinition<QI, QO, RI, RO, QS, RS>,
): MethodDefinition<QI, QO, Uint8Array, RO, QS, RS> {
  return { ...definition, responseSerialize: (bytes) => bytes };
}

/**
 * A stream of many small messages, handed over in batches: each is a message of its own on the wire (the auth
 * interceptor takes the batch apart), but nice-grpc's generators see only the batch.
 */
function batchesOfResponses<QI, QO, RI, RO, QS extends boolean, RS extends boolean>(
  definition: MethodDefinition<QI, QO, RI, RO, QS, RS>,
): MethodDefinition<QI, QO, MessageBatch, RO, QS, RS> {
  return { ...definition, responseSerialize: single };
}

/** Never empty. */
export type MessageBatch = readonly Uint8Array[];

/** What is left when the interceptor is done: one message. */
function single(message: unknown): Uint8Array {
  if (message instanceof Uint8Array) return message;
  throw new TypeError('a batch of messages passed the auth interceptor undivided');
}

export const SerialServer = {
  ...SerialServiceDefinition,
  streamLog: batchesOfResponses(SerialServiceDefinition.streamLog),
} as const;

export const LineServer = {
  ...LineServiceDefinition,
  readLog: encodedResponses(LineServiceDefinition.readLog),
  session: encodedResponses(LineServiceDefinition.session),
} as const;
