/**
 * The floor: grpc-js with nothing around it, serving the messages of the contract. Run by plain Node (types stripped).
 *   bare-grpc.ts pty PATH GAP_MS        StreamLog, SendPacket and Session on a PTY, as lineside does them, but no log: every
 *                                       read (GAP_MS 0) or every chunk up to a silence of GAP_MS is an entry
 *   bare-grpc.ts memory COUNT SIZE      StreamLog sends COUNT entries of SIZE bytes from memory
 * Reads by tty.ReadStream, writes by fs.writeSync, stops reading while any stream is full. Prints its TCP port.
 */
import { constants, openSync, writeSync } from 'node:fs';
import { ReadStream } from 'node:tty';
import {
  type handleBidiStreamingCall,
  type handleServerStreamingCall,
  type handleUnaryCall,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServerWritableStream,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import type Long from 'long';
import {
  LineServiceDefinition,
  type lineside,
  SerialServiceDefinition,
  serial,
} from '../../../src/shared/proto/services.ts';

type Entry = serial.SerialLogEntry.$Properties;
type LogCall = ServerWritableStream<serial.LogStreamRequest, Entry>;
type SessionCall = ServerDuplexStream<lineside.v1.SessionRequest, lineside.v1.SessionResponse.$Properties>;

const { TX, RX } = serial.SerialLogEntry.Direction;
const { OK } = serial.StatusCode;
/** protobufjs encodes numbers below 2^53 as they are; its types know Long alone, which would cost an object each. */
const uint64 = (value: number): Long => value as unknown as Long;
/** As lineside's longest chunk. */
const CHUNK_BYTES = 4_096;

const [mode, first, second] = process.argv.slice(2);
const server = new Server();

if (mode === 'pty' && first !== undefined) servePty(first, Number(second));
else if (mode === 'memory') serveMemory(Number(first), Number(second));
else throw new Error('bare-grpc: pty PATH GAP_MS | memory COUNT SIZE');

server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) => {
  if (error !== null) throw error;
  console.log(port);
});
process.once('SIGTERM', () => process.exit(0));

function servePty(path: string, gapMs: number): void {
  const fd = openSync(path, constants.O_RDWR | constants.O_NOCTTY);
  const tty = new ReadStream(fd);
  const logs = new Set<LogCall>();
  const sessions = new Set<SessionCall>();
  let full = 0;
  let nextId = 1;

  const flowing = (sent: boolean, call: LogCall | SessionCall): void => {
    if (sent) return;
    full++;
    tty.pause();
    call.once('drain', () => {
      if (--full === 0) tty.resume();
    });
  };
  const publish = (dir: serial.SerialLogEntry.Direction, rawData: Uint8Array): void => {
    const entry: Entry = { dir, timestamp: uint64(Date.now()), rawData };
    for (const call of logs) flowing(call.write(entry), call);
    if (sessions.size === 0) return;
    const id = uint64(nextId++);
    const batch = { log: { entries: [{ id, entry }], nextAfterId: id } };
    for (const call of sessions) flowing(call.write(batch), call);
  };
  const send = (payload: Uint8Array): void => {
    let at = 0;
    while (at < payload.length) at += writeSync(fd, payload, at);
    publish(TX, payload);
  };
  tty.on(
    'data',
    chunker(gapMs, (chunk) => publish(RX, chunk)),
  );

  const streamLog: handleServerStreamingCall<serial.LogStreamRequest, Entry> = (call) => {
    logs.add(call);
    call.on('cancelled', () => logs.delete(call));
    call.sendMetadata(call.metadata.clone());
  };
  const sendPacket: handleUnaryCall<serial.Packet, serial.SendResponse.$Properties> = (call, answer) => {
    send(call.request.payload);
    answer(null, { status: OK, echoSeqId: call.request.seqId });
  };
  const session: handleBidiStreamingCall<lineside.v1.SessionRequest, lineside.v1.SessionResponse.$Properties> = (
    call,
  ) => {
    call.on('data', (request: lineside.v1.SessionRequest) => {
      if (request.log != null) sessions.add(call);
      if (request.send == null) return;
      send(request.send.payload ?? new Uint8Array());
      call.write({ sent: { status: OK, echoSeqId: request.send.seqId ?? uint64(0) } });
    });
    call.on('cancelled', () => sessions.delete(call));
    call.on('end', () => call.end());
  };
  serve(SerialServiceDefinition, { streamLog, sendPacket });
  serve(LineServiceDefinition, { session });
}

function chunker(gapMs: number, publish: (chunk: Uint8Array) => void): (bytes: Buffer) => void {
  if (gapMs === 0) return publish;
  let parts: Buffer[] = [];
  let length = 0;
  let timer: NodeJS.Timeout | undefined;
  const cut = (bytes: number): void => {
    const all = parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts, length);
    parts = bytes < length ? [all.subarray(bytes)] : [];
    length -= bytes;
    publish(all.subarray(0, bytes));
  };
  return (bytes) => {
    parts.push(bytes);
    length += bytes.length;
    clearTimeout(timer);
    for (let whole = Math.floor(length / CHUNK_BYTES); whole > 0; whole--) cut(CHUNK_BYTES);
    if (length > 0) timer = setTimeout(() => cut(length), gapMs);
  };
}

function serveMemory(count: number, size: number): void {
  const entries: Entry[] = [];
  for (let i = 0; i < count; i++) {
    entries.push({ dir: RX, timestamp: uint64(1_700_000_000_000 + i), rawData: Buffer.alloc(size, i & 0xff) });
  }
  const streamLog: handleServerStreamingCall<serial.LogStreamRequest, Entry> = (call) => {
    let at = 0;
    const pump = (): void => {
      while (at < entries.length) {
        if (!call.write(entries[at++] ?? {})) return void call.once('drain', pump);
      }
      call.end();
    };
    pump();
  };
  serve(SerialServiceDefinition, { streamLog });
}

/** A method that is not implemented is left out: grpc-js answers UNIMPLEMENTED. In Node protobufjs makes the Buffers that it wants. */
function serve(
  definition: typeof SerialServiceDefinition | typeof LineServiceDefinition,
  methods: UntypedServiceImplementation,
): void {
  const service = Object.fromEntries(Object.entries(definition).filter(([name]) => name in methods));
  server.addService(service, methods);
}
