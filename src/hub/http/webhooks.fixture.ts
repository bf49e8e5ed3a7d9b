/** Webhooks for this room's tests: real subscriptions; deliveries and pings by a script. What was asked of them is noted. */
import type { Alert } from '../../shared/base/alerts.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { silentLogger } from '../../shared/base/logger.ts';
import type { ChangeStore } from '../outbox/change-store.ts';
import { scopes } from '../outbox/event.ts';
import type { Page, PageRequest } from '../outbox/paging.ts';
import { parseUrl } from '../webhooks/egress/endpoint.ts';
import type { Attempt, Delivery, PingResult, WebhookStatus } from '../webhooks/face.ts';
import { lastEvent } from '../webhooks/subscriptions/subscriptions.fixture.ts';
import { openSubscriptions } from '../webhooks/subscriptions/subscriptions.ts';
import type { WebhookAdmin } from '../webhooks/webhooks.ts';

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

/** Those are noted that change something, and how deliveries are listed. */
const unnoted: ReadonlySet<string> = new Set(['subscriptions', 'subscription', 'delivery', 'status', 'alerts']);

export class FakeWebhooks {
  /** What was asked, with all arguments; of the caller the name, of a secret the length. */
  steps: unknown[] = [];
  /** What the next call throws. */
  failure: unknown;
  sent: Delivery[] = [7, 6, 5].map((id) => ({
    deliveryId: `${id}-00c0ffee00c0ffee`,
    subscription: '1',
    subscriptionName: 'ERP',
    state: 'rejected',
    occurredAt: at,
    events: 3,
    firstEvent: { eventType: 'dictionary.changed', dictionary: 'tools', businessKey: 'T-1', action: 'created' },
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

  status(): WebhookStatus {
    return this.now;
  }

  adminOn(store: ChangeStore, keyFile: string): WebhookAdmin {
    const real = openSubscriptions({
      store,
      keyFile,
      egress: { faults: async (url) => urlFaults(url) },
      consumers: { scopesOf: () => scopes, isKnown: () => true, onChanged: () => {} },
      runningNow: () => 0,
      planner: { caughtUp: async () => {}, cursor: () => lastEvent(store) },
      logger: silentLogger,
    });
    const admin: WebhookAdmin = {
      subscriptions: (page) => real.subscriptions(page),
      subscription: (id) => real.subscription(id),
      subscribe: (...asked) => real.subscribe(...asked),
      update: (...asked) => real.update(...asked),
      unsubscribe: (...asked) => real.unsubscribe(...asked),
      rotateSecret: (...asked) => real.rotateSecret(...asked),
      deliveries: (_, query) => paged(this.sent, query),
      delivery: (caller, id) => ({
        ...this.#deliveryOf(id),
        body: caller.scopes.includes('RESTRICTED') ? `{"deliveryId":"${id}"}` : null,
        attemptList: [attempt, { ...attempt, statusCode: null }],
      }),
      resend: async (_, id) => ({ ...this.#deliveryOf(id), state: 'pending', nextAttemptInSeconds: 0, endedAt: null }),
      resendAll: async (_, id, range) => {
        real.subscription(id);
        refuse(range.from === 'soon' ? ['from is no time'] : []);
        return { deliveries: this.sent.length };
      },
      testPing: async ({ secret }) => {
        refuse(secret.length < 16 ? ['/secret must have 16 to 1024 bytes in UTF-8'] : []);
        return this.pinged;
      },
      results: () => ({ since: null, deliveries: 0, subscriptions: [] }),
      status: () => this.now,
      alerts: () => this.standing,
    };
    const call = (name: keyof WebhookAdmin) => {
      const method = admin[name] as (...asked: unknown[]) => unknown;
      return (...asked: unknown[]): unknown => {
        if (!unnoted.has(name)) this.steps.push([name, ...asked.map(shown)]);
        const { failure } = this;
        if (name !== 'status' && name !== 'alerts') this.failure = undefined;
        if (failure !== undefined) throw failure;
        return method(...asked);
      };
    };
    const names = Object.keys(admin) as (keyof WebhookAdmin)[];
    return Object.fromEntries(names.map((name) => [name, call(name)])) as unknown as WebhookAdmin;
  }

  #deliveryOf(id: string): Delivery {
    const found = this.sent.find(({ deliveryId }) => deliveryId === id);
    if (found === undefined) throw new LinesideError('NOT_FOUND', 'there is no such delivery');
    return found;
  }
}

function shown(asked: unknown): unknown {
  if (typeof asked !== 'object' || asked === null) return asked;
  if ('roles' in asked && 'name' in asked) return asked.name;
  return 'secret' in asked ? { ...asked, secret: String(asked.secret).length } : asked;
}

function paged<T>(all: readonly T[], { limit, cursor }: PageRequest): Page<T> {
  const from = Number(cursor ?? 0);
  const nextCursor = from + limit < all.length ? `${from + limit}` : undefined;
  return { items: all.slice(from, from + limit), nextCursor };
}

/** The verdict of the guard on a URL, without the network. */
function urlFaults(url: string): readonly string[] {
  return [...parseUrl(url).faults, ...(url.includes('10.0.0.') ? ['10.0.0.0/8 is not public'] : [])];
}

function refuse(reasons: readonly string[]): void {
  if (reasons.length > 0) throw new LinesideError('INVALID_ARGUMENT', `${reasons.length} faults`, { reasons });
}
