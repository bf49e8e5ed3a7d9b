/** The contract: the eight methods of serial.SerialService. */
import type { CallContext, Metadata, MethodDefinition, ServiceImplementation } from 'nice-grpc';
import type { Clock } from '../../shared/base/clock.ts';
import { SerialServiceDefinition, serial } from '../../shared/proto/services.ts';
import type { Log } from '../log/serial-log.ts';
import type { SendRequest } from '../port/line.ts';
import type { Line } from '../port/owner.ts';
import { nameOf, turnOf } from './auth-interceptor.ts';
import { u64 } from './encode.ts';
import type { LineHold } from './line-hold.ts';
import { newEntry } from './log-requests.ts';
import { sendEntries } from './log-streams.ts';
import { type StreamContext, subscribed } from './subscriptions.ts';

export interface ServiceContext extends StreamContext {
  readonly line: Line;
  readonly hold: LineHold;
  readonly log: Log;
  readonly clock: Clock;
}

/** Names the log in the response headers of its streams. */
export const LOG_ID_HEADER = 'lineside-log-id';

/** A stream whose messages are handed over encoded (Outgoing). */
export function encodedResponses<QI, QO, RI, RO, QS extends boolean, RS extends boolean>(
  definition: MethodDefinition<QI, QO, RI, RO, QS, RS>,
): MethodDefinition<QI, QO, Uint8Array, RO, QS, RS> {
  return { ...definition, responseSerialize: (bytes) => bytes };
}

export const SerialServer = {
  ...SerialServiceDefinition,
  streamLog: encodedResponses(SerialServiceDefinition.streamLog),
} as const;

export function serialService(parts: ServiceContext): ServiceImplementation<typeof SerialServer> {
  const { line, hold, log, clock, errorMapper } = parts;
  return {
    listDevices: () =>
      errorMapper.answer(async () => {
        const ports = await line.ports();
        return {
          devices: ports.map(({ portName, description, hardwareId }) => ({ portName, description, hardwareId })),
        };
      }),

    open: (request: serial.SerialConfig, context: CallContext) =>
      errorMapper.inContract(() => line.open(request, nameOf(context), () => hold.check()), context.trailer),

    close: (_request, context: CallContext) =>
      errorMapper.inContract(async () => {
        hold.check();
        await line.close(nameOf(context));
      }, context.trailer),

    getCurrentConfig: () => errorMapper.answer(() => serial.SerialConfig.fromObject({ ...line.currentConfig() })),

    sendPacket: (request: serial.Packet, context: CallContext) => {
      return sendPacket(parts, request, { ...turnOf(context), trailer: context.trailer });
    },

    receivePacket: () =>
      errorMapper.answer(() => {
        hold.check();
        const { seqId, payload, receivedAtMs, droppedBefore } = line.receive();
        const tags: Record<string, string> = { received_at_ms: String(receivedAtMs) };
        if (droppedBefore > 0) tags.dropped_packets = String(droppedBefore);
        return { seqId: u64(seqId), payload, tags };
      }),

    logRaw: (request: serial.SerialLogEntry) =>
      errorMapper.answer(async () => {
        hold.check();
        await log.store(newEntry(request, clock.wallMs()));
        return {};
      }),

    streamLog: ({ fromStart }: serial.LogStreamRequest, context: CallContext) =>
      subscribed(parts, context, (subscription, out) => {
        const sent = sendEntries(log, { after: fromStart ? 0 : 'live', follow: true }, subscription, out);
        standing(context, log);
        return sent;
      }),
  };
}

/**
 * The same for SendPacket and for a Session, whose trailer is for all of its answers. Never rejects: every outcome is in the
 * answer, with the seq_id.
 */
export async function sendPacket(
  { line, hold, errorMapper }: Pick<ServiceContext, 'line' | 'hold' | 'errorMapper'>,
  packet: serial.Packet,
  { trailer, ...from }: Omit<SendRequest, 'payload'> & { readonly trailer?: Metadata },
): Promise<serial.SendResponse.$Properties> {
  // Decoded bytes are a view on the received frame: the line keeps the payload, not the frame.
  const payload = new Uint8Array(packet.payload);
  const send = async (): Promise<void> => {
    hold.check(from.caller);
    await line.send({ payload, ...from });
  };
  const answer = await errorMapper.inContract(send, trailer);
  return { ...answer, echoSeqId: packet.seqId };
}

/** Sends the response headers now: the client knows that its subscription stands. nice-grpc sends nothing for empty ones. */
export function standing(context: CallContext, log: Log): void {
  context.header.set(LOG_ID_HEADER, log.logId);
  context.sendHeader();
}
