/** The log streams that are open: bounded in number, and ended together when the service stops. */
import type { CallContext } from 'nice-grpc';
import type { Clock, Timer } from '../../shared/base/clock.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import type { ErrorMapper } from './error-mapper.ts';

/** So many streams that ended are worth it: 100 that took little left 30 MB for as long as the line was quiet. */
const ENDED_FOR_RELEASE = 8;
/** Streams of one client, or of a network that is gone, end within this of each other. */
const RELEASE_DELAY_MS = 2_000;
/**
 * It stops the line's main thread, on a Raspberry Pi for some 0.3 s: callers that come and go must not make that more than 5 %,
 * and memory is back ten seconds after they have left.
 */
const RELEASE_EVERY_MS = 7_000;

interface SubscriptionsOptions {
  readonly limit: number;
  readonly clock: Clock;
  readonly releaseMemory: () => void;
}

/**
 * The way of encoded messages to the client of one stream, past nice-grpc, whose generators take several times as long for each
 * as the rest of their way.
 */
export interface Outgoing {
  /**
   * Goes out now, behind those before it; nothing happens when the stream is over. Where the stream holds as much as it may for
   * its client: a promise that resolves when there is room again, or the stream is over.
   */
  send(message: Uint8Array): Promise<void> | undefined;
  /**
   * Ends the stream of a client that takes nothing. A status would wait behind what was not taken: HTTP/2 has a code that
   * clients know as RESOURCE_EXHAUSTED.
   */
  endStalled(): void;
}

export interface Subscription {
  /** Fires when the client is gone, the service stops, or close() was called. */
  readonly signal: AbortSignal;
  /** Others read too: what is encoded for one is kept for the next. */
  isShared(): boolean;
  /** Throws SHUTTING_DOWN where that is why the signal fired. */
  checkStopping(): void;
  close(): void;
}

export class Subscriptions {
  readonly #o: SubscriptionsOptions;
  /** From the next one on; those that are open stay. */
  limit: number;
  readonly #open = new Set<AbortController>();
  #stopping = false;
  /** Since memory was released. */
  #ended = 0;
  #release: Timer | undefined;
  #releasedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: SubscriptionsOptions) {
    this.#o = options;
    this.limit = options.limit;
  }

  get count(): number {
    return this.#open.size;
  }

  /** One abort listener for each call, however long it lasts: one for each wait costs more than the stream itself. */
  open(client: AbortSignal): Subscription {
    this.#checkStopping();
    if (this.#open.size >= this.limit) {
      throw new LinesideError('TOO_MANY', `${this.limit} log streams are open already`, {
        hint: 'end one, or raise grpc.max_subscribers',
      });
    }
    const controller = new AbortController();
    const end = (): void => controller.abort();
    this.#open.add(controller);
    if (client.aborted) end();
    else client.addEventListener('abort', end, { once: true });
    return {
      signal: controller.signal,
      isShared: () => this.#open.size > 1,
      checkStopping: () => this.#checkStopping(),
      close: () => {
        this.#open.delete(controller);
        client.removeEventListener('abort', end);
        end();
        this.#noteEnd();
      },
    };
  }

  endAll(): void {
    this.#stopping = true;
    this.#release?.cancel();
    for (const controller of this.#open) controller.abort();
  }

  #noteEnd(): void {
    this.#ended += 1;
    if (this.#stopping || this.#ended < ENDED_FOR_RELEASE || this.#release !== undefined) return;
    const { clock } = this.#o;
    const delayMs = Math.max(RELEASE_DELAY_MS, this.#releasedAtMs + RELEASE_EVERY_MS - clock.monoMs());
    this.#release = clock.timer(delayMs, () => {
      this.#release = undefined;
      this.#releasedAtMs = clock.monoMs();
      this.#ended = 0;
      this.#o.releaseMemory();
    });
  }

  #checkStopping(): void {
    if (this.#stopping) throw new LinesideError('SHUTTING_DOWN', 'the service is stopping');
  }
}

export interface StreamContext {
  readonly subscriptions: Subscriptions;
  readonly errorMapper: ErrorMapper;
  readonly outgoing: (context: CallContext) => Outgoing;
}

/** A stream as one of the subscriptions while its work lasts; a failure is thrown as a gRPC status. nice-grpc gets no message. */
export function subscribed(
  { subscriptions, errorMapper, outgoing }: StreamContext,
  context: CallContext,
  work: (subscription: Subscription, out: Outgoing) => Promise<void>,
): AsyncIterable<never> {
  const run = async (): Promise<IteratorReturnResult<undefined>> => {
    try {
      const subscription = subscriptions.open(context.signal);
      try {
        await work(subscription, outgoing(context));
        subscription.checkStopping();
      } finally {
        subscription.close();
      }
    } catch (error) {
      throw errorMapper.asStatus(error);
    }
    return { done: true, value: undefined };
  };
  return { [Symbol.asyncIterator]: () => ({ next: run }) };
}
