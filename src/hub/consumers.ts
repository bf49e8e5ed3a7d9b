/** The consumers that webhook subscriptions name, with the scopes that are open to them now: the tokens, and "local". */

import type { TokenReader } from '../shared/auth/token-reader.ts';
import { scopesOf } from '../shared/auth/tokens.ts';
import type { Clock } from '../shared/base/clock.ts';
import { messageOf } from '../shared/base/errors.ts';
import type { Logger } from '../shared/base/logger.ts';
import { Loop } from '../shared/base/loop.ts';
import { type Scope, scopes } from './outbox/event.ts';

/** A subscription is served for at most this long after its token was revoked, plus the reader's second. */
const READ_EVERY_MS = 2_000;

export class Consumers {
  readonly #tokens: TokenReader;
  readonly #logger: Logger;
  readonly #listeners: (() => void)[] = [];
  readonly #known = Promise.withResolvers<void>();
  /** Resolves when the tokens could be read. Before that no consumer is known, and events planned for them would be lost. */
  readonly known = this.#known.promise;
  readonly #loop: Loop;
  #isKnown = false;
  #scopes: ReadonlyMap<string, readonly Scope[]> = new Map();

  constructor(tokens: TokenReader, clock: Clock, logger: Logger) {
    this.#tokens = tokens;
    this.#logger = logger;
    this.#loop = new Loop({ pass: (signal) => this.#read(signal), clock });
  }

  /** undefined: there is no such consumer. */
  scopesOf(name: string): readonly Scope[] | undefined {
    return name === 'local' ? scopes : this.#scopes.get(name);
  }

  /** False until the tokens could be read. */
  isKnown(): boolean {
    return this.#isKnown;
  }

  /** Called whenever the consumers or their scopes have changed. */
  onChanged(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Resolves when the tokens were read once. */
  async start(): Promise<void> {
    await this.#loop.passNow();
    this.#loop.start(READ_EVERY_MS);
  }

  stop(): Promise<void> {
    return this.#loop.stop();
  }

  async #read(signal: AbortSignal): Promise<number> {
    const owners = await this.#tokens.owners();
    // A file that cannot be read does not say which tokens were revoked, and its reader has logged that. The scopes stay as
    // they were, since a consumer would lose the events that are not planned for it.
    if (owners === undefined || signal.aborted) return READ_EVERY_MS;
    this.#isKnown = true;
    this.#known.resolve();
    const found = new Map(owners.map(({ name, roles }) => [name, scopesOf(roles)]));
    if (!isSame(found, this.#scopes)) {
      this.#scopes = found;
      for (const listener of this.#listeners) this.#notify(listener);
    }
    return READ_EVERY_MS;
  }

  #notify(listener: () => void): void {
    try {
      listener();
    } catch (error) {
      this.#logger.error('what follows from changed tokens failed', { error: messageOf(error) });
    }
  }
}

/** Scopes are always in the same order. */
function isSame(some: ReadonlyMap<string, readonly Scope[]>, others: ReadonlyMap<string, readonly Scope[]>): boolean {
  return some.size === others.size && [...some].every(([name, open]) => others.get(name)?.join() === open.join());
}
