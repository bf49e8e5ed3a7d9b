/** The consumers that webhook subscriptions name, with the scopes that are open to them now: the tokens, and "local". */

import type { TokenReader } from '../shared/auth/token-reader.ts';
import { scopesOf } from '../shared/auth/tokens.ts';
import type { Clock, Timer } from '../shared/base/clock.ts';
import { messageOf } from '../shared/base/errors.ts';
import type { Logger } from '../shared/base/logger.ts';
import { type Scope, scopes } from './outbox/event.ts';

/** How long a subscription may be served whose token was revoked, besides the second of the reader. */
const LOOK_EVERY_MS = 2_000;

export interface ConsumersOptions {
  readonly tokens: TokenReader;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class Consumers {
  readonly #tokens: TokenReader;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #listeners: (() => void)[] = [];
  readonly #known = Promise.withResolvers<void>();
  /** Resolves when the tokens could be read: before, no consumer is known, and what is planned then would be lost. */
  readonly known = this.#known.promise;
  #scopes: ReadonlyMap<string, readonly Scope[]> = new Map();
  #timer: Timer | undefined;
  #isKnown = false;
  #isStopped = false;

  constructor({ tokens, clock, logger }: ConsumersOptions) {
    this.#tokens = tokens;
    this.#clock = clock;
    this.#logger = logger;
  }

  /** undefined: there is no such consumer. */
  scopesOf(name: string): readonly Scope[] | undefined {
    return name === 'local' ? scopes : this.#scopes.get(name);
  }

  /** False until the tokens could be read. */
  isKnown(): boolean {
    return this.#isKnown;
  }

  /** After each look that found another consumer, one less, or other scopes. */
  onChanged(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Resolves after the first look. */
  async start(): Promise<void> {
    await this.#look();
    if (!this.#isStopped) this.#timer = this.#clock.timer(LOOK_EVERY_MS, () => void this.start());
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  async #look(): Promise<void> {
    const owners = await this.#tokens.owners();
    // A file that cannot be read says nothing of who is gone; the reader has said in the log that it cannot. What was
    // so goes on, since events that are not planned for a consumer would be lost to it.
    if (owners === undefined || this.#isStopped) return;
    this.#isKnown = true;
    this.#known.resolve();
    const found = new Map(owners.map(({ name, roles }) => [name, scopesOf(roles)]));
    if (isSame(found, this.#scopes)) return;
    this.#scopes = found;
    for (const listener of this.#listeners) this.#tell(listener);
  }

  #tell(listener: () => void): void {
    try {
      listener();
    } catch (error) {
      this.#logger.error('what follows from changed tokens failed', { error: messageOf(error) });
    }
  }
}

/** Scopes come in one order. */
function isSame(some: ReadonlyMap<string, readonly Scope[]>, others: ReadonlyMap<string, readonly Scope[]>): boolean {
  return some.size === others.size && [...some].every(([name, open]) => others.get(name)?.join() === open.join());
}
