/** The HTTP interface: one app on several listeners. */
import { createServer, type Server } from 'node:http';
import { Server as TlsServer } from 'node:tls';
import { readTlsFiles, TLS_PROFILE, type TlsFiles } from '../../shared/auth/tls-files.ts';
import type { TokenReader } from '../../shared/auth/token-reader.ts';
import { AuthFailureLog } from '../../shared/base/burst-log.ts';
import { type Clock, endsWithin } from '../../shared/base/clock.ts';
import { asLinesideError, LinesideError } from '../../shared/base/errors.ts';
import { AddressShare, type Bound, bind, Listeners } from '../../shared/base/listeners.ts';
import type { Logger } from '../../shared/base/logger.ts';
import { once } from '../../shared/base/once.ts';
import type { Config } from '../../shared/config/config.ts';
import { isOwnMachine, type ListenAddress, showListen } from '../../shared/config/listen.ts';
import type { LineClient } from '../../shared/line-client/line-client.ts';
import { authenticatorBy } from './access.ts';
import { AdminClient } from './admin-client.ts';
import { buildApp, stopping } from './app.ts';
import { BodyBudget } from './bodies.ts';
import { type ConnectionEvents, Connections } from './connections.ts';
import { consoleFiles } from './console-files.ts';
import { LIMITS_CHECK_MS, MAX_HEADER_BYTES, MAX_HEADERS, STOP_GRACE_MS, timeLimits } from './limits.ts';
import { LineCalls } from './line/line-calls.ts';
import { LogStreams } from './line/line-log.ts';
import { isTerminalUpgrade, TERMINAL_PATH, TerminalTickets } from './line/terminal-tickets.ts';
import type { StorageFigures } from './metrics/metric-tables.ts';
import { Metrics, NO_ROUTE } from './metrics/metrics.ts';
import type { HubParts, RouteParts } from './routes/route.ts';
import { openapiDocument } from './routes/routes.ts';

export interface HttpParts extends HubParts {
  readonly config: Config;
  /** Its owner closes it after stop(). undefined: no address of the line is known. */
  readonly line: LineClient | undefined;
  readonly consoleDir: string;
  readonly logger: Logger;
  /** Of auth.tokens_file. */
  readonly tokens: TokenReader;
  /** Why the hub cannot do its work now (a damaged store), for /readyz; undefined: it can. */
  readonly trouble: () => LinesideError | undefined;
  readonly storage: () => StorageFigures;
}

export type HttpServer = Awaited<ReturnType<typeof startHttpServer>>;

/** CONFIG_INVALID: lineside cannot listen on any address, or not on the Unix socket. */
export async function startHttpServer(parts: HttpParts) {
  const { config, clock, logger, tokens } = parts;
  let isStopping = false;
  const local = new WeakSet<object>();
  const refusals = new AuthFailureLog(clock, logger);
  const bodies = new BodyBudget(config.http.maxBodyBytes);
  const line = new LineCalls(parts.line, clock);
  const terminalRefused = (who: string, why: string) => refusals.note(`GET ${TERMINAL_PATH}`, who, why);
  const streams = new LogStreams(clock, ({ kind, reader }, reason) =>
    kind === 'terminal' ? terminalRefused(reader, reason) : refusals.note('GET /api/v1/line/log', reader, reason),
  );
  const metrics = new Metrics({
    ...parts,
    http: () => ({
      connections: listeners.open.reduce((sum, listener) => sum + listener.connections(), 0),
      refusedCallers: refusals.total,
      bodyBytes: bodies.heldBytes,
      followStreams: streams.count('follow'),
      pageStreams: streams.count('page'),
      terminals: streams.count('terminal'),
    }),
  });
  let document: Buffer | undefined;
  const routeParts: RouteParts = {
    ...parts,
    line,
    streams,
    tickets: new TerminalTickets(clock, terminalRefused),
    consoleFile: consoleFiles(parts.consoleDir),
    authenticate: authenticatorBy(tokens, (request) => local.has(request)),
    metrics,
    admin: new AdminClient(config.http.adminSocket, clock),
    maxImportBytes: config.http.maxImportBytes,
    openapi: () => (document ??= Buffer.from(openapiDocument(routeParts))),
  };
  const app = await buildApp({
    ...routeParts,
    refusals,
    logger,
    maxBodyBytes: config.http.maxBodyBytes,
    bodies,
    isStopping: () => isStopping,
  });

  const eventsOf = (address: ListenAddress) => ({
    clock,
    request: (...[request, response]: Parameters<typeof app.routing>) => {
      if (address.kind === 'unix') local.add(request);
      app.routing(request, response);
    },
    broken: (status: number) => metrics.answered(NO_ROUTE, 'other', status, 0),
    dropped: (peer: string, why: string) => refusals.note('connect', peer, why),
  });
  const tls = await tlsOf(config, logger);
  const listeners = new Listeners<ListenAddress, Listener>({
    addresses: config.http.listen,
    listen: (address) => listen(address, config, tls, eventsOf(address)),
    show: showListen,
    clock,
    logger,
  });
  const stop = once(async () => {
    isStopping = true;
    if (listeners.faults.length > 0) await listeners.stop();
    streams.endAll(stopping());
    await closeAll(listeners.open, clock);
    metrics.stop();
    refusals.stop();
    await app.close();
  });
  return {
    ...(await listeners.start(stop)),
    /** Of the addresses that are not served, for the status. */
    faults: (): readonly string[] => [...listeners.faults, tls?.fault ?? ''].filter((fault) => fault !== ''),
    /** Requests in progress have STOP_GRACE_MS, new ones get 503; then the remaining connections are closed. */
    stop,
  };
}

async function closeAll(listeners: readonly Listener[], clock: Clock): Promise<void> {
  const closed = Promise.all(listeners.map((listener) => listener.close()));
  if (await endsWithin(clock, STOP_GRACE_MS, closed)) return;
  for (const listener of listeners) listener.cut();
  await closed;
}

// One address: TLS or not, the Unix socket's file, the limits of its connections.

type Listener = Awaited<ReturnType<typeof listen>>;

/** For the TLS addresses. Without usable files they stay open, and every handshake fails. */
interface Tls {
  readonly files: TlsFiles | undefined;
  /** '' if there are files. */
  readonly fault: string;
}

/** undefined: no address needs it. */
async function tlsOf({ http, tls }: Config, logger: Logger): Promise<Tls | undefined> {
  if (tls.certFile === '' || http.listen.every(isOwnMachine)) return undefined;
  try {
    return { files: await readTlsFiles(tls), fault: '' };
  } catch (error) {
    const { message } = asLinesideError(error);
    logger.error('the TLS certificate was not taken', { error: message, hint: 'correct the files and reload' });
    return { files: undefined, fault: 'TLS CERTIFICATE FAULTY (see the journal), other machines are not served' };
  }
}

async function listen(address: ListenAddress, config: Config, tls: Tls | undefined, events: ConnectionEvents) {
  const server = await serverFor(address, config, tls);
  const { maxConnections, requestTimeoutMs } = config.http;
  server.maxConnections = maxConnections;
  server.maxHeadersCount = MAX_HEADERS;
  const { stalledMs } = timeLimits(requestTimeoutMs);
  // All callers of this machine have the same address.
  const share = isOwnMachine(address) ? undefined : new AddressShare(maxConnections);
  const connections = new Connections(server, server instanceof TlsServer, { ...events, stalledMs, share });
  server.on('drop', (data) =>
    events.dropped(data?.remoteAddress ?? 'unix', 'more connections than http.max_connections'),
  );
  let bound: Bound<ListenAddress>;
  try {
    bound = await bind(server, address, showListen(address), 'http.listen');
  } catch (error) {
    connections.stop();
    server.close();
    throw error;
  }
  return {
    /** With the port that port 0 became. */
    address: bound.address,
    /** No new connections; resolves when the last one has ended. */
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      connections.endSilent();
      await closed;
      connections.stop();
      await bound.release();
    },
    cut: () => connections.cut(),
    connections: () => connections.count,
  };
}

/** TLS if it is configured and other machines reach the address; this machine's own addresses need none. */
async function serverFor(address: ListenAddress, { http }: Config, tls: Tls | undefined): Promise<Server> {
  const { handshakeMs, headersMs, keepAliveMs } = timeLimits(http.requestTimeoutMs);
  const options = {
    maxHeaderSize: MAX_HEADER_BYTES,
    requestTimeout: http.requestTimeoutMs,
    headersTimeout: headersMs,
    keepAliveTimeout: keepAliveMs,
    connectionsCheckingInterval: LIMITS_CHECK_MS,
    noDelay: true,
    // Others stay usual requests, which Node answers as if they had not asked.
    shouldUpgradeCallback: isTerminalUpgrade,
  };
  if (isOwnMachine(address)) return createServer(options);
  if (tls !== undefined) {
    const https = await import('node:https');
    return https.createServer({ ...options, ...TLS_PROFILE, ...tls.files, handshakeTimeout: handshakeMs });
  }
  if (http.insecure) return createServer(options);
  throw new LinesideError('CONFIG_INVALID', `${showListen(address)} can be reached from other machines and needs TLS`, {
    hint: 'set tls.cert_file and tls.key_file',
  });
}
