/**
 * One address to listen on: who is trusted there, whether it speaks TLS, how many may connect. Connections are accepted here
 * and handed to grpc-js, which treats them as its own (keepalive, idle time, forceShutdown) and has no limit to their number.
 * If systemd opened the socket nothing is bound, so the process needs no network of its own.
 */
import { createServer, type Socket } from 'node:net';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import type { Server as NiceServer } from 'nice-grpc';
import type { Clock, Timer } from '../../shared/base/clock.ts';
import { AddressShare, bind } from '../../shared/base/listeners.ts';
import type { Config } from '../../shared/config/config.ts';
import { isOwnMachine, type ListenAddress, showListen } from '../../shared/config/listen.ts';
import { MAX_CONNECTIONS, MAX_NEWCOMER_MS } from './limits.ts';
import type { TlsIdentity } from './tls-identity.ts';

/** True if every caller that reaches the address is trusted: the file permissions, or the machine's own users. */
export function isTrusted(address: ListenAddress, config: Config): boolean {
  return isOwnMachine(address) || config.grpc.insecure;
}

/** TLS if it is configured and the address is reached from other machines; this machine's own need none. */
export function needsTls(address: ListenAddress, { tls }: Config): boolean {
  return !isOwnMachine(address) && tls.certFile !== '';
}

export interface Listener {
  /** With the port that port 0 became. */
  readonly address: ListenAddress;
  /** No new connections: those that come wait at a socket of systemd's for the next process. */
  close(): void;
  /** Resolves when the connections that are served have ended; their last answers are on the way until then. */
  drained(): Promise<void>;
  /** Ends what is left, half-made TLS connections included. */
  cut(): Promise<void>;
}

interface ListenOptions {
  readonly server: NiceServer;
  /** undefined: no TLS. */
  readonly identity: TlsIdentity | undefined;
  /** undefined: the address is reached from this machine alone. */
  readonly newcomers: Newcomers | undefined;
  /** Called for each connection beyond the limit. */
  readonly dropped: (peer: string, why: string) => void;
}

/** CONFIG_INVALID: the address cannot be listened on. */
export async function listen(address: ListenAddress, options: ListenOptions): Promise<Listener> {
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
  const listener = identity?.createServer() ?? createServer({ noDelay: true });
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
    address: bound.address,
    close: () => void listener.close(),
    drained: async () => void (await Promise.all(served)),
    async cut() {
      for (const socket of open) socket.destroy();
      await bound.release();
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

// Connections from other machines: each address has a share of them, and one that has not made a call with good credentials
// in time is closed. Strangers could otherwise hold all of them without a word.

export class Newcomers {
  readonly #clock: Clock;
  readonly #dropped: (peer: string, why: string) => void;
  readonly #share = new AddressShare(MAX_CONNECTIONS);
  /** By the name that grpc-js gives a peer. */
  readonly #timers = new Map<string, Timer>();

  constructor(clock: Clock, dropped: (peer: string, why: string) => void) {
    this.#clock = clock;
    this.#dropped = dropped;
  }

  /** False: the connection was closed. */
  add(socket: Socket): boolean {
    const { remoteAddress = '', remotePort } = socket;
    if (!this.#share.admits(socket)) {
      this.#dropped(remoteAddress, 'this address has its share of the connections');
      socket.destroy();
      return false;
    }
    const peer = `${remoteAddress}:${remotePort}`;
    this.#timers.set(
      peer,
      this.#clock.timer(MAX_NEWCOMER_MS, () => {
        this.#dropped(remoteAddress, `no call with credentials within ${MAX_NEWCOMER_MS / 1_000} s`);
        socket.destroy();
      }),
    );
    socket.once('close', () => this.admitted(peer));
    return true;
  }

  /** It made a call that it may make: its connection may stay. */
  admitted(peer: string): void {
    this.#timers.get(peer)?.cancel();
    this.#timers.delete(peer);
  }
}
