/**
 * The generated protobufjs modules as typed nice-grpc service definitions. 64-bit fields are Long or, on the way
 * out, numbers below 2^53: a BigInt would be encoded as 0 without a word, and the types keep it out.
 */
import type { MethodDefinition } from 'nice-grpc';
import type { Writer } from 'protobufjs/minimal.js';
import { google, lineside, serial } from '../gen/proto.js';

interface Codec<In, Out> {
  encode(message: In): Writer;
  decode(bytes: Uint8Array): Out;
}

/** Fields that pbjs attaches to each method of a generated service's prototype. */
interface PbjsMethod {
  readonly path: string;
  readonly requestStream: true | undefined;
  readonly responseStream: true | undefined;
}

type Flag<T> = T extends true ? true : false;

function method<M extends PbjsMethod, QI, QO, RI, RO>(
  m: M,
  request: Codec<QI, QO>,
  response: Codec<RI, RO>,
): MethodDefinition<QI, QO, RI, RO, Flag<M['requestStream']>, Flag<M['responseStream']>> {
  return {
    path: m.path,
    requestStream: (m.requestStream === true) as Flag<M['requestStream']>,
    responseStream: (m.responseStream === true) as Flag<M['responseStream']>,
    requestSerialize: (value) => request.encode(value).finish(),
    requestDeserialize: (bytes) => request.decode(bytes),
    responseSerialize: (value) => response.encode(value).finish(),
    responseDeserialize: (bytes) => response.decode(bytes),
    options: {},
  };
}

const Empty = google.protobuf.Empty;
const contract = serial.SerialService.prototype;
const beyond = lineside.v1.LineService.prototype;
const v1 = lineside.v1;
const collector = v1.CollectorService.prototype;

/** The contract: every method of `serial.SerialService`. */
export const SerialServiceDefinition = {
  listDevices: method(contract.listDevices, Empty, serial.DeviceList),
  open: method(contract.open, serial.SerialConfig, serial.ConfigResponse),
  close: method(contract.close, Empty, serial.ConfigResponse),
  getCurrentConfig: method(contract.getCurrentConfig, Empty, serial.SerialConfig),
  sendPacket: method(contract.sendPacket, serial.Packet, serial.SendResponse),
  receivePacket: method(contract.receivePacket, Empty, serial.Packet),
  logRaw: method(contract.logRaw, serial.SerialLogEntry, Empty),
  streamLog: method(contract.streamLog, serial.LogStreamRequest, serial.SerialLogEntry),
} as const;

/** Beyond the contract: every method of `lineside.v1.LineService`. */
export const LineServiceDefinition = {
  open: method(beyond.open, v1.OpenRequest, serial.ConfigResponse),
  releaseHold: method(beyond.releaseHold, Empty, Empty),
  getStatus: method(beyond.getStatus, Empty, v1.LineStatus),
  readLog: method(beyond.readLog, v1.ReadLogRequest, v1.LogBatch),
  searchLog: method(beyond.searchLog, v1.SearchLogRequest, v1.SearchLogResponse),
  getLogHistogram: method(beyond.getLogHistogram, v1.LogHistogramRequest, v1.LogHistogram),
  listEvents: method(beyond.listEvents, v1.ListEventsRequest, v1.RecordedEvents),
  getModemLines: method(beyond.getModemLines, Empty, v1.ModemLines),
  setModemLines: method(beyond.setModemLines, v1.SetModemLinesRequest, v1.ModemLines),
  sendBreak: method(beyond.sendBreak, v1.SendBreakRequest, Empty),
  session: method(beyond.session, v1.SessionRequest, v1.SessionResponse),
} as const;

/** Where boxes push their serial log: every method of `lineside.v1.CollectorService`. */
export const CollectorServiceDefinition = {
  getPosition: method(collector.getPosition, v1.PositionRequest, v1.Position),
  push: method(collector.push, v1.UpstreamBatch, v1.PushResult),
} as const;

/** Metadata on a Unix socket of the line: on whose behalf the caller calls. */
export const CALLER_NAME_HEADER = 'lineside-caller-name';

/** The fields of a generated message's properties. */
export type FieldOf<M> = Exclude<keyof M, '$unknowns'>;

export { lineside, serial };
