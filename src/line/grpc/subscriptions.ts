/** The log streams that are open: bounded in number, and ended together when the service stops. */
import { LinesideError } from '../../shared/base/errors.ts';

export interface Subscription {
  /** Fires when the client is gone, the service stops, or close() was called. */
  readonly signal: AbortSignal;
  /** Throws SHUTTING_DOWN where that is why the signal fired. */
  checkStopping(): void;
  close(): void;
}

export class Subscriptions {
  #limit: number;
  readonly #open = new Set<AbortController>();
  #stopping = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** From the next one on; those that are open stay. */
  limit(limit: number): void {
    this.#limit = limit;
  }

  get count(): number {
    return this.#open.size;
  }

  /** One abort listener for each call, however long it lasts: one for each wait costs more than the stream itself. */
  open(client: AbortSignal): Subscription {
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
      checkStopping: () => this.#checkStopping(),
      close: () => {
        this.#open.delete(controller);
        client.removeEventListener('abort', end);
        end();
      },
    };
  }

  endAll(): void {
    this.#stopping = true;
    for (const controller of this.#open) controller.abort();
  }

  #checkStopping(): void {
    if (this.#stopping) throw new LinesideError('SHUTTING_DOWN', 'the service is stopping');
  }
}
