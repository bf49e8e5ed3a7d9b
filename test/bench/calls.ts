/** Paths and requests of the streams that the lean client reads. */
import { LineServiceDefinition, SerialServiceDefinition } from '../../src/shared/proto/services.ts';

export const STREAM_LOG = SerialServiceDefinition.streamLog.path;
export const READ_LOG = LineServiceDefinition.readLog.path;

export const streamLogRequest = (fromStart: boolean): Uint8Array =>
  SerialServiceDefinition.streamLog.requestSerialize({ fromStart });

export const readLogRequest = (): Uint8Array => LineServiceDefinition.readLog.requestSerialize({});
