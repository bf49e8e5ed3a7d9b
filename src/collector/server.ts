/**
 * The collector as a server: one address, its credentials, its limits; and its CollectorService, which checks each batch, stores
 * it, and answers that it is stored once it is on the disk.
 */
import { createServer as createSocketServer, type Socket, type Server as SocketServer } from 'node:net';
import { createServer as createTlsServer, Server as TlsServer } from 'node:tls';
import {
  Server,
  ServerCredentials,
  type ServerReadableStream,
  type ServerUnaryCall,
  type ServiceDefinition,
  type ServiceError,
  type sendUnaryData,
  setLogger,
  status,
} from '@grpc/grpc-js';
import Long from 'long';
import { failureOf } from '../shared/auth/gated-call.ts';
import { MAX_HANDSHAKE_MS, readTlsFiles, TLS_PROFILE } from '../shared/auth/tls-files.ts';
import { TokenWatch } from '../shared/auth/token-reader.ts';
import { AuthFailureLog } from '../shared/base/burst-log.ts';
import { type Clock, endsWithin } from '../shared/base/clock.ts';
import { errorCatalogue, LinesideError } from '../shared/base/errors.ts';
import { bind } from '../shared/base/listeners.ts';
import type { Logger } from '../shared/base/logger.ts';
import { isLoopback } from '../shared/config/listen.ts';
import { CollectorServiceDefinition, lineside } from '../shared/proto/services.ts';
import { batchFault, idFault, sizeFault } from './batch-check.ts';
import {
  KEEPALIVE_MS,
  KEEPALIVE_TIMEOUT_MS,
  MAX_BATCH_BYTES,
  MAX_CONNECTION_IDLE_MS,
  MAX_CONNECTIONS,
  MAX_STREAMS,
  STOP_GRACE_MS,
  STORE_STOP_MS,
} from './limits.ts';
import {
  type Authenticator,
  checkOwner,
  createAuthInterceptor,
  noteSharedIds,
  ownerOf,
  PushEnded,
  Pushes,
  Received,
} from './pushes.ts';
import { Store } from './store.ts';
import { AheadOfPosition, realDisk } from './stored-log.ts';
import { parseDeviceTokens } from './tokens.ts';

export interface CollectorOptions {
  readonly host: string;
  /** 0: any. */
  readonly port: number;
  readonly dir: string;
  /** '': none. */
  readonly tlsCert: string;
  readonly tlsKey: string;
  /** The file of tokens; '': none. */
  readonly tokens: string;
  /** Another address than loopback without TLS or tokens. */
  readonly insecure: boolean;
}

export type Collector = Awaited<ReturnType<typeof startCollector>>;

/** CONFIG_INVALID if these options are not allowed or cannot work. */
export async function startCollector(options: CollectorOptions, clock: Clock, logger: Logger, disk = realDisk) {
  checkExposure(options);
  // grpc-js would write to standard error otherwise.
  setLogger({ error: (...said: unknown[]) => logger.warn('gRPC library', { said: said.join(' ') }) });
  const sockets = await socketServer(options);
  const store = new Store(options.dir, logger, disk);
  await store.start();
  const pushes = new Pushes(clock);
  const refused = new AuthFailureLog(clock, logger);
  // A log of its own, so that unknown callers do not hide the faults of a box.
  const notTaken = new AuthFailureLog(clock, logger);
  const { tokens: file } = options;
  const tokens = new TokenWatch({ file, clock, logger, parse: parseDeviceTokens, mayBeMissing: false });
  const authenticate: Authenticator | undefined =
    file === '' ? undefined : (authorization) => tokens.authenticate(authorization);
  const server = new Server({ ...serverOptions, interceptors: [createAuthInterceptor(authenticate, refused)] });
  const seen = noteSharedIds(clock, logger);
  server.addService(
    collectorDefinition,
    collectorService({ store, pushes, logger, seen, refused: notTaken, authenticate }),
  );
  const dropped = (peer: string): void => refused.note('connect', peer, 'too many connections');
  const listener = await listen(server, sockets, options, dropped).catch(async (error: unknown) => {
    await store.stop();
    throw error;
  });
  return {
    port: listener.port,
    pushes: () => pushes.count,
    stop: async (): Promise<void> => {
      pushes.close();
      // Time for the answers to the pushes to reach the boxes.
      await endsWithin(clock, STOP_GRACE_MS, listener.drain());
      server.forceShutdown();
      listener.cut();
      for (const log of [refused, notTaken]) log.stop();
      if (await endsWithin(clock, STORE_STOP_MS, store.stop())) return;
      throw new LinesideError('STORAGE_FAILED', `cannot flush to the disk within ${STORE_STOP_MS / 1_000} s`);
    },
  };
}

const serverOptions = {
  'grpc.max_receive_message_length': MAX_BATCH_BYTES,
  'grpc.max_concurrent_streams': MAX_STREAMS,
  'grpc.keepalive_time_ms': KEEPALIVE_MS,
  'grpc.keepalive_timeout_ms': KEEPALIVE_TIMEOUT_MS,
  'grpc.max_connection_idle_ms': MAX_CONNECTION_IDLE_MS,
};

function checkExposure({ host, insecure, tlsCert, tlsKey, tokens }: CollectorOptions): void {
  if ((tlsCert === '') !== (tlsKey === '')) {
    throw new LinesideError('CONFIG_INVALID', '--tls-cert and --tls-key are given together');
  }
  if (insecure || isLoopback(host)) return;
  const missing = [tlsCert === '' ? '--tls-cert and --tls-key' : '', tokens === '' ? '--tokens' : ''].filter(
    (one) => one !== '',
  );
  if (missing.length === 0) return;
  throw new LinesideError(
    'CONFIG_INVALID',
    `${host} can be reached from other machines and needs ${missing.join(' and ')}`,
    {
      hint: 'Or --insecure, where the network itself is trusted.',
    },
  );
}

async function socketServer({ tlsCert, tlsKey }: CollectorOptions): Promise<SocketServer> {
  if (tlsCert === '') return createSocketServer({ noDelay: true });
  const files = await readTlsFiles({ certFile: tlsCert, keyFile: tlsKey, clientCaFile: '' });
  return createTlsServer({
    ...TLS_PROFILE,
    ...files,
    ALPNProtocols: ['h2'],
    handshakeTimeout: MAX_HANDSHAKE_MS,
    noDelay: true,
  });
}

/** Connections are accepted here and handed to grpc-js, which has no limit to their number. */
async function listen(
  server: Server,
  listener: SocketServer,
  { host, port }: CollectorOptions,
  dropped: (peer: string) => void,
) {
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  const open = new Set<Socket>();
  listener.on('connection', (socket: Socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    // A socket without an error listener would end the process.
    socket.on('error', () => socket.destroy());
  });
  listener.on(listener instanceof TlsServer ? 'secureConnection' : 'connection', (socket: Socket) => {
    socket.on('error', () => socket.destroy());
    injector.injectConnection(socket);
  });
  listener.maxConnections = MAX_CONNECTIONS;
  listener.on('drop', (data) => dropped(data?.remoteAddress ?? 'unknown'));
  const { address } = await bind(listener, { kind: 'tcp', host, port }, `${host}:${port}`, '--listen');
  return {
    port: address.port,
    /** Takes no new connections and drains the open ones; resolves when they have ended. */
    drain(): Promise<void> {
      injector.drain(STOP_GRACE_MS);
      return new Promise((resolve) => void listener.close(() => resolve()));
    },
    cut(): void {
      for (const socket of open) socket.destroy();
    },
  };
}

const { getPosition, push: pushMethod } = CollectorServiceDefinition;

/** The batches of a push are counted before they are decoded, and kept as they came. In Node protobufjs makes the Buffers that grpc-js wants. */
const collectorDefinition = {
  getPosition,
  push: { ...pushMethod, requestDeserialize: (bytes: Uint8Array) => new Received(bytes) },
} as unknown as ServiceDefinition;

interface ServiceContext {
  readonly store: Store;
  readonly pushes: Pushes;
  readonly logger: Logger;
  readonly seen: ReturnType<typeof noteSharedIds>;
  readonly refused: AuthFailureLog;
  /** undefined: every machine that reaches the address may push for any device. */
  readonly authenticate: Authenticator | undefined;
}

type Answer<T> = sendUnaryData<T>;
type PositionCall = ServerUnaryCall<lineside.v1.PositionRequest, lineside.v1.Position.$Properties>;
type PushCall = ServerReadableStream<Received, lineside.v1.PushResult.$Properties>;

function collectorService(parts: ServiceContext) {
  const { store, logger, refused, seen } = parts;
  const refusal = (path: string, call: PositionCall | PushCall, error: unknown): Outcome => {
    const outcome = statusOf(error, logger);
    if (noted.has(outcome.code)) refused.note(path, call.getPeer(), outcome.details);
    return outcome;
  };
  const position = async (call: PositionCall): Promise<lineside.v1.Position.$Properties> => {
    const { deviceId, logId } = call.request;
    check(idFault('device_id', deviceId) || idFault('log_id', logId));
    checkOwner(call, deviceId);
    seen(deviceId, call.getPeer());
    return { throughId: await store.position(deviceId, logId) };
  };
  return {
    getPosition: (call: PositionCall, callback: Answer<lineside.v1.Position.$Properties>) =>
      void answered(position(call), callback, (error) => refusal(getPosition.path, call, error)),
    push: (call: PushCall, callback: Answer<lineside.v1.PushResult.$Properties>) =>
      void answered(push(parts, call), callback, (error) => refusal(pushMethod.path, call, error)),
  };
}

async function answered<T>(work: Promise<T>, callback: Answer<T>, refusal: (error: unknown) => Outcome): Promise<void> {
  const { error, value } = await work.then(
    (value) => ({ error: null, value }),
    (thrown: unknown) => ({ error: refusal(thrown), value: null }),
  );
  callback(error, value);
}

/** Refusals that are logged for the operator of the collector; the box handles the others. */
const noted: ReadonlySet<status> = new Set([
  status.INVALID_ARGUMENT,
  status.PERMISSION_DENIED,
  status.RESOURCE_EXHAUSTED,
  status.UNAVAILABLE,
]);

/** One call of Push. Answers the position up to which its last log is on the disk. */
async function push(parts: ServiceContext, call: PushCall): Promise<lineside.v1.PushResult.$Properties> {
  const { pushes, store, seen } = parts;
  const owner = ownerOf(call);
  const turn = pushes.begin(() => authenticateAgain(parts, call));
  if (owner !== undefined) pushes.claim(turn, owner);
  call.once('cancelled', () => turn.end(new PushEnded(status.CANCELLED, 'the box disconnected')));
  const iterator = call.iterator({ destroyOnReturn: false });
  let deviceId = '';
  /** What was stored, by its log; the last one is the last key. */
  const logs = new Set<string>();
  /** Everything of this push is on the disk. */
  const flush = async (): Promise<Long> => {
    let throughId = Long.UZERO;
    for (const logId of logs) throughId = await store.position(deviceId, logId);
    return throughId;
  };
  try {
    for (let next = await turn.next(iterator); next.done !== true; next = await turn.next(iterator)) {
      const received = next.value;
      const batch = decoded(received.bytes);
      checkOwner(call, batch.deviceId);
      seen(batch.deviceId, call.getPeer());
      if (deviceId !== '' && batch.deviceId !== deviceId) {
        throw new LinesideError('INVALID_ARGUMENT', 'device_id: is another one than in the batch before');
      }
      pushes.claim(turn, batch.deviceId);
      deviceId = batch.deviceId;
      await store.append(received.bytes, batch);
      logs.delete(batch.logId);
      logs.add(batch.logId);
      received.done();
    }
    return { throughId: await flush() };
  } catch (error) {
    // The batches before the failure are kept and flushed: the next push begins after them.
    await flush().catch(() => undefined);
    throw error;
  } finally {
    pushes.release(turn);
  }
}

async function authenticateAgain({ authenticate }: ServiceContext, call: PushCall): Promise<void> {
  if (authenticate === undefined) return;
  const owner = await authenticate(call.metadata.get('authorization').map(String));
  if (owner !== ownerOf(call)) throw new PushEnded(status.UNAUTHENTICATED, "the token is another one's now");
}

function decoded(bytes: Uint8Array): lineside.v1.UpstreamBatch {
  try {
    check(sizeFault(bytes));
    const batch = lineside.v1.UpstreamBatch.decode(bytes);
    check(batchFault(batch));
    return batch;
  } catch (error) {
    if (error instanceof LinesideError) throw error;
    const fault = 'the batch is no UpstreamBatch: its encoding is broken';
    throw new LinesideError('INVALID_ARGUMENT', fault, { cause: error });
  }
}

function check(fault: string): void {
  if (fault !== '') throw new LinesideError('INVALID_ARGUMENT', fault);
}

type Outcome = Pick<ServiceError, 'code' | 'details'>;

function statusOf(thrown: unknown, logger: Logger): Outcome {
  if (thrown instanceof PushEnded) return { code: thrown.code, details: thrown.message };
  if (thrown instanceof AheadOfPosition) return { code: status.OUT_OF_RANGE, details: thrown.message };
  const { error, details } = failureOf(thrown, logger, 'collector');
  return { code: status[errorCatalogue[error.code].grpc], details };
}
