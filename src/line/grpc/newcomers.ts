/**
 * Connections from other machines: each address has a share of them, and one that has not made a call with good credentials
 * in time is closed. Strangers could otherwise hold all of them without a word.
 */
import type { Socket } from 'node:net';
import type { Clock, Timer } from '../../shared/base/clock.ts';
import { AddressShare } from '../../shared/base/listeners.ts';
import { MAX_CONNECTIONS, MAX_NEWCOMER_MS } from './limits.ts';

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
