/**
 * The admin of webhooks in memory, by a script: this room's tests are of what it is asked and what it shows. Requests are
 * judged as the real one judges them, so that the two sides' reasons are seen together.
 */
import assert from 'node:assert/strict';
import type { Alert } from '../../shared/base/alerts.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { type ExpectedVersion, isExpected } from '../../shared/base/expected-version.ts';
import type { Page, PageRequest } from '../outbox/paging.ts';
import { parseUrl } from '../webhooks/egress/endpoint.ts';
import type {
  Attempt,
  Caller,
  Delivery,
  DeliveryDetail,
  DeliveryQuery,
  PingRequest,
  PingResult,
  ResendRange,
  SubscriptionRequest,
  SubscriptionView,
  WebhookAdmin,
  WebhookStatus,
} from '../webhooks/face.ts';
import {
  changeReasonFaults,
  patchFaults,
  requestFaults,
  rotationFaults,
} from '../webhooks/subscriptions/subscription.ts';

const at = '2026-03-01T09:30:00+00:00';

export const attempt: Attempt = {
  attempt: 1,
  at,
  elapsedMs: 12,
  statusCode: 403,
  cause: 'http',
  message: 'answered 403',
  responseBody: '{"error":"signature"}',
};

export class FakeWebhooks implements WebhookAdmin {
  /** What it was asked to do, with all arguments but the caller's scopes; secrets as their length. */
  steps: unknown[] = [];
  /** What the next call throws. */
  failure: unknown;
  kept: SubscriptionView[] = [];
  sent: Delivery[] = [7, 6, 5].map((id) => ({
    deliveryId: `${id}-00c0ffee00c0ffee`,
    subscription: '1',
    subscriptionName: 'ERP',
    state: 'rejected',
    occurredAt: at,
    events: 3,
    attempts: 1,
    nextAttemptInSeconds: null,
    endedAt: at,
    lastAttempt: attempt,
  }));
  pinged: PingResult = { success: true, statusCode: 202, responseBody: 'ok', elapsedMs: 31 };
  standing: Alert[] = [
    { name: 'RefdataWebhookLagHigh', severity: 'warning', forSeconds: 9, summary: 'due for 1,000 s', value: 1_000 },
  ];
  now: WebhookStatus = {
    subscriptions: 4,
    activeSubscriptions: 3,
    blockedSubscriptions: 1,
    unplannedEvents: 11,
    waiting: 12,
    oldestDueSeconds: 13.5,
    inFlight: 2,
    rejected: 3,
    failed: 5,
    offline: true,
    deliveredTotal: 101,
    plannedTotal: 102,
    attemptsTotal: { accepted: 101, dns: 1, timeout: 2, ssrf: 3, tls: 4, connect: 5, http: 6 },
    historyBytes: 4_096,
  };

  subscriptions(page: PageRequest): Page<SubscriptionView> {
    this.#note();
    return paged(this.kept, page);
  }
  subscription(id: string): SubscriptionView {
    this.#note();
    return this.#subscriptionOf(id);
  }
  subscribe: WebhookAdmin['subscribe'] = async (caller, request, reason) => {
    const { secret, ...shown } = request;
    this.#note('subscribe', caller.name, { ...shown, secret: secret.length }, reason);
    checkTypes(request);
    refuse([
      ...requestFaults(request, { consumer: caller.scopes, caller: caller.scopes }),
      ...urlFaults(request.url),
      ...changeReasonFaults(reason),
    ]);
    const { name, url, consumer = caller.name, active = true } = request;
    const made: SubscriptionView = {
      id: String(this.kept.length + 1),
      name,
      url,
      consumer,
      active,
      scopes: caller.scopes,
      dictionaries: null,
      actions: ['closed'],
      categories: null,
      createdAt: at,
      updatedAt: at,
      version: 1,
      blocked: '',
    };
    this.kept.push(made);
    return made;
  };
  update: WebhookAdmin['update'] = async (caller, id, patch, version, reason) => {
    this.#note('update', caller.name, id, patch, version, reason);
    const found = this.#subscriptionOf(id);
    checkTypes({ name: '', url: '', ...patch });
    refuse([
      ...patchFaults(patch, { consumer: caller.scopes, caller: caller.scopes }, found.scopes),
      ...(patch.url === undefined ? [] : urlFaults(patch.url)),
      ...changeReasonFaults(reason),
    ]);
    this.#expected(id, version);
    const { name = found.name, url = found.url, active = found.active } = patch;
    return this.#keep({ ...found, name, url, active, version: found.version + 1 });
  };
  #expected(id: string, version: ExpectedVersion | undefined): SubscriptionView {
    const found = this.#subscriptionOf(id);
    if (version !== undefined && !isExpected(found.version, version))
      throw new LinesideError('STALE_VERSION', 'another version');
    return found;
  }
  async unsubscribe(caller: Caller, id: string, reason: string, version?: ExpectedVersion): Promise<void> {
    this.#note('unsubscribe', caller.name, id, reason);
    const found = this.#expected(id, version);
    this.kept = this.kept.filter((one) => one !== found);
  }
  rotateSecret: WebhookAdmin['rotateSecret'] = async (caller, id, rotation, reason, version) => {
    const { secret, ...rest } = rotation;
    this.#note('rotateSecret', caller.name, id, { ...rest, secret: secret.length }, reason);
    const found = this.#expected(id, version);
    refuse([...rotationFaults(rotation), ...changeReasonFaults(reason)]);
    return this.#keep({ ...found, version: found.version + 1 });
  };
  deliveries(query: DeliveryQuery): Page<Delivery> {
    this.#note('deliveries', query.state, query.subscription);
    const { state, subscription } = query;
    const found = this.sent.filter((one) => (state ?? one.state) === one.state);
    return paged(
      found.filter((one) => (subscription ?? one.subscription) === one.subscription),
      query,
    );
  }
  delivery(caller: Caller, deliveryId: string): DeliveryDetail {
    this.#note();
    const body = caller.scopes.includes('RESTRICTED') ? `{"deliveryId":"${deliveryId}"}` : null;
    return { ...this.#deliveryOf(deliveryId), body, attemptList: [attempt, { ...attempt, statusCode: null }] };
  }
  async resend(caller: Caller, deliveryId: string, reason: string): Promise<Delivery> {
    this.#note('resend', caller.name, deliveryId, reason);
    const found = this.#deliveryOf(deliveryId);
    if (found.state === 'pending') throw new LinesideError('CONFLICT', 'it waits already');
    const waiting: Delivery = { ...found, state: 'pending', nextAttemptInSeconds: 0, endedAt: null };
    this.sent = this.sent.map((one) => (one === found ? waiting : one));
    return waiting;
  }
  async resendAll(caller: Caller, id: string, range: ResendRange, reason: string): Promise<{ deliveries: number }> {
    this.#note('resendAll', caller.name, id, range, reason);
    this.#subscriptionOf(id);
    refuse(range.from === 'soon' ? ['from is no time'] : []);
    return { deliveries: this.sent.length };
  }
  async testPing(request: PingRequest): Promise<PingResult> {
    this.#note('testPing', request.url, request.secret.length);
    refuse(request.secret.length < 16 ? ['/secret must have 16 to 1024 bytes in UTF-8'] : []);
    return this.pinged;
  }
  status(): WebhookStatus {
    return this.now;
  }
  alerts(): readonly Alert[] {
    return this.standing;
  }

  #subscriptionOf(id: string): SubscriptionView {
    return found(this.kept.find((one) => one.id === id));
  }

  #deliveryOf(id: string): Delivery {
    return found(this.sent.find((one) => one.deliveryId === id));
  }

  #keep(changed: SubscriptionView): SubscriptionView {
    this.kept = this.kept.map((one) => (one.id === changed.id ? changed : one));
    return changed;
  }

  #note(...step: readonly unknown[]): void {
    if (step.length > 0) this.steps.push(step);
    const { failure } = this;
    this.failure = undefined;
    if (failure !== undefined) throw failure;
  }
}

function found<T>(thing: T | undefined): T {
  if (thing === undefined) throw new LinesideError('NOT_FOUND', 'there is no such thing');
  return thing;
}

function paged<T>(all: readonly T[], { limit, cursor }: PageRequest): Page<T> {
  const from = Number(cursor ?? 0);
  return {
    items: all.slice(from, from + limit),
    nextCursor: from + limit < all.length ? `${from + limit}` : undefined,
  };
}

/** What the guard says of a URL that needs no look at the network. */
function urlFaults(url: string): readonly string[] {
  const faults = [...parseUrl(url).faults, ...(url.includes('10.0.0.') ? ['10.0.0.0/8 is not public'] : [])];
  return faults.map((fault) => `/url: ${fault}`);
}

/** What the room may count on is asserted: a value of another type is a fault of the routes, and is seen as 500. */
function checkTypes({ name, url, consumer, active, ...lists }: Omit<SubscriptionRequest, 'secret'>): void {
  for (const text of [name, url, consumer ?? '']) assert.equal(typeof text, 'string');
  assert.equal(typeof (active ?? true), 'boolean');
  for (const list of [lists.scopes, lists.dictionaries, lists.actions, lists.categories])
    for (const item of list ?? []) assert.equal(typeof item, 'string', 'a list holds texts alone');
}

function refuse(reasons: readonly string[]): void {
  if (reasons.length > 0) throw new LinesideError('INVALID_ARGUMENT', `${reasons.length} faults`, { reasons });
}
