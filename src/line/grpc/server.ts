/** The gRPC servers: one for each address, each with its own access policy, all with the same services. */
import { setDefaultHighWaterMark } from 'node:stream';
import { setLogger } from '@grpc/grpc-js';
import { type CallContext, createServer, type Server } from 'nice-grpc';
import { TokenReader } from '../../shared/auth/token-reader.ts';
import { AuthFailureLog } from '../../shared/base/burst-log.ts';
import { type Clock, pause } from '../../shared/base/clock.ts';
import { messageOf } from '../../shared/base/errors.ts';
import { Listeners } from '../../shared/base/listeners.ts';
import type { Logger } from '../../shared/base/logger.ts';
import { releaseMemory } from '../../shared/base/memory.ts';
import { once } from '../../shared/base/once.ts';
import type { Config } from '../../shared/config/config.ts';
import { isOwnMachine, type ListenAddress, showListen } from '../../shared/config/listen.ts';
import type { Log } from '../log/serial-log.ts';
import type { Line } from '../port/owner.ts';
import { authenticatorBy, type CertificateRoles } from './access.ts';
import { AuthInterceptor } from './auth-interceptor.ts';
import { ErrorMapper } from './error-mapper.ts';
import { MESSAGES_AHEAD, STOP_GRACE_MS, serverOptions } from './limits.ts';
import { lineService } from './line-service.ts';
import { isTrusted, type Listener, listen, Newcomers, needsTls } from './listener.ts';
import { serialService } from './serial-service.ts';
import { type StandardServices, standardServices } from './standard-services.ts';
import { Subscriptions } from './subscriptions.ts';
import { changedTlsKeys, TlsIdentity } from './tls-identity.ts';
import { LineServer, SerialServer } from './wire.ts';

interface GrpcServerOptions {
  readonly config: Config;
  readonly line: Line;
  readonly log: Log;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly version: string;
  /** What the last reload found wrong with the configuration; '' or missing: nothing. */
  readonly configurationRefused?: () => string;
}

export interface GrpcServers {
  /** Where they listen, with the ports that port 0 became. */
  readonly addresses: readonly string[];
  readonly listening: readonly ListenAddress[];
  /** What is to be said of addresses that are not served. */
  faults(): readonly string[];
  /**
   * Takes the keys that need no new listener, and reads the certificate again; answers the keys that it cannot take without
   * a restart. If the certificate cannot be used, its keys are among those and the one in use stays.
   */
  configure(config: Config): Promise<readonly string[]>;
  /** Ends streams with UNAVAILABLE, gives unary calls STOP_GRACE_MS, then cuts. */
  stop(): Promise<void>;
}

export async function startGrpcServers(parts: GrpcServerOptions): Promise<GrpcServers> {
  const { config, clock, logger } = parts;
  // Of all object streams of the process: neither library lets a call have its own, and the line has no others.
  setDefaultHighWaterMark(true, MESSAGES_AHEAD);
  // grpc-js would write these to standard error.
  setLogger({ error: (...said: unknown[]) => logger.warn('gRPC library', { said: said.join(' ') }) });
  const errorMapper = new ErrorMapper(logger);
  const subscriptions = new Subscriptions({
    limit: config.grpc.maxSubscribers,
    clock,
    releaseMemory: () => {
      releaseMemory().catch((error: unknown) => logger.warn('memory not released', { error: messageOf(error) }));
    },
  });
  const standard = standardServices(subscriptions, errorMapper);
  const refused = new AuthFailureLog(clock, logger);
  const auth = new AuthInterceptor(clock, refused);
  const endStalled = (context: CallContext): void => auth.endStalled(context);
  const services = { ...parts, errorMapper, subscriptions, endStalled };
  const serial = serialService(services);
  const faults = (): readonly string[] => [...listeners.faults, identity?.fault ?? ''].filter((fault) => fault !== '');
  const beyond = lineService(services, parts.version, () => ({
    configurationRefused: parts.configurationRefused?.() ?? '',
    listenerFault: faults().join('; '),
  }));
  let certificates: CertificateRoles = config.auth;
  const authenticate = authenticatorBy(new TokenReader(config.auth.tokensFile, clock, logger), () => certificates);

  const dropped = (peer: string, why: string): void => refused.note('connect', peer, why);
  const { listen: addresses } = config.grpc;
  const hasTls = addresses.some((address) => needsTls(address, config));
  const identity = hasTls ? await TlsIdentity.read(config.tls, logger) : undefined;
  const open = async (address: ListenAddress): Promise<Running> => {
    const newcomers = isOwnMachine(address) ? undefined : new Newcomers(clock, dropped);
    const interceptor = auth.interceptor(isTrusted(address, config) ? undefined : authenticate, (peer) =>
      newcomers?.admitted(peer),
    );
    const server = createServer({ ...serverOptions(config), interceptors: [interceptor] });
    server.add(SerialServer, serial);
    server.add(LineServer, beyond);
    standard.addTo(server);
    const own = needsTls(address, config) ? identity : undefined;
    return { server, listener: await listen(address, { server, identity: own, newcomers, dropped }) };
  };
  const listeners = new Listeners({ addresses, listen: open, show: showListen, clock, logger });
  const stop = once(async () => {
    await listeners.stop();
    await stopAll(listeners.open, auth, standard, subscriptions, clock);
    refused.stop();
  });
  try {
    await listeners.start();
  } catch (error) {
    await stop();
    throw error;
  }
  const listening = listeners.open.map(({ listener }) => listener.address);
  return {
    addresses: listening.map(showListen),
    listening,
    faults,
    async configure(changed) {
      const notTaken = await renew(identity, config, changed);
      certificates = changed.auth;
      subscriptions.limit(changed.grpc.maxSubscribers);
      return notTaken;
    },
    stop,
  };
}

interface Running {
  readonly server: Server;
  readonly listener: Listener;
}

/** The keys that cannot be taken without a restart. */
async function renew(identity: TlsIdentity | undefined, before: Config, { tls }: Config): Promise<readonly string[]> {
  if (identity !== undefined) return identity.renew(tls);
  // None listens for other machines, or in the clear: TLS comes with the listener.
  return before.grpc.listen.every(isOwnMachine) ? [] : changedTlsKeys(before.tls, tls);
}

async function stopAll(
  running: readonly Running[],
  auth: AuthInterceptor,
  standard: StandardServices,
  subscriptions: Subscriptions,
  clock: Clock,
): Promise<void> {
  for (const { listener } of running) listener.close();
  auth.close();
  standard.stop();
  subscriptions.endAll();
  const graceOver = new AbortController();
  const shutDown = async ({ server, listener }: Running): Promise<void> => {
    await server.shutdown();
    await listener.drained();
  };
  const finished = Promise.all(running.map(shutDown)).then(() => graceOver.abort());
  await Promise.race([finished, pause(clock, STOP_GRACE_MS, graceOver.signal)]);
  for (const { server, listener } of running) {
    server.forceShutdown();
    await listener.cut();
  }
}
