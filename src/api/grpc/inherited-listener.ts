/**
 * gRPC on a socket that was opened by somebody else: connections are accepted here and handed to grpc-js, which treats
 * them as its own (keepalive, idle time, forceShutdown). Nothing is bound, so the process needs no network of its own.
 */
import { createServer, type Socket } from 'node:net';
import { Server, type ServerCredentials } from '@grpc/grpc-js';
import type { Server as NiceServer } from 'nice-grpc';
import { MAX_CONNECTIONS } from './limits.ts';

export interface InheritedListener {
  /** No new connections: those that come wait at the socket for the next process. */
  close(): void;
  /** Ends what is left, half-made TLS connections included. */
  cut(): void;
}

/** `dropped`: a connection beyond the limit, told with its peer. */
export async function listenOn(
  fd: number,
  server: NiceServer,
  credentials: ServerCredentials,
  dropped: (peer: string) => void,
): Promise<InheritedListener> {
  const injector = (await innerServer(server)).createConnectionInjector(credentials);
  const open = new Set<Socket>();
  const listener = createServer({ noDelay: true }, (socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    // Whoever is connected hears of it; a socket without a listener would end the process.
    socket.on('error', () => socket.destroy());
    injector.injectConnection(socket);
  });
  listener.maxConnections = MAX_CONNECTIONS;
  listener.on('drop', (data) => dropped(data?.remoteAddress ?? 'unix'));
  await new Promise<void>((resolve, reject) => {
    listener.once('error', reject);
    listener.listen({ fd }, () => {
      listener.off('error', reject);
      resolve();
    });
  });
  return {
    close: () => void listener.close(),
    cut() {
      for (const socket of open) socket.destroy();
    },
  };
}

/**
 * The grpc-js server of one of nice-grpc's, which keeps it to itself: it shows by calling bindAsync(), within the
 * synchronous part of listen(), for which alone that method is replaced.
 */
async function innerServer(server: NiceServer): Promise<Server> {
  const { prototype } = Server;
  const own = Object.getOwnPropertyDescriptor(prototype, 'bindAsync');
  if (own === undefined) throw new TypeError('grpc-js no longer binds by bindAsync()');
  const met: Server[] = [];
  function bindNothing(this: Server, _address: string, _credentials: ServerCredentials, done: Bound): void {
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
