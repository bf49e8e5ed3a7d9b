/** The contract: the eight methods of serial.SerialService. */
import type { CallContext, Metadata, ServiceImplementation } from 'nice-grpc';
import type { Clock } from '../../shared/base/clock.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { serial } from '../../shared/proto/services.ts';
import { type NewEntry, RX, TX } from '../log/entry.ts';
import type { LogFace } from '../log/face.ts';
import type { Line, OpenRequest, SendRequest } from '../port/face.ts';
import { callerOf, deadlineMsOf } from './auth-interceptor.ts';
import { readMessageBatches } from './batches.ts';
import { fromU64, u64 } from './encode.ts';
import { type ErrorMapper, OK } from './error-mapper.ts';
import { MAX_NOTE_BYTES, MAX_RAW_DATA_BYTES } from './limits.ts';
import type { Subscriptions } from './subscriptions.ts';
import type { MessageBatch, SerialServer } from './wire.ts';

export interface ServiceParts {
  readonly line: Line;
  readonly log: LogFace;
  readonly clock: Clock;
  readonly errorMapper: ErrorMapper;
  readonly subscriptions: Subscriptions;
}

/** Names the log in the response headers of its streams. */
export const LOG_ID_HEADER = 'lineside-log-id';

export function serialService(parts: ServiceParts): ServiceImplementation<typeof SerialServer> {
  const { line, log, clock, errorMapper } = parts;
  return {
    async listDevices() {
      try {
        const ports = await line.ports();
        return {
          devices: ports.map(({ portName, description, hardwareId }) => ({ portName, description, hardwareId })),
        };
      } catch (error) {
        throw errorMapper.asStatus(error);
      }
    },

    async open(request: serial.SerialConfig, { trailer }: CallContext) {
      try {
        await line.open(openRequest(request));
        return OK;
      } catch (error) {
        return errorMapper.inContract(error, trailer);
      }
    },

    async close(_request, { trailer }: CallContext) {
      try {
        await line.close();
        return OK;
      } catch (error) {
        return errorMapper.inContract(error, trailer);
      }
    },

    async getCurrentConfig() {
      try {
        const config = line.currentConfig();
        return serial.SerialConfig.fromObject({ ...config });
      } catch (error) {
        throw errorMapper.asStatus(error);
      }
    },

    sendPacket: (request: serial.Packet, context: CallContext) => {
      const { signal, trailer } = context;
      return sendPacket(parts, request, {
        caller: callerOf(context),
        signal,
        deadlineMs: deadlineMsOf(context),
        trailer,
      });
    },

    async receivePacket() {
      try {
        const { seqId, payload, receivedAtMs, droppedBefore } = line.receive();
        const tags: Record<string, string> = { received_at_ms: String(receivedAtMs) };
        if (droppedBefore > 0) tags.dropped_packets = String(droppedBefore);
        return { seqId: u64(seqId), payload, tags };
      } catch (error) {
        throw errorMapper.asStatus(error);
      }
    },

    async logRaw(request: serial.SerialLogEntry) {
      try {
        await log.store(newEntry(request, clock));
        return {};
      } catch (error) {
        throw errorMapper.asStatus(error);
      }
    },

    streamLog: (request: serial.LogStreamRequest, context: CallContext) => streamLog(parts, request, context),
  };
}

function openRequest(request: serial.SerialConfig): OpenRequest {
  const { portName, baudRate, dataBits, parity, stopBits, packetSize } = request;
  return { portName, baudRate, dataBits, parity, stopBits, packetSize };
}

interface SendCall extends Omit<SendRequest, 'payload'> {
  /** A Session has but one, for all of its answers. */
  readonly trailer?: Metadata;
}

/** The same for SendPacket and for a Session. Never rejects: every outcome is in the answer, with the seq_id. */
export async function sendPacket(
  { line, errorMapper }: Pick<ServiceParts, 'line' | 'errorMapper'>,
  packet: serial.Packet,
  { trailer, ...from }: SendCall,
): Promise<serial.SendResponse.$Properties> {
  const echoSeqId = packet.seqId;
  // Decoded bytes are a view on the received frame: the line keeps the payload, not the frame.
  const payload = new Uint8Array(packet.payload);
  try {
    await line.send({ payload, ...from });
    return { ...OK, echoSeqId };
  } catch (error) {
    return { ...errorMapper.inContract(error, trailer), echoSeqId };
  }
}

function newEntry({ dir, timestamp, rawData, note }: serial.SerialLogEntry, clock: Clock): NewEntry {
  const direction: number = dir;
  if (direction !== TX && direction !== RX) throw invalid(`dir: ${direction} is neither TX (0) nor RX (1)`);
  if (rawData.length > MAX_RAW_DATA_BYTES) {
    throw invalid(`raw_data: has ${rawData.length} bytes, more than ${MAX_RAW_DATA_BYTES}`);
  }
  const noteBytes = Buffer.byteLength(note);
  if (noteBytes > MAX_NOTE_BYTES) throw invalid(`note: has ${noteBytes} bytes, more than ${MAX_NOTE_BYTES}`);
  const entry: Omit<NewEntry, 'timestampMs'> = { dir: direction, data: new Uint8Array(rawData), note };
  if (timestamp.isZero()) return { ...entry, timestampMs: clock.wallMs() };
  return { ...entry, timestampMs: fromU64(timestamp), timeGiven: true };
}

function invalid(message: string): LinesideError {
  return new LinesideError('INVALID_ARGUMENT', message);
}

async function* streamLog(
  { log, subscriptions, errorMapper }: ServiceParts,
  { fromStart }: serial.LogStreamRequest,
  context: CallContext,
): AsyncGenerator<MessageBatch, void, undefined> {
  try {
    const subscription = subscriptions.open(context.signal);
    try {
      const runs = log.read({ ...wholeLog, after: fromStart ? 0 : 'live' }, subscription.signal);
      standing(context, log);
      for await (const batch of readMessageBatches(runs, () => subscriptions.count > 1)) yield batch;
      subscription.checkStopping();
    } finally {
      subscription.close();
    }
  } catch (error) {
    throw errorMapper.asStatus(error);
  }
}

const wholeLog = { follow: true, dir: undefined, sinceMs: undefined, untilMs: undefined, limit: undefined } as const;

/** Sends the response headers now: the client knows that its subscription stands. nice-grpc sends nothing for empty ones. */
export function standing(context: CallContext, log: LogFace): void {
  context.header.set(LOG_ID_HEADER, log.logId);
  context.sendHeader();
}
