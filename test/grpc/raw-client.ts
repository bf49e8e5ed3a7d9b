/** gRPC without a contract: any bytes to any method, and the status that comes back. */
import {
  type ChannelOptions,
  type Client,
  credentials,
  Metadata,
  makeGenericClientConstructor,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import type { Pair } from '../../src/shared/base/certificates.fixture.ts';
import { LIMIT_MS } from '../../src/shared/base/wait.fixture.ts';

export interface RawAnswer {
  /** Name of the gRPC status: "OK", "INVALID_ARGUMENT", ... */
  readonly code: string;
  readonly details: string;
  readonly message: Buffer | undefined;
}

const same = (bytes: Buffer): Buffer => bytes;

/** Over TLS, for certificates with the name localhost. */
export function securedClient(target: string, ca: Buffer, certificate?: Pair): RawClient {
  const channel = credentials.createSsl(ca, certificate?.key ?? null, certificate?.cert ?? null);
  return new RawClient(target, { 'grpc.ssl_target_name_override': 'localhost' }, channel);
}

export function bearer(token?: string): Metadata {
  const metadata = new Metadata();
  if (token !== undefined) metadata.set('authorization', `Bearer ${token}`);
  return metadata;
}

export class RawClient {
  readonly #client: Client;

  constructor(target: string, options: ChannelOptions = {}, channelCredentials = credentials.createInsecure()) {
    const Raw = makeGenericClientConstructor({}, 'raw');
    this.#client = new Raw(target, channelCredentials, { 'grpc.use_local_subchannel_pool': 1, ...options });
  }

  unary(path: string, message: Buffer, metadata = new Metadata()): Promise<RawAnswer> {
    return new Promise((resolve) => {
      const options = { deadline: Date.now() + LIMIT_MS };
      this.#client.makeUnaryRequest(path, same, same, message, metadata, options, (error, answer) =>
        resolve(answerOf(error, answer)),
      );
    });
  }

  /** Any method as a stream: sends the messages, takes the first answer (or the end), and cancels. */
  stream(path: string, messages: readonly Buffer[], metadata = new Metadata()): Promise<RawAnswer> {
    return new Promise((resolve) => {
      const options = { deadline: Date.now() + LIMIT_MS };
      const call = this.#client.makeBidiStreamRequest(path, same, same, metadata, options);
      call.on('data', (message: Buffer) => {
        resolve(answerOf(null, message));
        call.cancel();
      });
      // A subscription that stands may have nothing to say for a long time.
      if (/\/(StreamLog|ReadLog)$/.test(path)) {
        call.on('metadata', () => {
          resolve(answerOf(null, undefined));
          call.cancel();
        });
      }
      call.on('error', (error: ServiceError) => resolve(answerOf(error, undefined)));
      call.on('end', () => resolve(answerOf(null, undefined)));
      for (const message of messages) call.write(message);
      call.end();
    });
  }

  close(): void {
    this.#client.close();
  }
}

function answerOf(error: ServiceError | null, message: Buffer | undefined): RawAnswer {
  return { code: status[error?.code ?? 0] ?? String(error?.code), details: error?.details ?? '', message };
}
