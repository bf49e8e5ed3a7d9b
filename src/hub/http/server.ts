/** The HTTP interface: one app on several listeners. */
import { TokenReader } from '../../shared/auth/token-reader.ts';
import { AuthFailureLog } from '../../shared/base/auth-failure-log.ts';
import { type Clock, endsWithin } from '../../shared/base/clock.ts';
import { type LinesideError } from '../../shared/base/errors.ts';
import { Listeners } from '../../shared/base/listeners.ts';
import type { Logger } from '../../shared/base/logger.ts';
import { once } from '../../shared/base/once.ts';
import type { Config } from '../../shared/config/config.ts';
import { type ListenAddress, showListen } from '../../shared/config/listen.ts';
import type { LineClient } from '../../shared/line-client/line-client.ts';
import { authenticatorBy } from './access.ts';
import { buildApp, stopping } from './app.ts';
import { BodyBudget } from './bodies.ts';
import { ConsoleFiles } from './console-files.ts';
import { STOP_GRACE_MS } from './limits.ts';
import { LineCalls } from './line/line-calls.ts';
import { LineHistory } from './line/line-history.ts';
import { LogStreams } from './line/log-streams.ts';
import { type Listener, listen, type Tls, tlsOf } from './listener.ts';
import type { StorageFigures } from './metrics/hub-metrics.ts';
import { Metrics, NO_ROUTE } from './metrics/metrics.ts';
import type { HubParts, RouteParts } from './routes/route.ts';

export interface HttpParts extends HubParts {
  readonly config: Config;
  /** Whose it is closes it, after stop(). undefined: there is none to ask. */
  readonly line: LineClient | undefined;
  /** The directory of the console's files. */
  readonly consoleDir: string;
  readonly logger: Logger;
  /** Of auth.tokens_file; default: one of its own. */
  readonly tokens?: TokenReader;
  /** Why the hub cannot do its work now (a damaged store), for /readyz; undefined: it can. */
  readonly trouble?: () => LinesideError | undefined;
  /** Sizes of refdata.db for /metrics. */
  readonly storage?: () => StorageFigures | undefined;
}

export interface HttpServer {
  /** Where it listens, with the ports that port 0 became. */
  readonly addresses: readonly string[];
  readonly listening: readonly ListenAddress[];
  /** What is to be said of addresses that are not served. */
  faults(): readonly string[];
  /** Answers under way get STOP_GRACE_MS, new requests 503; then what is left is cut. */
  stop(): Promise<void>;
}

/** CONFIG_INVALID: no address, or not the Unix socket, can be listened on. */
export async function startHttpServer(parts: HttpParts): Promise<HttpServer> {
  const { config, clock, logger, trouble } = parts;
  let isStopping = false;
  const tokens = parts.tokens ?? new TokenReader(config.auth.tokensFile, clock, logger);
  const local = new WeakSet<object>();
  const refusals = new AuthFailureLog(clock, logger);
  const bodies = new BodyBudget(config.http.maxBodyBytes);
  const line = new LineCalls(parts.line, clock);
  const history = new LineHistory((signal) => line.status(signal), clock);
  const streams = new LogStreams(clock, (reader, reason) => refusals.note('GET /api/v1/line/log', reader, reason));
  const metrics = new Metrics({
    ...parts,
    http: () => ({
      connections: listeners.open.reduce((sum, listener) => sum + listener.connections(), 0),
      refusedCallers: refusals.total,
      bodyBytes: bodies.heldBytes,
      followStreams: streams.count('follow'),
      pageStreams: streams.count('page'),
    }),
  });
  const routeParts: RouteParts = {
    ...parts,
    line,
    history,
    streams,
    console: new ConsoleFiles(parts.consoleDir),
    authenticate: authenticatorBy(tokens, (request) => local.has(request)),
    metrics,
    maxImportBytes: config.http.maxImportBytes,
    trouble: trouble ?? (() => undefined),
    openapi: once(async () => {
      const { openapiDocument } = await import('./openapi.ts');
      return Buffer.from(await openapiDocument(routeParts));
    }),
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
    await history.stop();
    await app.close();
  });
  return started(listeners, tls, stop);
}

async function started(
  listeners: Listeners<ListenAddress, Listener>,
  tls: Tls | undefined,
  stop: () => Promise<void>,
): Promise<HttpServer> {
  try {
    await listeners.start();
  } catch (error) {
    await stop();
    throw error;
  }
  const listening = listeners.open.map(({ address }) => address);
  return {
    addresses: listening.map(showListen),
    listening,
    faults: () => [...listeners.faults, tls?.fault ?? ''].filter((fault) => fault !== ''),
    stop,
  };
}

async function closeAll(listeners: readonly Listener[], clock: Clock): Promise<void> {
  const closed = Promise.all(listeners.map((listener) => listener.close()));
  if (await endsWithin(clock, STOP_GRACE_MS, closed)) return;
  for (const listener of listeners) listener.cut();
  await closed;
}
