/** The service definitions as this server uses them: its streams hand their messages over encoded (Outgoing). */
import type { MethodDefinition } from 'nice-grpc';
import { LineServiceDefinition, SerialServiceDefinition } from '../../shared/proto/services.ts';

function encodedResponses<QI, QO, RI, RO, QS extends boolean, RS extends boolean>(
  definition: MethodDefinition<QI, QO, RI, RO, QS, RS>,
): MethodDefinition<QI, QO, Uint8Array, RO, QS, RS> {
  return { ...definition, responseSerialize: (bytes) => bytes };
}

export const SerialServer = {
  ...SerialServiceDefinition,
  streamLog: encodedResponses(SerialServiceDefinition.streamLog),
} as const;

export const LineServer = {
  ...LineServiceDefinition,
  readLog: encodedResponses(LineServiceDefinition.readLog),
  searchLog: encodedResponses(LineServiceDefinition.searchLog),
  session: encodedResponses(LineServiceDefinition.session),
} as const;
