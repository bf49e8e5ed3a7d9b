/** The subscriptions in memory: what is committed, and whether each can be served now. */
import type { Scope } from '../../outbox/event.ts';
import type { Consumers, RunMs, Secrets, Subscription, SubscriptionCache } from '../parts.ts';
import type { Entry } from './rows.ts';
import type { Opened, SecretBox } from './secrets.ts';

/** While a secret cannot be read the key file is looked at again so often: a restored one is found without a restart. */
const keyReloadMs = 5_000;

interface CacheOptions {
  readonly entries: readonly Entry[];
  readonly consumers: Consumers;
  readonly box: SecretBox;
  readonly runningNow: () => RunMs;
}

export class StoredSubscriptions implements SubscriptionCache {
  readonly #consumers: Consumers;
  readonly #box: SecretBox;
  readonly #runningNow: () => RunMs;
  readonly #listeners: ((id: number | undefined) => void)[] = [];
  readonly #entries = new Map<number, Entry>();
  /** Why a secret cannot be read, '' where it can; of those that were asked for, under the key of this generation. */
  readonly #faults = new Map<number, string>();
  /** Opened under the key of this generation; to open one takes as long as to sign with it. */
  readonly #opened = new Map<Buffer, string>();
  #generation: number;
  #reloadedAt: RunMs;
  #all: readonly Subscription[] = [];

  constructor({ entries, consumers, box, runningNow }: CacheOptions) {
    this.#consumers = consumers;
    this.#box = box;
    this.#runningNow = runningNow;
    this.#generation = box.generation;
    this.#reloadedAt = runningNow();
    for (const entry of entries) this.#entries.set(entry.subscription.id, entry);
    this.#renew();
    consumers.onChanged(() => this.#notify(undefined));
  }

  all(): readonly Subscription[] {
    return this.#all;
  }

  byId(id: number): Subscription | undefined {
    return this.#entries.get(id)?.subscription;
  }

  entry(id: number): Entry | undefined {
    return this.#entries.get(id);
  }

  secrets(id: number, runMs: RunMs): Secrets | { readonly unreadable: string } {
    const entry = this.#entries.get(id);
    if (entry === undefined) return { unreadable: 'there is no such subscription' };
    const unreadable = this.#secretFault(entry);
    if (unreadable !== '') return { unreadable };
    const current = this.#open(id, entry.secret);
    if ('unreadable' in current) return current;
    return { current: current.secret, previous: this.#previous(entry, runMs) };
  }

  #open(id: number, sealed: Buffer): Opened {
    const subscription = this.#opened.get(sealed);
    if (subscription !== undefined) return { secret: subscription };
    const opened = this.#box.open(id, sealed);
    if ('secret' in opened) this.#opened.set(sealed, opened.secret);
    return opened;
  }

  #previous({ subscription, previous, previousUntil }: Entry, runMs: RunMs): string | undefined {
    if (previous === null || previousUntil === null || runMs >= previousUntil) return undefined;
    const opened = this.#open(subscription.id, previous);
    return 'secret' in opened ? opened.secret : undefined;
  }

  blocked(subscription: Subscription): string {
    if (this.#consumers.isKnown?.() === false) return unknownText;
    const { consumer } = subscription;
    const open = this.#consumers.scopesOf(consumer);
    const entry = this.#entries.get(subscription.id);
    const unreadable = entry === undefined ? '' : this.#secretFault(entry);
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

  /** As people see it: also what of it is not sent while the rest is. */
  limitation(subscription: Subscription): string {
    const closed = subscription.scopes.filter((scope) => !this.openScopes(subscription).includes(scope));
    return this.blocked(subscription) || (closed.length === 0 ? '' : closedText(subscription, closed));
  }

  openScopes({ consumer, scopes }: Subscription): readonly Scope[] {
    const open = this.#consumers.scopesOf(consumer);
    return open === undefined ? [] : scopes.filter((scope) => open.includes(scope));
  }

  onChanged(listener: (id: number | undefined) => void): void {
    this.#listeners.push(listener);
  }

  added(entry: Entry): void {
    this.#put(entry);
  }

  /** Commits that waited for an import may be told of out of order: an older version does not undo a newer one, or a removal. */
  changed(entry: Entry): void {
    const { id, version } = entry.subscription;
    const before = this.#entries.get(id)?.subscription;
    if (before !== undefined && before.version < version) this.#put(entry);
  }

  removed(id: number): void {
    this.#forget(id);
    if (this.#entries.delete(id)) this.#notify(id);
  }

  #put(entry: Entry): void {
    const { id } = entry.subscription;
    this.#forget(id);
    this.#entries.set(id, entry);
    this.#notify(id);
  }

  #forget(id: number): void {
    this.#faults.delete(id);
    const entry = this.#entries.get(id);
    for (const sealed of [entry?.secret, entry?.previous]) if (sealed != null) this.#opened.delete(sealed);
  }

  #notify(id: number | undefined): void {
    this.#renew();
    for (const listener of this.#listeners) listener(id);
  }

  #renew(): void {
    this.#all = [...this.#entries.values()].map(({ subscription }) => subscription).sort((a, b) => a.id - b.id);
  }

  #secretFault(entry: Entry): string {
    const { id } = entry.subscription;
    if ((this.#faults.get(id) ?? '') !== '') this.#reloadKey();
    if (this.#generation !== this.#box.generation) {
      this.#generation = this.#box.generation;
      this.#faults.clear();
      this.#opened.clear();
    }
    const subscription = this.#faults.get(id);
    if (subscription !== undefined) return subscription;
    const opened = this.#box.open(id, entry.secret);
    const fault = 'unreadable' in opened ? opened.unreadable : '';
    this.#faults.set(id, fault);
    return fault;
  }

  #reloadKey(): void {
    const now = this.#runningNow();
    if (now - this.#reloadedAt < keyReloadMs) return;
    this.#reloadedAt = now;
    const before = this.#box.generation;
    this.#box.reload();
    // Later: who asks now is in the midst of what the listeners would begin again.
    if (this.#box.generation !== before) queueMicrotask(() => this.#notify(undefined));
  }
}

/** A caller that reads of a missing token would create it again. */
const unknownText =
  'nothing is planned or sent yet: the tokens file has not been readable since the start, so who the consumers are is not known';

function closedText({ consumer }: Subscription, closed: readonly Scope[]): string {
  return `nothing of ${closed.join(' and ')} is sent: not open to its consumer, the token ${consumer}`;
}
