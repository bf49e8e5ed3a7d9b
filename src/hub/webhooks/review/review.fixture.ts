/** Review and resending over a real refdata.db. */

import type { TestContext } from 'node:test';
import type { AuditRecord } from '../../outbox/admin.ts';
import { type TemporaryStore, temporaryStore } from '../../outbox/change-store.fixture.ts';
import { DeliveryRows } from '../delivery/delivery-rows.ts';
import { FakeCache, runningOn } from '../delivery/planner.fixture.ts';
import type { Caller, DeliveryQuery } from '../face.ts';
import type { RunningTime } from '../progress.ts';
import { Resend, type ResendOptions } from './resend.ts';
import { Review, type ReviewOptions } from './review.ts';

/** To whom everything is open. */
export const anna: Caller = { name: 'anna', scopes: ['PUBLIC', 'INTERNAL', 'RESTRICTED'] };
/** Of the list of deliveries. */
export const all = { limit: 1_000, cursor: undefined, state: undefined, subscription: undefined };

/** Of what was sent again. */
export function auditOf({
  store,
}: Pick<TemporaryStore, 'store'>): readonly Pick<AuditRecord, 'actor' | 'subject' | 'details'>[] {
  return store.connection
    .prepare<[], { actor: string; subject: string; details: string }>(
      "SELECT actor, subject, details FROM audit WHERE action = 'webhook.resent' ORDER BY id",
    )
    .all()
    .map(({ details, ...record }) => ({ ...record, details: JSON.parse(details) }));
}

export interface ReviewRig extends TemporaryStore {
  readonly cache: FakeCache;
  readonly running: RunningTime;
  readonly review: ReviewAdmin;
  /** Another one, with statements of its own. */
  readonly again: () => ReviewAdmin;
  /** Ids that the dispatcher was notified of. */
  readonly notified: number[];
}

export interface ReviewAdmin extends Pick<Review, 'delivery' | 'results'>, Pick<Resend, 'resend' | 'resendAll'> {
  readonly deliveries: (query: DeliveryQuery, caller?: Caller) => ReturnType<Review['deliveries']>;
}

/** As webhooks.ts puts it together. */
export function reviewAdmin(options: ReviewOptions & Omit<ResendOptions, 'review'>): ReviewAdmin {
  const review = new Review(options);
  const resend = new Resend({ ...options, review });
  return {
    deliveries: (query, caller = anna) => review.deliveries(caller, query),
    results: () => review.results(),
    delivery: (caller, id) => review.delivery(caller, id),
    resend: (...args) => resend.resend(...args),
    resendAll: (...args) => resend.resendAll(...args),
  };
}

/** With subscriptions 1 and 2. */
export function reviewRig(t: TestContext): ReviewRig {
  const temporary = temporaryStore(t);
  const { store, clock } = temporary;
  const cache = new FakeCache();
  for (const id of [1, 2]) cache.put(id);
  const running = runningOn(store, clock);
  const notified: number[] = [];
  const rows = new DeliveryRows(store.connection);
  const again = (): ReviewAdmin =>
    reviewAdmin({
      store,
      cache,
      rows,
      running,
      dispatcher: { planned: (ids) => notified.push(...ids) },
    });
  return { ...temporary, cache, running, review: again(), again, notified };
}
