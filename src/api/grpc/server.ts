/** The gRPC servers: one for each address, each with its own access policy, all with the same services. */
import { setLogger } from '@grpc/grpc-js';
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
import { judgeBy } from './credentials.ts';
import { createGate, type Gate } from './gate.ts';
import { type InheritedListener, listenOn } from './inherited-listener.ts';
import { STOP_GRACE_MS, serverOptions } from './limits.ts';
import { lineService } from './line-service.ts';
import { credentialsFor, isTrusted } from './listener.ts';
import { Refusals } from './refusals.ts';
import { serialService } from './serial-service.ts';
import { type StandardServices, standardServices } from './standard-services.ts';
import { Subscriptions } from './subscriptions.ts';
import { LineServer, SerialServer } from './wire.ts';

export interface GrpcParts {
  readonly config: Config;
  readonly line: Line;
  readonly log: LogFace;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly version: string;
}

export interface GrpcServers {
  /** Where they listen, with the ports that port 0 became. */
  readonly addresses: readonly string[];
  /** What the health service says. */
  setServing(serving: boolean): void;
  /** Ends streams with UNAVAILABLE, gives unary calls STOP_GRACE_MS, then cuts. */
  stop(): Promise<void>;
}

export async function startGrpcServers(parts: GrpcParts): Promise<GrpcServers> {
  const { config, clock, logger } = parts;
  // What grpc-js would write to standard error by itself.
  setLogger({ error: (...said: unknown[]) => logger.warn('gRPC library', { said: said.join(' ') }) });
  const refusals = new Refusals(logger);
  const subscriptions = new Subscriptions(config.grpc.maxSubscribers);
  const services = { ...parts, refusals, subscriptions };
  const standard = standardServices(subscriptions, refusals);
  const serial = serialService(services);
  const beyond = lineService(services, parts.version);
  const gate = createGate(clock, new RefusalLog(clock, logger));
  const judge = judgeBy(new TokenReader(config.auth.tokensFile, clock, logger), config.auth);

  const running: Running[] = [];
  const stop = (): Promise<void> => stopAll(running.splice(0), gate, standard, subscriptions, clock);
  try {
    for (const address of config.grpc.listen) {
      const interceptor = gate.interceptor(isTrusted(address, config) ? undefined : judge);
      const server = createServer({ ...serverOptions(config), interceptors: [interceptor] });
      server.add(SerialServer, serial);
      server.add(LineServer, beyond);
      standard.addTo(server);
      running.push(await listen(server, address, config));
    }
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    addresses: running.map(({ address }) => showListen(address)),
    setServing: (serving) => standard.setServing(serving),
    stop,
  };
}

interface Running {
  readonly server: Server;
  readonly address: ListenAddress;
  /** Where the socket was inherited. */
  readonly inherited?: InheritedListener;
}

async function listen(server: Server, address: ListenAddress, config: Config): Promise<Running> {
  const credentials = await credentialsFor(address, config);
  if (address.kind === 'unix' && address.fd === undefined) await clearStaleSocket(address.path, 'grpc.listen');
  let port: number;
  try {
    if (address.fd !== undefined)
      return { server, address, inherited: await listenOn(address.fd, server, credentials) };
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
