/** One address to listen on: TLS or not, the Unix socket's file, the limits of its connections. */
import { createServer, type Server } from 'node:http';
import { Server as TlsServer } from 'node:tls';
import { readTlsFiles, TLS_PROFILE, type TlsFiles } from '../../shared/auth/tls-files.ts';
import { asLinesideError, LinesideError, messageOf } from '../../shared/base/errors.ts';
import { AddressShare, clearStaleSocket, protectSocket, removeSocket } from '../../shared/base/listeners.ts';
import type { Logger } from '../../shared/base/logger.ts';
import type { Config } from '../../shared/config/config.ts';
import { type ListenAddress, showListen } from '../../shared/config/listen.ts';
import { type ConnectionEvents, Connections } from './connections.ts';
import { LIMITS_CHECK_MS, MAX_HEADER_BYTES, MAX_HEADERS, timeLimits } from './limits.ts';

export interface Listener {
  /** With the port that port 0 became. */
  readonly address: ListenAddress;
  /** No new connections; resolves when the last one has ended. */
  close(): Promise<void>;
  /** Ends those that are left. */
  cut(): void;
  /** Connections open now. */
  connections(): number;
}

/** What the TLS addresses use. Without files that can be used they stay open, and every handshake fails. */
export interface Tls {
  readonly files: TlsFiles | undefined;
  /** '' if there are files. */
  readonly fault: string;
}

/** undefined: no address needs it. */
export async function tlsOf({ http, tls }: Config, logger: Logger): Promise<Tls | undefined> {
  if (tls.certFile === '' || http.listen.every(isOwnMachine)) return undefined;
  try {
    return { files: await readTlsFiles(tls), fault: '' };
  } catch (error) {
    const { message } = asLinesideError(error);
    logger.error('the TLS certificate was not taken', { error: message, hint: 'correct the files and reload' });
    return { files: undefined, fault: 'TLS CERTIFICATE FAULTY (see the journal), other machines are not served' };
  }
}

function isOwnMachine(address: ListenAddress): boolean {
  return address.kind === 'unix' || address.loopback;
}

export async function listen(
  address: ListenAddress,
  config: Config,
  tls: Tls | undefined,
  events: ConnectionEvents,
): Promise<Listener> {
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
  // The file of an inherited socket belongs to who opened it.
  const ownPath = address.kind === 'unix' && address.fd === undefined ? address.path : undefined;
  try {
    if (ownPath !== undefined) await clearStaleSocket(ownPath, 'http.listen');
    await bind(server, address);
    if (ownPath !== undefined) await protectSocket(ownPath);
  } catch (error) {
    connections.stop();
    server.close();
    throw error;
  }
  return {
    address: withPort(server, address),
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      connections.endSilent();
      await closed;
      connections.stop();
      if (ownPath !== undefined) await removeSocket(ownPath);
    },
    cut: () => connections.cut(),
    connections: () => connections.count,
  };
}

/** TLS where it is configured and the address is reached from other machines; this machine's own need none. */
async function serverFor(address: ListenAddress, { http }: Config, tls: Tls | undefined): Promise<Server> {
  const { handshakeMs, headersMs, keepAliveMs } = timeLimits(http.requestTimeoutMs);
  const options = {
    maxHeaderSize: MAX_HEADER_BYTES,
    requestTimeout: http.requestTimeoutMs,
    headersTimeout: headersMs,
    keepAliveTimeout: keepAliveMs,
    connectionsCheckingInterval: LIMITS_CHECK_MS,
    noDelay: true,
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

function bind(server: Server, address: ListenAddress): Promise<void> {
  return new Promise((resolve, reject) => {
    const failed = (error: Error): void =>
      reject(
        new LinesideError('CONFIG_INVALID', `cannot listen on ${showListen(address)}: ${messageOf(error)}`, {
          cause: error,
          hint: 'is it taken by another process? see http.listen',
        }),
      );
    server.once('error', failed);
    const ready = (): void => {
      server.off('error', failed);
      resolve();
    };
    if (address.fd !== undefined) server.listen({ fd: address.fd }, ready);
    else if (address.kind === 'unix') server.listen(address.path, ready);
    else server.listen(address.port, address.host, ready);
  });
}

function withPort(server: Server, address: ListenAddress): ListenAddress {
  const bound = server.address();
  return address.kind === 'tcp' && typeof bound === 'object' && bound !== null
    ? { ...address, port: bound.port }
    : address;
}
