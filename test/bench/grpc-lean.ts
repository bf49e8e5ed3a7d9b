/**
 * A gRPC client that costs next to nothing: node:http2 and length prefixes alone. With grpc-js on the receiving side
 * as well, most rows would measure the client. Round trips use grpc-js itself (grpc-client.ts): there it belongs.
 */
import { connect, type IncomingHttpHeaders } from 'node:http2';
import { LineServiceDefinition, SerialServiceDefinition, serial } from '../../src/shared/proto/services.ts';

const { streamLog } = SerialServiceDefinition;
const { readLog } = LineServiceDefinition;
const { RX } = serial.SerialLogEntry.Direction;

const PREFIX_BYTES = 5;
/** Tags of fields: serial.SerialLogEntry's, and lineside.v1.LogBatch's. */
const ENTRY_DIR = 0x08;
const ENTRY_DATA = 0x1a;
const BATCH_ENTRY = 0x0a;
const LENGTH_DELIMITED = 2;

export interface LeanStream {
  /** Resolves when the server has ended the stream well; rejects on any status but OK, unless close() was called. */
  readonly ended: Promise<void>;
  /** Resolves with the response headers. */
  readonly open: Promise<void>;
  pause(): void;
  close(): Promise<void>;
}

/** A range of a buffer that is good during the call only. */
export type OnBytes = (buffer: Buffer, from: number, to: number) => void;

/** StreamLog: called back with each entry, undecoded. */
export function streamEntries(address: string, fromStart: boolean, onEntry: OnBytes): LeanStream {
  return serverStream(address, streamLog.path, streamLog.requestSerialize({ fromStart }), onEntry);
}

/** StreamLog: called back with what the line has received, entry by entry. */
export function receiveLog(address: string, fromStart: boolean, onReceived: OnBytes): LeanStream {
  let [dir, dataFrom, dataTo] = [0, 0, 0];
  const see = (tag: number, value: number, at: number): void => {
    if (tag === ENTRY_DIR) dir = value;
    else if (tag === ENTRY_DATA) [dataFrom, dataTo] = [at, at + value];
  };
  return streamEntries(address, fromStart, (buffer, from, to) => {
    dir = 0;
    dataFrom = dataTo = from;
    eachField(buffer, from, to, see);
    if (dir === RX) onReceived(buffer, dataFrom, dataTo);
  });
}

/** ReadLog of everything: called back with the number of entries in each batch. */
export function readBatches(address: string, onBatch: (entries: number) => void): LeanStream {
  let entries = 0;
  const see = (tag: number): void => {
    if (tag === BATCH_ENTRY) entries++;
  };
  return serverStream(address, readLog.path, readLog.requestSerialize({}), (buffer, from, to) => {
    entries = 0;
    eachField(buffer, from, to, see);
    onBatch(entries);
  });
}

function serverStream(address: string, path: string, request: Uint8Array, onMessage: OnBytes): LeanStream {
  const session = connect(`http://${address}`);
  const call = session.request({
    ':method': 'POST',
    ':path': path,
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  const splitter = messageSplitter(onMessage);
  let closing = false;
  const open = new Promise<void>((resolve) => call.once('response', () => resolve()));
  const ended = new Promise<void>((resolve, reject) => {
    let status = 'no status';
    const see = (headers: IncomingHttpHeaders): void => {
      const code = headers['grpc-status'];
      if (typeof code === 'string') status = `${code} ${headers['grpc-message']?.toString() ?? ''}`;
    };
    call.on('response', see);
    call.on('trailers', see);
    call.on('data', splitter);
    const end = (error?: Error): void =>
      closing || status.startsWith('0 ') ? resolve() : reject(error ?? new Error(`${path}: ${status}`));
    call.once('close', () => end());
    call.once('error', end);
    session.once('error', end);
  });
  // Reported where it is awaited; a stream that fails otherwise shows as missing entries.
  ended.catch(() => {});
  call.end(framed(request));
  return {
    ended,
    open,
    pause: () => void call.pause(),
    async close() {
      closing = true;
      const gone = new Promise<void>((resolve) => session.once('close', resolve));
      session.destroy();
      await gone;
    },
  };
}

function framed(message: Uint8Array): Buffer {
  const frame = Buffer.alloc(PREFIX_BYTES + message.length);
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, PREFIX_BYTES);
  return frame;
}

function messageSplitter(onMessage: OnBytes): (piece: Buffer) => void {
  let rest: Buffer | undefined;
  return (piece) => {
    const buffer = rest === undefined ? piece : Buffer.concat([rest, piece]);
    let at = 0;
    while (buffer.length - at >= PREFIX_BYTES) {
      const end = at + PREFIX_BYTES + buffer.readUInt32BE(at + 1);
      if (end > buffer.length) break;
      onMessage(buffer, at + PREFIX_BYTES, end);
      at = end;
    }
    rest = at === buffer.length ? undefined : buffer.subarray(at);
  };
}

/** Each field of a message, without an object of it: its tag, and its value, or its length and where it begins. */
function eachField(
  buffer: Buffer,
  from: number,
  to: number,
  see: (tag: number, value: number, at: number) => void,
): void {
  for (let at = from; at < to; ) {
    const tag = buffer[at++] ?? 0;
    let [value, scale, byte] = [0, 1, 0x80];
    for (; byte >= 0x80; scale *= 128) {
      byte = buffer[at++] ?? 0;
      value += (byte & 0x7f) * scale;
    }
    see(tag, value, at);
    if ((tag & 7) === LENGTH_DELIMITED) at += value;
  }
}
