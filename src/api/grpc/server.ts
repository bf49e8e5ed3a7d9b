/** The gRPC servers: one for each address, each with its own access policy, all with the same services. */
import { setDefaultHighWaterMark } from 'node:stream';
import { ServerCredentials, setLogger } from '@grpc/grpc-js';
import { createServer, type Server } from 'nice-grpc';
import { type Clock, pause } from '../../base/clock.ts';
import { LinesideError, messageOf } from '../../base/errors.ts';
import type { Logger } from '../../base/logger.ts';
import { RefusalLog } from '../../base/refusal-log.ts';
import { clearStaleSocket, protectSocket, removeSocket } from '../../base/socket-file.ts';
import type { Config, ListenAddress } from '../../config/config.ts';
import { showListen } from '../../config/listen.ts';
import { TokenReader } from '../../config/token-reader.ts';
import type { Line } from '../../line/face.ts';
import type { LogFace } from '../../log/face.ts';
import type { CertificateRoles } from './access.ts';
import { judgeBy } from './credentials.ts';
import { createGate, type Gate } from './gate.ts';
import { type InheritedListener, listenOn } from './inherited-listener.ts';
import { MESSAGES_AHEAD, STOP_GRACE_MS, serverOptions } from './limits.ts';
import { lineService } from './line-service.ts';
import { isTrusted, needsTls } from './listener.ts';
import { Refusals } from './refusals.ts';
import { serialService } from './serial-service.ts';
import { type StandardServices, standardServices } from './standard-services.ts';
import { Subscriptions } from './subscriptions.ts';
import { TlsIdentity } from './tls-identity.ts';
import { LineServer, SerialServer } from './wire.ts';

export interface GrpcParts {
  readonly config: Config;
  readonly line: Line;
  readonly log: LogFace;
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
  /** What the health service says. */
  setServing(serving: boolean): void;
  /**
   * Takes the keys that need no new listener, and reads the certificate again; answers the keys that it cannot take
   * without one. CONFIG_INVALID: the certificate cannot be used, and nothing was changed.
   */
  configure(config: Config): Promise<readonly string[]>;
  /** Ends streams with UNAVAILABLE, gives unary calls STOP_GRACE_MS, then cuts. */
  stop(): Promise<void>;
}

export async function startGrpcServers(parts: GrpcParts): Promise<GrpcServers> {
  const { config, clock, logger } = parts;
  // Of all object streams of the process: neither library lets a call have its own, and the line has no others.
  setDefaultHighWaterMark(true, MESSAGES_AHEAD);
  // What grpc-js would write to standard error by itself.
  setLogger({ error: (...said: unknown[]) => logger.warn('gRPC library', { said: said.join(' ') }) });
  const refusals = new Refusals(logger);
  const subscriptions = new Subscriptions(config.grpc.maxSubscribers);
  const services = { ...parts, refusals, subscriptions };
  const standard = standardServices(subscriptions, refusals);
  const serial = serialService(services);
  const beyond = lineService(services, parts.version, parts.configurationRefused);
  const refused = new RefusalLog(clock, logger);
  const gate = createGate(clock, refused);
  let certificates: CertificateRoles = config.auth;
  const judge = judgeBy(new TokenReader(config.auth.tokensFile, clock, logger), () => certificates);

  const running: Running[] = [];
  const stop = async (): Promise<void> => {
    await stopAll(running.splice(0), gate, standard, subscriptions, clock);
    refused.stop();
  };
  let identity: TlsIdentity | undefined;
  try {
    if (config.grpc.listen.some((address) => needsTls(address, config))) identity = await TlsIdentity.read(config.tls);
    for (const address of config.grpc.listen) {
      const interceptor = gate.interceptor(isTrusted(address, config) ? undefined : judge);
      const server = createServer({ ...serverOptions(config), interceptors: [interceptor] });
      server.add(SerialServer, serial);
      server.add(LineServer, beyond);
      standard.addTo(server);
      const tls = needsTls(address, config) ? identity : undefined;
      running.push(await listen(server, address, tls?.credentials ?? ServerCredentials.createInsecure(), refused));
    }
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    addresses: running.map(({ address }) => showListen(address)),
    listening: running.map(({ address }) => address),
    setServing: (serving) => standard.setServing(serving),
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
  readonly address: ListenAddress;
  /** Where the socket was inherited. */
  readonly inherited?: InheritedListener;
}

/** Taken together, or not at all. */
const TLS_KEYS: readonly string[] = ['tls.cert_file', 'tls.key_file', 'tls.client_ca_file'];

/** The keys that cannot be taken without new listeners. */
async function renew(identity: TlsIdentity | undefined, before: Config, { tls }: Config): Promise<readonly string[]> {
  if (identity === undefined) {
    // None listens for other machines, or in the clear: TLS comes, or goes, with the listener.
    const isBare = before.grpc.listen.some((address) => address.kind === 'tcp' && !address.loopback);
    return isBare && tls.certFile !== '' ? TLS_KEYS : [];
  }
  return tls.certFile !== '' && (await identity.renew(tls)) ? [] : TLS_KEYS;
}

async function listen(
  server: Server,
  address: ListenAddress,
  credentials: ServerCredentials,
  refused: RefusalLog,
): Promise<Running> {
  if (address.kind === 'unix' && address.fd === undefined) await clearStaleSocket(address.path, 'grpc.listen');
  let port: number;
  try {
    if (address.fd !== undefined) {
      const dropped = (peer: string): void => refused.note('connect', peer, 'too many connections');
      return { server, address, inherited: await listenOn(address.fd, server, credentials, dropped) };
    }
    port = await server.listen(showListen(address), credentials);
  } catch (error) {
    throw new LinesideError('CONFIG_INVALID', `cannot listen on ${showListen(address)}: ${messageOf(error)}`, {
      cause: error,
      hint: 'is it taken by another process? see grpc.listen',
    });
  }
  if (address.kind === 'tcp') return { server, address: { ...address, port } };
  await protectSocket(address.path);
  return { server, address };
}

async function stopAll(
  running: readonly Running[],
  gate: Gate,
  standard: StandardServices,
  subscriptions: Subscriptions,
  clock: Clock,
): Promise<void> {
  for (const { inherited } of running) inherited?.close();
  gate.close();
  standard.setServing(false);
  subscriptions.endAll();
  const graceOver = new AbortController();
  const finished = Promise.all(running.map(({ server }) => server.shutdown())).then(() => graceOver.abort());
  await Promise.race([finished, pause(clock, STOP_GRACE_MS, graceOver.signal)]);
  for (const { server, inherited } of running) {
    server.forceShutdown();
    inherited?.cut();
  }
  for (const { address } of running) {
    if (address.kind === 'unix' && address.fd === undefined) await removeSocket(address.path);
  }
}
