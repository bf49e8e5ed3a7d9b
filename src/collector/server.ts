/** The collector as a server: one address, its credentials, its limits. */
import { createServer as createSocketServer, type Socket, type Server as SocketServer } from 'node:net';
import { createServer as createTlsServer, Server as TlsServer } from 'node:tls';
import { Server, ServerCredentials, setLogger } from '@grpc/grpc-js';
import { AuthFailureLog } from '../shared/auth/auth-failure-log.ts';
import { MAX_HANDSHAKE_MS, readTlsFiles, TLS_PROFILE } from '../shared/auth/tls-files.ts';
import { TokenWatch } from '../shared/auth/token-reader.ts';
import { type Clock, endsWithin } from '../shared/base/clock.ts';
import { LinesideError } from '../shared/base/errors.ts';
import { bind } from '../shared/base/listeners.ts';
import type { Logger } from '../shared/base/logger.ts';
import { isLoopback } from '../shared/config/listen.ts';
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
import { Pushes, SharedIds } from './pushes.ts';
import { type Authenticator, collectorDefinition, collectorService, createAuthInterceptor } from './service.ts';
import { Store } from './store.ts';
import { realDisk } from './stored-log.ts';
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

export interface Collector {
  readonly port: number;
  /** Pushes that are open. */
  readonly pushes: () => number;
  readonly stop: () => Promise<void>;
}

/** CONFIG_INVALID if these options are not allowed or cannot work. */
export async function startCollector(
  options: CollectorOptions,
  clock: Clock,
  logger: Logger,
  disk = realDisk,
): Promise<Collector> {
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
  const sharedIds = new SharedIds(clock, logger);
  server.addService(
    collectorDefinition,
    collectorService({ store, pushes, clock, logger, sharedIds, refused: notTaken, authenticate }),
  );
  const dropped = (peer: string): void => refused.note('connect', peer, 'too many connections');
  const listener = await listen(server, sockets, options, dropped).catch(async (error: unknown) => {
    await store.stop();
    throw error;
  });
  return {
    port: listener.port,
    pushes: () => pushes.count,
    async stop() {
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

interface Listener {
  readonly port: number;
  /** Takes no new connections and drains the open ones; resolves when they have ended. */
  drain(): Promise<void>;
  cut(): void;
}

/** Connections are accepted here and handed to grpc-js, which has no limit to their number. */
async function listen(
  server: Server,
  listener: SocketServer,
  { host, port }: CollectorOptions,
  dropped: (peer: string) => void,
): Promise<Listener> {
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
    drain() {
      injector.drain(STOP_GRACE_MS);
      return new Promise((resolve) => void listener.close(() => resolve()));
    },
    cut() {
      for (const socket of open) socket.destroy();
    },
  };
}
