/** The committed subscriptions in memory, and whether each can be served now. */
import type { Scope } from '../../outbox/event.ts';
import type { RunMs } from '../progress.ts';
import type { StoredSubscription } from './rows.ts';
import type { Opened, SecretBox } from './secrets.ts';
import type { Secrets, Subscription } from './subscription.ts';

/** The tokens by their names, and "local": their scopes limit a subscription. */
export interface Consumers {
  /** undefined: there is no such consumer. */
  scopesOf(name: string): readonly Scope[] | undefined;
  /** False until the tokens could be read once since the start. */
  isKnown(): boolean;
  /** A consumer was added or removed, or its scopes changed. */
  onChanged(listener: () => void): void;
}

/** Interval of reading the key file again while a secret is unreadable: a restored key works without a restart. */
const keyReloadMs = 5_000;

export type SubscriptionSource = Pick<
  SubscriptionCache,
  'all' | 'byId' | 'secrets' | 'blocked' | 'openScopes' | 'onChanged'
>;

interface CacheOptions {
  readonly consumers: Consumers;
  readonly box: SecretBox;
  readonly runningNow: () => RunMs;
}

export class SubscriptionCache {
  readonly #o: CacheOptions;
  readonly #listeners: ((id: number | undefined) => void)[] = [];
  readonly #entries = new Map<number, StoredSubscription>();
  /** For the key of this generation: opening a secret takes as long as signing with it. */
  #opened = new WeakMap<Buffer, Opened>();
  #generation: number;
  #reloadedAt: RunMs;
  #all: readonly Subscription[] = [];

  constructor(stored: readonly StoredSubscription[], options: CacheOptions) {
    this.#o = options;
    this.#generation = options.box.generation;
    this.#reloadedAt = options.runningNow();
    for (const entry of stored) this.#entries.set(entry.subscription.id, entry);
    this.#sort();
    options.consumers.onChanged(() => this.#notify(undefined));
  }

  /** In the order of their ids. A new array after each change. */
  all(): readonly Subscription[] {
    return this.#all;
  }

  byId(id: number): Subscription | undefined {
    return this.#entries.get(id)?.subscription;
  }

  entry(id: number): StoredSubscription | undefined {
    return this.#entries.get(id);
  }

  /** The current secret and, within its grace, the previous one. `unreadable`: the reason. */
  secrets(id: number, runMs: RunMs): Secrets | { readonly unreadable: string } {
    const entry = this.#entries.get(id);
    if (entry === undefined) return { unreadable: 'there is no such subscription' };
    const current = this.#open(id, entry.secret);
    if ('unreadable' in current) return current;
    return { current: current.secret, previous: this.#previous(entry, runMs) };
  }

  #open(id: number, sealed: Buffer): Opened {
    const known = this.#opened.get(sealed);
    if (known !== undefined && 'unreadable' in known) this.#reloadKey();
    if (this.#generation !== this.#o.box.generation) {
      this.#generation = this.#o.box.generation;
      this.#opened = new WeakMap();
    }
    const opened = this.#opened.get(sealed) ?? this.#o.box.open(id, sealed);
    this.#opened.set(sealed, opened);
    return opened;
  }

  #previous({ subscription, previous, previousUntil }: StoredSubscription, runMs: RunMs): string | undefined {
    if (previous === null || previousUntil === null || runMs >= previousUntil) return undefined;
    const opened = this.#open(subscription.id, previous);
    return 'secret' in opened ? opened.secret : undefined;
  }

  /** Why nothing is sent to it (consumer removed, no scope open, secret unreadable), or ''. See also openScopes(). */
  blocked(subscription: Subscription): string {
    if (!this.#o.consumers.isKnown()) return unknownText;
    const { consumer } = subscription;
    const open = this.#o.consumers.scopesOf(consumer);
    const entry = this.#entries.get(subscription.id);
    const opened = entry === undefined ? undefined : this.#open(subscription.id, entry.secret);
    const unreadable = opened !== undefined && 'unreadable' in opened ? opened.unreadable : '';
    return [
      ...(open === undefined ? [`its consumer, the token ${consumer}, is gone`] : []),
      ...(open !== undefined && this.openScopes(subscription).length === 0
        ? [closedText(subscription, subscription.scopes)]
        : []),
      ...(unreadable === ''
        ? []
        : [`its secret cannot be read: ${unreadable} (restore the key; or rotate the secret, then without a grace)`]),
    ].join('; ');
  }

  /** For display: blocked(), or the scopes that are not sent. */
  limitation(subscription: Subscription): string {
    const closed = subscription.scopes.filter((scope) => !this.openScopes(subscription).includes(scope));
    return this.blocked(subscription) || (closed.length === 0 ? '' : closedText(subscription, closed));
  }

  /** Its scopes that are open to its consumer now. */
  openScopes({ consumer, scopes }: Subscription): readonly Scope[] {
    const open = this.#o.consumers.scopesOf(consumer);
    return open === undefined ? [] : scopes.filter((scope) => open.includes(scope));
  }

  /** Called after each commit; undefined: the tokens or the key changed. */
  onChanged(listener: (id: number | undefined) => void): void {
    this.#listeners.push(listener);
  }

  /** Commits that waited for an import may arrive out of order: an older version must not undo a newer one, or a removal. */
  changed(entry: StoredSubscription): void {
    const { id, version } = entry.subscription;
    const before = this.#entries.get(id)?.subscription;
    if (before !== undefined && before.version < version) this.put(entry);
  }

  removed(id: number): void {
    if (this.#entries.delete(id)) this.#notify(id);
  }

  put(entry: StoredSubscription): void {
    const { id } = entry.subscription;
    this.#entries.set(id, entry);
    this.#notify(id);
  }

  #notify(id: number | undefined): void {
    this.#sort();
    for (const listener of this.#listeners) listener(id);
  }

  #sort(): void {
    this.#all = [...this.#entries.values()].map(({ subscription }) => subscription).sort((a, b) => a.id - b.id);
  }

  #reloadKey(): void {
    const { box, runningNow } = this.#o;
    const now = runningNow();
    if (now - this.#reloadedAt < keyReloadMs) return;
    this.#reloadedAt = now;
    const before = box.generation;
    box.reload();
    // Later: the caller may be inside work that the listeners would restart.
    if (box.generation !== before) queueMicrotask(() => this.#notify(undefined));
  }
}

/** Must not say that a token is missing: an operator would create it again. */
const unknownText =
  'nothing is planned or sent yet: the tokens file has not been readable since the start, so who the consumers are is not known';

function closedText({ consumer }: Subscription, closed: readonly Scope[]): string {
  return `nothing of ${closed.join(' and ')} is sent: not open to its consumer, the token ${consumer}`;
}
