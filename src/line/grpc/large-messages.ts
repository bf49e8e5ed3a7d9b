/**
 * Memory for requests whose message is large (LogRaw takes 1 MiB): grpc-js keeps what has arrived of each until it is whole,
 * 128 on a connection. A call that has sent more than a small message needs one of a few slots; the others wait, unread, in
 * their clients. A caller with a slot can always complete its message, so the slots come free again.
 */
import {
  LARGE_MESSAGE_BYTES,
  MAX_LARGE_MESSAGES,
  MAX_LARGE_MESSAGES_PER_CONNECTION,
  MAX_WAITING_PER_CONNECTION,
  PACKET_MESSAGE_BYTES,
} from './limits.ts';

/** What is used of an HTTP/2 stream. */
export interface Incoming {
  on(event: 'data', listener: (chunk: Uint8Array) => void): unknown;
  on(event: 'close', listener: () => void): unknown;
  pause(): unknown;
  resume(): unknown;
  close(code: number): unknown;
}

interface Held {
  readonly caller: string;
  readonly stream: Incoming;
  bytes: number;
  state: 'small' | 'waiting' | 'large';
}

/** Of one call. */
export interface Receiving {
  /** The message is whole. One that is larger than any packet keeps its slot: LogRaw holds it until it is stored. */
  whole(): void;
  /** The call is over. */
  done(): void;
}

export class LargeMessages {
  readonly #large = new Map<string, number>();
  #total = 0;
  /** In the order in which they came. */
  readonly #waiting = new Set<Held>();

  /** Counts what arrives on the stream. `caller`: the same for all calls of a connection. `refuse`: too many of them wait. */
  receive(stream: Incoming, caller: string, refuse: () => void): Receiving {
    const held: Held = { caller, stream, bytes: 0, state: 'small' };
    stream.on('data', (chunk) => {
      held.bytes += chunk.length;
      if (held.state !== 'small' || held.bytes <= LARGE_MESSAGE_BYTES) return;
      if (this.#grant(held)) return;
      const others = [...this.#waiting].filter((one) => one.caller === caller).length;
      if (others >= MAX_WAITING_PER_CONNECTION) return refuse();
      held.state = 'waiting';
      this.#waiting.add(held);
      stream.pause();
    });
    return {
      whole: () => {
        if (held.bytes <= PACKET_MESSAGE_BYTES) this.#done(held);
      },
      done: () => this.#done(held),
    };
  }

  #grant(held: Held): boolean {
    const own = this.#large.get(held.caller) ?? 0;
    if (this.#total >= MAX_LARGE_MESSAGES || own >= MAX_LARGE_MESSAGES_PER_CONNECTION) return false;
    this.#total += 1;
    this.#large.set(held.caller, own + 1);
    held.state = 'large';
    return true;
  }

  #done(held: Held): void {
    const { state, caller } = held;
    held.bytes = 0;
    held.state = 'small';
    this.#waiting.delete(held);
    if (state !== 'large') return;
    this.#total -= 1;
    const own = (this.#large.get(caller) ?? 1) - 1;
    if (own === 0) this.#large.delete(caller);
    else this.#large.set(caller, own);
    for (const next of this.#waiting) {
      if (!this.#grant(next)) continue;
      this.#waiting.delete(next);
      next.stream.resume();
    }
  }
}
