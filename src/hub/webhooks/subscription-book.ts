/** The subscriptions in memory: what is committed, and whether each can be served now. */
import type { Scope } from '../outbox/event.ts';
import type { Consumers, Known, RunMs, Secrets, SubscriptionBook } from './parts.ts';
import type { Opened, SecretBox } from './secrets.ts';
import type { Entry } from './subscription-rows.ts';

/** While a secret cannot be read the key file is looked at again so often: a restored one is found without a restart. */
const keyLookMs = 5_000;

interface BookOptions {
  readonly entries: readonly Entry[];
  readonly consumers: Consumers;
  readonly box: SecretBox;
  readonly runningNow: () => RunMs;
}

export class Book implements SubscriptionBook {
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
  #lookedAt: RunMs;
  #all: readonly Known[] = [];

  constructor({ entries, consumers, box, runningNow }: BookOptions) {
    this.#consumers = consumers;
    this.#box = box;
    this.#runningNow = runningNow;
    this.#generation = box.generation;
    this.#lookedAt = runningNow();
    for (const entry of entries) this.#entries.set(entry.known.id, entry);
    this.#renew();
    consumers.onChanged(() => this.#tell(undefined));
  }

  all(): readonly Known[] {
    return this.#all;
  }

  byId(id: number): Known | undefined {
    return this.#entries.get(id)?.known;
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
    const known = this.#opened.get(sealed);
    if (known !== undefined) return { secret: known };
    const opened = this.#box.open(id, sealed);
    if ('secret' in opened) this.#opened.set(sealed, opened.secret);
    return opened;
  }

  #previous({ known, previous, previousUntil }: Entry, runMs: RunMs): string | undefined {
    if (previous === null || previousUntil === null || runMs >= previousUntil) return undefined;
    const opened = this.#open(known.id, previous);
    return 'secret' in opened ? opened.secret : undefined;
  }

  blocked(known: Known): string {
    if (this.#consumers.isKnown?.() === false) return unknownText;
    const { consumer } = known;
    const open = this.#consumers.scopesOf(consumer);
    const entry = this.#entries.get(known.id);
    const unreadable = entry === undefined ? '' : this.#secretFault(entry);
    return [
      ...(open === undefined ? [`its consumer, the token ${consumer}, is gone`] : []),
      ...(open !== undefined && this.openScopes(known).length === 0 ? [closedText(known, known.scopes)] : []),
      ...(unreadable === ''
        ? []
        : [`its secret cannot be read: ${unreadable} (restore the key; or rotate the secret, then without a grace)`]),
    ].join('; ');
  }

  /** As people see it: also what of it is not sent while the rest is. */
  hindered(known: Known): string {
    const closed = known.scopes.filter((scope) => !this.openScopes(known).includes(scope));
    return this.blocked(known) || (closed.length === 0 ? '' : closedText(known, closed));
  }

  openScopes({ consumer, scopes }: Known): readonly Scope[] {
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
    const { id, version } = entry.known;
    const before = this.#entries.get(id)?.known;
    if (before !== undefined && before.version < version) this.#put(entry);
  }

  removed(id: number): void {
    this.#forget(id);
    if (this.#entries.delete(id)) this.#tell(id);
  }

  #put(entry: Entry): void {
    const { id } = entry.known;
    this.#forget(id);
    this.#entries.set(id, entry);
    this.#tell(id);
  }

  #forget(id: number): void {
    this.#faults.delete(id);
    const entry = this.#entries.get(id);
    for (const sealed of [entry?.secret, entry?.previous]) if (sealed != null) this.#opened.delete(sealed);
  }

  #tell(id: number | undefined): void {
    this.#renew();
    for (const listener of this.#listeners) listener(id);
  }

  #renew(): void {
    this.#all = [...this.#entries.values()].map(({ known }) => known).sort((a, b) => a.id - b.id);
  }

  #secretFault(entry: Entry): string {
    const { id } = entry.known;
    if ((this.#faults.get(id) ?? '') !== '') this.#lookForKey();
    if (this.#generation !== this.#box.generation) {
      this.#generation = this.#box.generation;
      this.#faults.clear();
      this.#opened.clear();
    }
    const known = this.#faults.get(id);
    if (known !== undefined) return known;
    const opened = this.#box.open(id, entry.secret);
    const fault = 'unreadable' in opened ? opened.unreadable : '';
    this.#faults.set(id, fault);
    return fault;
  }

  #lookForKey(): void {
    const now = this.#runningNow();
    if (now - this.#lookedAt < keyLookMs) return;
    this.#lookedAt = now;
    const before = this.#box.generation;
    this.#box.look();
    // Later: who asks now is in the midst of what the listeners would begin again.
    if (this.#box.generation !== before) queueMicrotask(() => this.#tell(undefined));
  }
}

/** A caller that reads of a missing token would create it again. */
const unknownText =
  'nothing is planned or sent yet: the tokens file has not been readable since the start, so who the consumers are is not known';

function closedText({ consumer }: Known, closed: readonly Scope[]): string {
  return `nothing of ${closed.join(' and ')} is sent: not open to its consumer, the token ${consumer}`;
}
