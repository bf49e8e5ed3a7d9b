/** The gRPC servers: one for each address, each with its own access policy, all with the same services. */
import { createServer as createSocketServer, type Socket } from 'node:net';
import { setDefaultHighWaterMark } from 'node:stream';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:tls';
import { Server as GrpcJsServer, ServerCredentials, setLogger } from '@grpc/grpc-js';
import { type CallContext, createServer, type Server } from 'nice-grpc';
import { MAX_HANDSHAKE_MS, readTlsFiles, TLS_PROFILE, type TlsFiles } from '../../shared/auth/tls-files.ts';
import { TokenReader } from '../../shared/auth/token-reader.ts';
import { AuthFailureLog } from '../../shared/base/burst-log.ts';
import { type Clock, endsWithin } from '../../shared/base/clock.ts';
import { asLinesideError, messageOf } from '../../shared/base/errors.ts';
import { bind, Listeners } from '../../shared/base/listeners.ts';
import type { Logger } from '../../shared/base/logger.ts';
import { releaseMemory } from '../../shared/base/memory.ts';
import { once } from '../../shared/base/once.ts';
import type { Config } from '../../shared/config/config.ts';
import { isOwnMachine, type ListenAddress, showListen } from '../../shared/config/listen.ts';
import type { Log } from '../log/serial-log.ts';
import type { Line } from '../port/owner.ts';
import { authenticatorBy, type CertificateRoles } from './access.ts';
import { AuthInterceptor } from './auth-interceptor.ts';
import { Newcomers } from './connection.ts';
import { ErrorMapper } from './error-mapper.ts';
import { MAX_CONNECTIONS, MESSAGES_AHEAD, STOP_GRACE_MS, serverOptions } from './limits.ts';
import { LineHold } from './line-hold.ts';
import { LineServer, lineService } from './line-service.ts';
import { SerialServer, serialService } from './serial-service.ts';
import { standardServices } from './standard-services.ts';
import { Subscriptions } from './subscriptions.ts';

/** A worker that writes a batch answers in some 10 ms. */
const WORKER_COLLECTS_MS = 1_000;

interface GrpcServerOptions {
  readonly config: Config;
  readonly line: Line;
  readonly log: Log;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly version: string;
  /** What the last reload found wrong with the configuration; '' or missing: nothing. */
  readonly configurationRefused?: () => string;
  /** Changed keys that apply only after a restart; '' or missing: none. */
  readonly restartNeeded?: () => string;
}

export type GrpcServers = Awaited<ReturnType<typeof startGrpcServers>>;

export async function startGrpcServers(parts: GrpcServerOptions) {
  const { config, clock, logger } = parts;
  // Of all object streams of the process: neither library lets a call have its own, and the line has no others.
  setDefaultHighWaterMark(true, MESSAGES_AHEAD);
  // grpc-js would write these to standard error.
  setLogger({ error: (...said: unknown[]) => logger.warn('gRPC library', { said: said.join(' ') }) });
  const errorMapper = new ErrorMapper(logger);
  const releaseAll = (): Promise<void> => {
    const warn = (error: unknown): void => logger.warn('memory not released', { error: messageOf(error) });
    // The worker first, so that what it frees is given back too; one that hangs in the disk is not waited for.
    const collected = parts.log.collectGarbage().catch(warn);
    return endsWithin(clock, WORKER_COLLECTS_MS, collected).then(releaseMemory).catch(warn);
  };
  const subscriptions = new Subscriptions({
    limit: config.grpc.maxSubscribers,
    clock,
    releaseMemory: () => void releaseAll(),
  });
  const refused = new AuthFailureLog(clock, logger);
  const auth = new AuthInterceptor(clock, refused);
  const streams = { subscriptions, errorMapper, outgoing: (context: CallContext) => auth.outgoing(context) };
  const standard = standardServices(streams);
  const hold = new LineHold(clock, logger, parts.log, () => parts.line.restoreSettings());
  const services = { ...parts, ...streams, hold };
  const serial = serialService(services);
  const faults = (): readonly string[] => [...listeners.faults, identity?.fault ?? ''].filter((fault) => fault !== '');
  const beyond = lineService(services, parts.version, () => ({
    configurationRefused: parts.configurationRefused?.() ?? '',
    restartNeeded: parts.restartNeeded?.() ?? '',
    listenerFault: faults().join('; '),
  }));
  let certificates: CertificateRoles = config.auth;
  const authenticate = authenticatorBy(new TokenReader(config.auth.tokensFile, clock, logger), () => certificates);

  const dropped = (peer: string, why: string): void => refused.note('connect', peer, why);
  const { listen: addresses } = config.grpc;
  const hasTls = addresses.some((address) => needsTls(address, config));
  const identity = hasTls ? new TlsIdentity(config.tls, logger) : undefined;
  await identity?.renew(config.tls);
  const open = (address: ListenAddress): Promise<Listener> => {
    const newcomers = isOwnMachine(address) ? undefined : new Newcomers(clock, dropped);
    // Every caller that reaches it is trusted by the file permissions, or as one of the machine's own users.
    const isTrusted = isOwnMachine(address) || config.grpc.insecure;
    const needed = isTrusted ? undefined : authenticate;
    const interceptor = auth.interceptor(needed, address.kind === 'unix', (peer) => newcomers?.admitted(peer));
    const server = createServer({ ...serverOptions(config), interceptors: [interceptor] });
    server.add(SerialServer, serial);
    server.add(LineServer, beyond);
    standard.addTo(server);
    const own = needsTls(address, config) ? identity : undefined;
    return listen(address, { server, identity: own, newcomers, dropped });
  };
  const listeners = new Listeners({ addresses, listen: open, show: showListen, clock, logger });
  const stop = once(async () => {
    await listeners.stop();
    await stopAll(listeners.open, auth, standard, subscriptions, clock);
    hold.stop();
    refused.stop();
  });
  return {
    ...(await listeners.start(stop)),
    /** Of the log's worker and of this thread. Never rejects. */
    releaseMemory: releaseAll,
    /** One sentence for each address that is not served. */
    faults,
    /**
     * Takes the keys that need no new listener, and reads the certificate again; answers the keys that it cannot take without
     * a restart. If the certificate cannot be used, its keys are among those and the one in use stays.
     */
    async configure(changed: Config): Promise<readonly string[]> {
      const notTaken = await renew(identity, config, changed);
      certificates = changed.auth;
      subscriptions.limit = changed.grpc.maxSubscribers;
      return notTaken;
    },
    /** Ends streams with UNAVAILABLE, gives unary calls STOP_GRACE_MS, then cuts. */
    stop,
  };
}

/** The keys that cannot be taken without a restart. */
async function renew(identity: TlsIdentity | undefined, before: Config, { tls }: Config): Promise<readonly string[]> {
  if (identity !== undefined) return identity.renew(tls);
  // None listens for other machines, or in the clear: TLS comes with the listener.
  return before.grpc.listen.every(isOwnMachine) ? [] : changedTlsKeys(before.tls, tls);
}

const tlsKeys = {
  'tls.cert_file': 'certFile',
  'tls.key_file': 'keyFile',
  'tls.client_ca_file': 'clientCaFile',
} as const;
type TlsKey = keyof typeof tlsKeys;

function changedTlsKeys(before: Config['tls'], after: Config['tls']): TlsKey[] {
  return (Object.keys(tlsKeys) as TlsKey[]).filter((key) => before[tlsKeys[key]] !== after[tlsKeys[key]]);
}

/**
 * The certificate of the TLS addresses, which may be replaced while they listen: connections from then on get the new one,
 * those that are open keep theirs. As long as none can be used the addresses stay open and every handshake fails: the line
 * stays in service, and the next reload may bring a good one.
 */
class TlsIdentity {
  readonly #logger: Logger;
  readonly #asksForCertificates: boolean;
  readonly #servers: TlsServer[] = [];
  #tls: Config['tls'];
  #files: TlsFiles | undefined;

  /** renew() reads the files. */
  constructor(tls: Config['tls'], logger: Logger) {
    this.#tls = tls;
    this.#logger = logger;
    this.#asksForCertificates = tls.clientCaFile !== '';
  }

  /** '' if there is a certificate. */
  get fault(): string {
    return this.#files === undefined ? 'TLS CERTIFICATE FAULTY (see the journal), other machines are not served' : '';
  }

  /** Client certificates are optional: a token is accepted instead. */
  createServer(): TlsServer {
    const server = createTlsServer({
      ...TLS_PROFILE,
      ...this.#files,
      ALPNProtocols: ['h2'],
      handshakeTimeout: MAX_HANDSHAKE_MS,
      requestCert: this.#asksForCertificates,
      rejectUnauthorized: false,
      noDelay: true,
    });
    this.#servers.push(server);
    return server;
  }

  /** Answers the keys that it cannot take, and logs why their files cannot be used: the certificate in use stays. */
  async renew(tls: Config['tls']): Promise<readonly TlsKey[]> {
    if (tls.certFile === '' || (tls.clientCaFile !== '') !== this.#asksForCertificates) {
      return changedTlsKeys(this.#tls, tls);
    }
    try {
      this.#files = await readTlsFiles(tls);
    } catch (error) {
      const { message } = asLinesideError(error);
      // A key that is a credential of systemd's stays what it was at the start, while the certificate beside it may be renewed.
      const hint = 'if the key was renewed too, restart the service; else correct the files and reload';
      this.#logger.error('the TLS certificate was not taken', { error: message, hint });
      return ['tls.cert_file', 'tls.key_file'];
    }
    this.#tls = tls;
    for (const server of this.#servers) server.setSecureContext({ ...TLS_PROFILE, ...this.#files });
    return [];
  }
}

async function stopAll(
  listeners: readonly Listener[],
  auth: AuthInterceptor,
  standard: ReturnType<typeof standardServices>,
  subscriptions: Subscriptions,
  clock: Clock,
): Promise<void> {
  for (const listener of listeners) listener.close();
  auth.close();
  standard.stop();
  subscriptions.endAll();
  await endsWithin(clock, STOP_GRACE_MS, Promise.all(listeners.map((listener) => listener.drained())));
  for (const listener of listeners) await listener.cut();
}

// One address to listen on: who is trusted there, whether it speaks TLS, how many may connect. Connections are accepted here and
// handed to grpc-js, which treats them as its own (keepalive, idle time, forceShutdown) and has no limit to their number. If systemd
// opened the socket nothing is bound, so the process needs no network of its own.

/** TLS if it is configured and the address is reached from other machines; this machine's own need none. */
function needsTls(address: ListenAddress, { tls }: Config): boolean {
  return !isOwnMachine(address) && tls.certFile !== '';
}

type Listener = Awaited<ReturnType<typeof listen>>;

interface ListenOptions {
  readonly server: Server;
  /** undefined: no TLS. */
  readonly identity: TlsIdentity | undefined;
  /** undefined: the address is reached from this machine alone. */
  readonly newcomers: Newcomers | undefined;
  /** Called for each connection beyond the limit. */
  readonly dropped: (peer: string, why: string) => void;
}

/** CONFIG_INVALID: the address cannot be listened on. */
export async function listen(address: ListenAddress, options: ListenOptions) {
  const { server, identity, newcomers, dropped } = options;
  const injector = (await innerServer(server)).createConnectionInjector(ServerCredentials.createInsecure());
  const open = new Set<Socket>();
  const keep = (socket: Socket): void => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    // The peer sees that it ended; a socket without a listener would end the process.
    socket.on('error', () => socket.destroy());
  };
  const served = new Set<Promise<unknown>>();
  const serve = (socket: Socket): void => {
    const closed: Promise<unknown> = new Promise((resolve) => socket.once('close', resolve)).then(() =>
      served.delete(closed),
    );
    served.add(closed);
    injector.injectConnection(socket);
  };
  const listener = identity?.createServer() ?? createSocketServer({ noDelay: true });
  listener.on('connection', (socket: Socket) => {
    keep(socket);
    if (newcomers?.add(socket) === false) return;
    if (identity === undefined) serve(socket);
  });
  listener.on('secureConnection', (socket: Socket) => {
    socket.on('error', () => socket.destroy());
    serve(socket);
  });
  listener.maxConnections = MAX_CONNECTIONS;
  listener.on('drop', (data) => dropped(data?.remoteAddress ?? 'unix', 'too many connections'));
  const bound = await bind(listener, address, showListen(address), 'grpc.listen');
  return {
    /** With the port that port 0 became. */
    address: bound.address,
    /** No new connections: those that come wait at a socket of systemd's for the next process. */
    close: (): void => void listener.close(),
    /** Resolves when the calls and the connections that are served have ended; their last answers are on the way until then. */
    async drained(): Promise<void> {
      await server.shutdown();
      await Promise.all(served);
    },
    /** Ends what is left, half-made TLS connections included. */
    async cut(): Promise<void> {
      server.forceShutdown();
      for (const socket of open) socket.destroy();
      await bound.release();
    },
  };
}

/**
 * The grpc-js server of one of nice-grpc's, which keeps it to itself: it shows by calling bindAsync(), within the
 * synchronous part of listen(), for which alone that method is replaced.
 */
async function innerServer(server: Server): Promise<GrpcJsServer> {
  const { prototype } = GrpcJsServer;
  const own = Object.getOwnPropertyDescriptor(prototype, 'bindAsync');
  if (own === undefined) throw new TypeError('grpc-js no longer binds by bindAsync()');
  const met: GrpcJsServer[] = [];
  function bindNothing(this: GrpcJsServer, _address: string, _credentials: ServerCredentials, done: Bound): void {
    met.push(this);
    done(null, 0);
  }
  let listening: Promise<number>;
  try {
    Object.defineProperty(prototype, 'bindAsync', { ...own, value: bindNothing });
    listening = server.listen('inherited:');
  } finally {
    Object.defineProperty(prototype, 'bindAsync', own);
  }
  await listening;
  const [inner] = met;
  if (inner === undefined) throw new TypeError('nice-grpc no longer binds by bindAsync()');
  return inner;
}

type Bound = (error: Error | null, port: number) => void;
