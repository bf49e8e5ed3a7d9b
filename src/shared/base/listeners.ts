/**
 * The listeners of an interface. If another process holds one TCP address, the service listens on the
 * others and retries that address until it is free. Unix sockets and shares of connections are for both interfaces.
 */
import { chmod, lstat, rm } from 'node:fs/promises';
import { connect, type Server, type Socket } from 'node:net';
import ipaddr from 'ipaddr.js';
import { type Clock, pause } from './clock.ts';
import { asLinesideError, LinesideError, messageOf, systemCode } from './errors.ts';
import type { Logger } from './logger.ts';

/** Another process has the port, or the network has not given the address yet; a Unix socket has neither fault. */
const PASSING: ReadonlySet<string> = new Set(['EADDRINUSE', 'EADDRNOTAVAIL']);
/** The other process may be a test run of an hour: often enough that no start waits for long, rare enough to cost nothing. */
const RETRY_MS = 5_000;

export interface ListenersOptions<A, L> {
  readonly addresses: readonly A[];
  readonly listen: (address: A) => Promise<L>;
  readonly show: (address: A) => string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Where an interface listens, with the ports that port 0 became. */
export interface Listening<A> {
  readonly addresses: readonly string[];
  readonly listening: readonly A[];
}

export class Listeners<A, L extends { readonly address: A }> {
  readonly #o: ListenersOptions<A, L>;
  readonly #open: L[] = [];
  readonly #waiting = new Set<A>();
  readonly #stopping = new AbortController();
  #retrying: Promise<void> = Promise.resolve();

  constructor(options: ListenersOptions<A, L>) {
    this.#o = options;
  }

  get open(): readonly L[] {
    return this.#open;
  }

  get faults(): readonly string[] {
    return [...this.#waiting].map((address) => `NOT LISTENING on ${this.#o.show(address)}`);
  }

  /** CONFIG_INVALID: no address can be listened on, or one never will be. `stop` is called then: others may be open. */
  async start(stop: () => Promise<void>): Promise<Listening<A>> {
    try {
      await this.#start();
    } catch (error) {
      await stop();
      throw error;
    }
    const listening = this.#open.map(({ address }) => address);
    return { addresses: listening.map(this.#o.show), listening };
  }

  async #start(): Promise<void> {
    const { addresses, listen, clock, logger } = this.#o;
    let first: LinesideError | undefined;
    for (const address of addresses) {
      try {
        this.#open.push(await listen(address));
      } catch (error) {
        const known = asLinesideError(error);
        if (!PASSING.has(systemCode(known.cause))) throw error;
        first ??= known;
        this.#waiting.add(address);
        logger.error('an address is not served', { error: known.message, retry: `${RETRY_MS / 1_000}s` });
      }
    }
    if (this.#open.length === 0 && first !== undefined) throw first;
    if (this.#waiting.size > 0) this.#retrying = this.#retry(clock);
  }

  /** No address is tried any more. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#retrying;
  }

  async #retry(clock: Clock): Promise<void> {
    const { signal } = this.#stopping;
    while (this.#waiting.size > 0) {
      await pause(clock, RETRY_MS, signal);
      for (const address of this.#waiting) {
        if (signal.aborted) return;
        await this.#tryAgain(address);
      }
    }
  }

  async #tryAgain(address: A): Promise<void> {
    const { listen, show, logger } = this.#o;
    try {
      this.#open.push(await listen(address));
    } catch {
      // Reported when it was met first.
      return;
    }
    this.#waiting.delete(address);
    logger.info('an address is served again', { listen: show(address) });
  }
}

// Binding, with the file of a Unix socket: what a killed process left behind, who may connect, how it goes.

/** Owner and group: who may use the service is who is in its group. */
const SOCKET_MODE = 0o660;

type Address = ({ readonly kind: 'unix'; readonly path: string } | { readonly kind: 'tcp'; readonly host: string }) & {
  readonly port?: number;
  /** The socket that systemd opened there: nothing is bound then, and its file belongs to systemd. */
  readonly fd?: number;
};

export interface Bound<A> {
  /** With the port that port 0 became. */
  readonly address: A;
  /** Removes the file of a Unix socket that was bound here. */
  release(): Promise<void>;
}

/** CONFIG_INVALID: the address cannot be listened on. `shown`: the address in words; `key`: the configuration's, for the hint. */
export async function bind<A extends Address>(
  server: Server,
  address: A,
  shown: string,
  key: string,
): Promise<Bound<A>> {
  const { fd } = address;
  const path = address.kind === 'unix' ? address.path : undefined;
  const ownPath = fd === undefined ? path : undefined;
  if (ownPath !== undefined) await clearStaleSocket(ownPath, key);
  try {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.once('error', reject);
    if (fd !== undefined) server.listen({ fd }, resolve);
    else if (address.kind === 'unix') server.listen(address.path, resolve);
    else server.listen(address.port, address.host, resolve);
    await promise;
    server.off('error', reject);
  } catch (error) {
    throw new LinesideError('CONFIG_INVALID', `cannot listen on ${shown}: ${messageOf(error)}`, {
      cause: error,
      hint: `is it taken by another process? see ${key}`,
    });
  }
  if (ownPath !== undefined) await chmod(ownPath, SOCKET_MODE);
  const bound = server.address();
  const port = address.kind === 'tcp' && typeof bound === 'object' && bound !== null ? { port: bound.port } : {};
  return {
    address: { ...address, ...port },
    release: async () => {
      if (ownPath !== undefined) await rm(ownPath, { force: true });
    },
  };
}

/** Removes a socket that a killed process left behind; one on which a process answers, or any other file, is left alone. */
async function clearStaleSocket(path: string, key: string): Promise<void> {
  const found = await lstat(path).catch((error: unknown) => {
    if (systemCode(error) !== 'ENOENT') throw error;
  });
  if (found === undefined) return;
  if (!found.isSocket()) {
    throw new LinesideError('CONFIG_INVALID', `${path} exists and is no socket`, {
      hint: `remove it, or set ${key} to another path`,
    });
  }
  if (await answers(path)) {
    throw new LinesideError('CONFIG_INVALID', `another process listens on ${path}`, {
      hint: 'is lineside running already?',
    });
  }
  await rm(path);
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    const end = (answered: boolean): void => {
      socket.destroy();
      resolve(answered);
    };
    socket.once('connect', () => end(true));
    // ECONNREFUSED: no process is bound to it. Anything else (EACCES, EAGAIN) may be one.
    socket.once('error', (error) => end(systemCode(error) !== 'ECONNREFUSED'));
  });
}

// How many connections of a listener one remote address may have, so that a single machine cannot take all of them.

/** One part in so many of a listener's connections. A site has several machines; a proxy for many clients runs on the box itself. */
const PARTS = 4;

/** IPv6: the /64, of which a single machine may use every address (RFC 4291, 2.5.1). IPv4 as it is, also written in IPv6 form. */
function networkOf(remoteAddress: string): string {
  const address = ipaddr.process(remoteAddress.replace(/%.*/, ''));
  return address instanceof ipaddr.IPv6 ? address.parts.slice(0, 4).join(':') : address.toString();
}

export class AddressShare {
  readonly #max: number;
  readonly #open = new Map<string, number>();

  constructor(maxConnections: number) {
    this.#max = Math.max(1, Math.floor(maxConnections / PARTS));
  }

  /** Counts the connection until it closes. False: its network has its share already, and it is not counted. */
  admits(socket: Socket): boolean {
    // It has ended already.
    if (socket.remoteAddress === undefined) return true;
    const network = networkOf(socket.remoteAddress);
    const count = this.#open.get(network) ?? 0;
    if (count >= this.#max) return false;
    this.#open.set(network, count + 1);
    socket.once('close', () => {
      const left = (this.#open.get(network) ?? 1) - 1;
      if (left === 0) this.#open.delete(network);
      else this.#open.set(network, left);
    });
    return true;
  }
}
