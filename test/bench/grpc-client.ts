/** The grpc-js client of the round trips and of everything that is not measured. */
import { Client, type ClientDuplexStream, type ClientReadableStream, credentials } from '@grpc/grpc-js';
import {
  LineServiceDefinition,
  type lineside,
  SerialServiceDefinition,
  serial,
} from '../../src/shared/proto/services.ts';

const CONNECT_LIMIT_MS = 15_000;

interface Method<In, Out> {
  readonly path: string;
  readonly requestSerialize: (value: In) => Uint8Array;
  readonly responseDeserialize: (bytes: Uint8Array) => Out;
}

interface BufferMethod<In, Out> {
  readonly path: string;
  readonly write: (value: In) => Buffer;
  readonly read: (bytes: Buffer) => Out;
}

/** grpc-js wants Buffers. */
function buffers<In, Out>(method: Method<In, Out>): BufferMethod<In, Out> {
  return {
    path: method.path,
    write(value) {
      const bytes = method.requestSerialize(value);
      return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    },
    read: (bytes) => method.responseDeserialize(bytes),
  };
}

const open = buffers(SerialServiceDefinition.open);
const sendPacket = buffers(SerialServiceDefinition.sendPacket);
const streamLog = buffers(SerialServiceDefinition.streamLog);
const getStatus = buffers(LineServiceDefinition.getStatus);
const session = buffers(LineServiceDefinition.session);

export class GrpcClient {
  readonly #client: Client;

  constructor(address: string) {
    this.#client = new Client(address, credentials.createInsecure(), { 'grpc.use_local_subchannel_pool': 1 });
  }

  ready(limitMs = CONNECT_LIMIT_MS): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#client.waitForReady(Date.now() + limitMs, (error) => (error ? reject(error) : resolve()));
    });
  }

  close(): void {
    this.#client.close();
  }

  async open(portName: string, baudRate: number): Promise<void> {
    const answer = await this.#call(open, { portName, baudRate, dataBits: 8 });
    if (answer.status !== serial.StatusCode.OK) throw new Error(`Open ${portName}: ${answer.error}`);
  }

  sendPacket(payload: Uint8Array): Promise<serial.SendResponse> {
    return this.#call(sendPacket, { payload });
  }

  status(): Promise<lineside.v1.LineStatus> {
    return this.#call(getStatus, {});
  }

  streamLog(): ClientReadableStream<serial.SerialLogEntry> {
    return this.#client.makeServerStreamRequest(streamLog.path, streamLog.write, streamLog.read, {});
  }

  session(): ClientDuplexStream<lineside.v1.ISessionRequest, lineside.v1.SessionResponse> {
    return this.#client.makeBidiStreamRequest(session.path, session.write, session.read);
  }

  #call<In, Out>(method: BufferMethod<In, Out>, request: In): Promise<Out> {
    return new Promise((resolve, reject) => {
      this.#client.makeUnaryRequest(method.path, method.write, method.read, request, (error, answer) =>
        answer === undefined ? reject(error ?? new Error('no answer')) : resolve(answer),
      );
    });
  }
}
