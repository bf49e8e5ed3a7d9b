/** Subscriptions are created, read, changed and deleted: each change in one transaction with its audit, then in memory. */
import { LinesideError } from '../../../shared/base/errors.ts';
import { type ExpectedVersion, requireExpected } from '../../../shared/base/expected-version.ts';
import type { Logger } from '../../../shared/base/logger.ts';
import type { Change, ChangeStore } from '../../outbox/change-store.ts';
import { reasonFaults } from '../../outbox/event.ts';
import { noCursor, type Page, type PageRequest } from '../../outbox/paging.ts';
import { storageError } from '../../outbox/storage-errors.ts';
import type { EgressGuard } from '../egress/guard.ts';
import type { Caller, SecretRotation, SubscriptionPatch, SubscriptionRequest, SubscriptionView } from '../face.ts';
import { Progress, type RunMs } from '../progress.ts';
import { type Consumers, SubscriptionCache } from './cache.ts';
import { type StoredSubscription, SubscriptionRows } from './rows.ts';
import { SecretBox } from './secrets.ts';
import {
  changesOf,
  defaultGraceSeconds,
  idOf,
  noSubscription,
  openTo,
  patchedTerms,
  patchFaults,
  refuse,
  requestFaults,
  rotationFaults,
  type Subscription,
  subjectOf,
  type Terms,
  termsOf,
} from './subscription.ts';

export interface SubscriptionsOptions {
  readonly store: ChangeStore;
  readonly egress: Pick<EgressGuard, 'faults'>;
  readonly consumers: Consumers;
  /** The key that seals the secrets; created with the first secret. */
  readonly keyFile: string;
  readonly runningNow: () => RunMs;
  /** Not called before the first change: the planner is created after the cache. */
  readonly planner: {
    /** Resolves when all events committed before are planned. */
    caughtUp(): Promise<void>;
    cursor(): number;
  };
  readonly logger: Logger;
}

/** Each event is matched against all of them, each with up to 1,000 names in its filter. */
const maxSubscriptions = 200;
/**
 * How often a change lets the planner catch up with commits that came while the change waited. Other writers come between
 * by chance, one commit at a time: fifty in a row is a writer without end.
 */
const maxCatchUps = 50;

/** Throws STORAGE_FAILED, STORAGE_DAMAGED. */
export function openSubscriptions(options: SubscriptionsOptions): Subscriptions {
  const { store, keyFile, logger } = options;
  const onKeyMade = (): void =>
    logger.info('a key for the secrets of webhook subscriptions was made: back it up with refdata.db', {
      file: keyFile,
    });
  try {
    const box = new SecretBox(keyFile, onKeyMade);
    const rows = new SubscriptionRows(store.connection);
    // Older versions allowed equal names.
    for (const { name, ids } of rows.sql.sameNames.all()) {
      logger.warn('webhook subscriptions have the same name: rename all but one', { name, ids });
    }
    return new Subscriptions(options, rows, box);
  } catch (error) {
    throw storageError(error);
  }
}

/** Rolls a change back: the planner must first plan what was committed meanwhile. */
class Unplanned extends LinesideError {
  constructor() {
    super('TOO_MANY', 'changes come faster than webhook deliveries are planned', {
      hint: 'Try again when the imports have ended.',
    });
  }
}

export class Subscriptions extends SubscriptionCache {
  readonly #o: SubscriptionsOptions;
  readonly #rows: SubscriptionRows;
  readonly #progress: Progress;
  readonly #box: SecretBox;

  constructor(options: SubscriptionsOptions, rows: SubscriptionRows, box: SecretBox) {
    super(rows.all(), { ...options, box });
    this.#o = options;
    this.#rows = rows;
    this.#progress = new Progress(options.store.connection);
    this.#box = box;
  }

  subscriptions({ limit, cursor }: PageRequest): Page<SubscriptionView> {
    const after = cursor === undefined ? 0 : idOf(cursor);
    if (after === undefined) throw noCursor();
    const listed = this.all().filter(({ id }) => id > after);
    const page = listed.slice(0, limit);
    const last = listed.length > limit ? page.at(-1) : undefined;
    return {
      items: page.map(({ id }) => this.#view(this.#entry(id))),
      nextCursor: last === undefined ? undefined : String(last.id),
    };
  }

  subscription(id: string): SubscriptionView {
    return this.#view(this.#entry(idOf(id)));
  }

  /** `consumer` defaults to the caller. Audited as webhook.subscribed. */
  async subscribe(caller: Caller, request: SubscriptionRequest, reason: string): Promise<SubscriptionView> {
    const { planner, consumers } = this.#o;
    const consumer = request.consumer ?? caller.name;
    const bounds = { consumer: consumers.scopesOf(consumer), caller: caller.scopes };
    refuse('the subscription', [
      ...requestFaults(request, bounds),
      ...(await this.#urlFaults(request.url)),
      ...reasonFaults(reason),
    ]);
    const terms = termsOf(request, openTo(bounds));
    await planner.caughtUp();
    const entry = await this.#commit(caller, reason, (change) => {
      if ((this.#rows.sql.count.get() ?? 0) >= maxSubscriptions) {
        throw new LinesideError('CONFLICT', `there are ${maxSubscriptions} subscriptions, and no more can be served`, {
          hint: 'Delete one that is not needed, or let one URL serve several filters.',
        });
      }
      this.#mustBeFree(terms.name);
      const { txTime } = change.stamp;
      const id = this.#rows.insert(consumer, txTime);
      const afterEvent = this.#progress.lastEvent();
      const subscription: Subscription = { id, consumer, ...terms, version: 1, afterEvent };
      const secret = this.#box.seal(id, request.secret);
      const unrotated = { secret, previous: null, previousUntil: null };
      const made: StoredSubscription = { subscription, createdAt: txTime, updatedAt: txTime, ...unrotated };
      this.#rows.update(made);
      const details = { subscription: id, consumer, ...terms, changeReason: reason };
      change.audit('webhook.subscribed', subjectOf(subscription), details);
      return made;
    });
    this.put(entry);
    return this.#view(entry);
  }

  /** Audited as webhook.updated. */
  async update(
    caller: Caller,
    id: string,
    patch: SubscriptionPatch,
    version: ExpectedVersion | undefined,
    reason: string,
  ): Promise<SubscriptionView> {
    const { subscription } = this.#entry(idOf(id));
    const bounds = { consumer: this.#o.consumers.scopesOf(subscription.consumer), caller: caller.scopes };
    refuse('the change', [
      ...patchFaults(patch, bounds, subscription.scopes),
      ...(patch.url === undefined ? [] : await this.#urlFaults(patch.url)),
      ...reasonFaults(reason),
    ]);
    const entry = await this.#afterPlanning(() =>
      this.#commit(caller, reason, (change) => {
        const stored = this.#stored(subscription.id, version);
        // Another change may have been committed meanwhile.
        refuse('the change', patchFaults(patch, bounds, stored.subscription.scopes));
        if (patch.name !== undefined && patch.name !== stored.subscription.name) this.#mustBeFree(patch.name);
        if (this.#o.planner.cursor() < this.#progress.lastEvent()) throw new Unplanned();
        return this.#patched(change, stored, patchedTerms(stored.subscription, patch, openTo(bounds)));
      }),
    );
    this.changed(entry);
    return this.#view(entry);
  }

  #patched(change: Change, stored: StoredSubscription, terms: Terms): StoredSubscription {
    const before = stored.subscription;
    const { txTime, changeReason } = change.stamp;
    const afterEvent = terms.active && !before.active ? this.#progress.lastEvent() : before.afterEvent;
    const subscription: Subscription = { ...before, ...terms, version: before.version + 1, afterEvent };
    const entry: StoredSubscription = { ...stored, subscription, updatedAt: txTime };
    this.#rows.update(entry);
    const { id, version } = subscription;
    const details = { subscription: id, version, changes: changesOf(before, terms), changeReason };
    change.audit('webhook.updated', subjectOf(subscription), details);
    return entry;
  }

  /** With its waiting deliveries and its history. Audited as webhook.unsubscribed. */
  async unsubscribe(caller: Caller, id: string, reason: string, version?: ExpectedVersion): Promise<void> {
    const { subscription } = this.#entry(idOf(id));
    refuse('the request', reasonFaults(reason));
    await this.#o.planner.caughtUp();
    await this.#commit(caller, reason, (change) => {
      const { name, url, consumer } = this.#stored(subscription.id, version).subscription;
      this.#rows.sql.remove.run(change.stamp.txTime, subscription.id);
      const details = { subscription: subscription.id, name, url, consumer, changeReason: reason };
      change.audit('webhook.unsubscribed', subjectOf(subscription), details);
    });
    this.removed(subscription.id);
  }

  /** Audited as webhook.secret_rotated. */
  async rotateSecret(
    caller: Caller,
    id: string,
    rotation: SecretRotation,
    reason: string,
    version?: ExpectedVersion,
  ): Promise<SubscriptionView> {
    const { subscription } = this.#entry(idOf(id));
    refuse('the request', [...rotationFaults(rotation), ...reasonFaults(reason)]);
    const { graceSeconds = defaultGraceSeconds } = rotation;
    const entry = await this.#commit(caller, reason, (change) => {
      const rotated = this.#rotated(this.#stored(subscription.id, version), rotation.secret, graceSeconds, change);
      this.#rows.update(rotated);
      const { version: made } = rotated.subscription;
      const details = { subscription: subscription.id, version: made, graceSeconds, changeReason: reason };
      change.audit('webhook.secret_rotated', subjectOf(rotated.subscription), details);
      return rotated;
    });
    this.changed(entry);
    return this.#view(entry);
  }

  /** An unreadable secret has no grace: nothing could be signed with it. */
  #rotated(stored: StoredSubscription, newSecret: string, graceSeconds: number, { stamp }: Change): StoredSubscription {
    const { subscription, secret: before } = stored;
    const secret = this.#box.seal(subscription.id, newSecret);
    const keeps = graceSeconds > 0 && 'secret' in this.#box.open(subscription.id, before);
    return {
      ...stored,
      subscription: { ...subscription, version: subscription.version + 1 },
      updatedAt: stamp.txTime,
      secret,
      previous: keeps ? before : null,
      previousUntil: keeps ? this.#o.runningNow() + graceSeconds * 1_000 : null,
    };
  }

  /** Stores the planner's cursor too: events without recipients before the change must not be planned after it. */
  #commit<T>(caller: Caller, changeReason: string, work: (change: Change) => T): Promise<T> {
    return this.#o.store.commit({ changedBy: caller.name, changeReason }, (change) => {
      const done = work(change);
      this.#progress.saveCursor(this.#o.planner.cursor());
      return done;
    });
  }

  /** An import may have committed meanwhile: its events are for the subscription before the change. */
  async #afterPlanning<T>(commit: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      await this.#o.planner.caughtUp();
      try {
        return await commit();
      } catch (error) {
        if (!(error instanceof Unplanned) || tries === maxCatchUps) throw error;
      }
    }
  }

  /** Throws CONFLICT. */
  #mustBeFree(name: string): void {
    const id = this.#rows.sql.idOf.get(name);
    if (id === undefined) return;
    throw new LinesideError('CONFLICT', `there is a subscription named ${JSON.stringify(name)} already: ${id}`, {
      hint: 'Choose another name, or change that subscription: a subscriber distinguishes its deliveries by the name.',
    });
  }

  async #urlFaults(url: string): Promise<readonly string[]> {
    return (await this.#o.egress.faults(url)).map((fault) => `/url: ${fault}`);
  }

  #entry(id: number | undefined): StoredSubscription {
    const entry = id === undefined ? undefined : this.entry(id);
    if (entry === undefined) throw noSubscription();
    return entry;
  }

  /** Throws NOT_FOUND, STALE_VERSION. */
  #stored(id: number, version: ExpectedVersion | undefined): StoredSubscription {
    const stored = this.#rows.one(id);
    if (stored === undefined) throw noSubscription();
    const hint = 'Read the subscription again, then repeat the change if it still applies.';
    if (version !== undefined) requireExpected('the subscription', stored.subscription.version, version, hint);
    return stored;
  }

  #view({ subscription, createdAt, updatedAt }: StoredSubscription): SubscriptionView {
    const { id, name, url, consumer, scopes, dictionaries, actions, categories, active, version } = subscription;
    const blocked = active ? this.limitation(subscription) : '';
    const filter = { scopes, dictionaries, actions, categories };
    return { id: String(id), name, url, consumer, ...filter, active, createdAt, updatedAt, version, blocked };
  }
}
