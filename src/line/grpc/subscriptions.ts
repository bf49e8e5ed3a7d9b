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

export interface Subscription {
  /** Fires when the client is gone, the service stops, or close() was called. */
  readonly signal: AbortSignal;
  /** Ends the call of a client that takes nothing: no status would reach it behind what it has not taken. */
  readonly endStalled: () => void;
  /** Throws SHUTTING_DOWN where that is why the signal fired. */
  checkStopping(): void;
  close(): void;
}

export class Subscriptions {
  readonly #o: SubscriptionsOptions;
  #limit: number;
  readonly #open = new Set<AbortController>();
  #stopping = false;
  /** Since memory was released. */
  #ended = 0;
  #release: Timer | undefined;
  #releasedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: SubscriptionsOptions) {
    this.#o = options;
    this.#limit = options.limit;
  }

  /** From the next one on; those that are open stay. */
  limit(limit: number): void {
    this.#limit = limit;
  }

  get count(): number {
    return this.#open.size;
  }

  /** One abort listener for each call, however long it lasts: one for each wait costs more than the stream itself. */
  open(client: AbortSignal, endStalled = (): void => {}): Subscription {
    this.#checkStopping();
    if (this.#open.size >= this.#limit) {
      throw new LinesideError('TOO_MANY', `${this.#limit} log streams are open already`, {
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
      endStalled,
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

interface StreamContext {
  readonly subscriptions: Subscriptions;
  readonly errorMapper: ErrorMapper;
  readonly endStalled?: (context: CallContext) => void;
}

/** The messages of a stream, as one of the subscriptions while it lasts; a failure is thrown as a gRPC status. */
export async function* subscribed<T>(
  { subscriptions, errorMapper, endStalled }: StreamContext,
  context: CallContext,
  messages: (subscription: Subscription) => AsyncIterable<T>,
): AsyncGenerator<T, void, undefined> {
  try {
    const subscription = subscriptions.open(context.signal, () => endStalled?.(context));
    try {
      for await (const message of messages(subscription)) yield message;
      subscription.checkStopping();
    } finally {
      subscription.close();
    }
  } catch (error) {
    throw errorMapper.asStatus(error);
  }
}
