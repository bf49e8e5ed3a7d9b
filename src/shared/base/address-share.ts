/** How many connections of a listener one remote address may have, so that a single machine cannot take all of them. */
import type { Socket } from 'node:net';

/** Of the connections that a listener takes. A site has several machines; a proxy for many clients runs on the box itself. */
const PARTS = 4;

export class AddressShare {
  readonly #max: number;
  readonly #open = new Map<string, number>();

  constructor(maxConnections: number) {
    this.#max = Math.max(1, Math.floor(maxConnections / PARTS));
  }

  /** Counts the connection until it closes. False: its address has its share already, and it is not counted. */
  admits(socket: Socket): boolean {
    const address = socket.remoteAddress;
    // It has ended already.
    if (address === undefined) return true;
    const count = this.#open.get(address) ?? 0;
    if (count >= this.#max) return false;
    this.#open.set(address, count + 1);
    socket.once('close', () => {
      const left = (this.#open.get(address) ?? 1) - 1;
      if (left === 0) this.#open.delete(address);
      else this.#open.set(address, left);
    });
    return true;
  }
}
