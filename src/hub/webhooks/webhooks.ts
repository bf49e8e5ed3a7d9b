/** Composition root of webhooks: the parts are started in order and stopped in reverse. */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Alerts, type Rule } from '../../shared/base/alerts.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { DeliveryRows } from './delivery/delivery-rows.ts';
import { Dispatcher, type DispatcherOptions } from './delivery/dispatcher.ts';
import { hasRoute, RemoteHosts, type RemoteHostsOptions } from './delivery/offline.ts';
import { Planner } from './delivery/planner.ts';
import { EgressGuard, type EgressGuardOptions } from './egress/guard.ts';
import { createPinger } from './egress/ping.ts';
import { Resolver } from './egress/resolver.ts';
import { Sender, type SenderOptions } from './egress/sender.ts';
import type { WebhookStatus } from './face.ts';
import type { WebhookParts } from './parts.ts';
import { type Boot, Progress, RunningTime } from './progress.ts';
import { Resend } from './review/resend.ts';
import { Retention, type RetentionOptions } from './review/retention.ts';
import { Review } from './review/review.ts';
import type { SubscriptionSource } from './subscriptions/cache.ts';
import { openSubscriptions, type SubscriptionsOptions } from './subscriptions/subscriptions.ts';

export interface WebhooksOptions
  extends Pick<WebhookParts, 'store' | 'clock' | 'logger'>,
    Pick<SubscriptionsOptions, 'consumers' | 'keyFile'>,
    Pick<EgressGuardOptions, 'allowCidrs' | 'allowPorts'>,
    Pick<SenderOptions, 'timeoutMs' | 'caFile' | 'version'>,
    Pick<DispatcherOptions, 'scheduleS'>,
    Pick<RemoteHostsOptions, 'otherRemotes'>,
    Pick<RetentionOptions, 'keepDeliveredDays' | 'keepFailedDays' | 'maxBytes'> {}

export type Webhooks = ReturnType<typeof openWebhooks>;
/** For the HTTP interface. */
export type WebhookAdmin = Webhooks['admin'];

/** Answers kept for review: 16,000 of 4 KiB. */
const maxAnswerBytes = 64 * 1024 * 1024;
/** Of a small refdata.db, so that answers never take the space of changes. */
const answerShare = 1 / 16;

/** Sends nothing before start(). Throws CONFIG_INVALID (ca_file), STORAGE_FAILED, STORAGE_DAMAGED. */
export function openWebhooks(options: WebhooksOptions) {
  const { store, clock, maxBytes, scheduleS } = options;
  const { connection } = store;
  const resolver = new Resolver(clock);
  const egress = new EgressGuard({ ...options, resolver });
  const sender = new Sender({ ...options, egress, resolver });
  const running = new RunningTime(new Progress(connection).running(), machineBoot());
  const rows = new DeliveryRows(connection);

  const cache = openSubscriptions({
    ...options,
    egress,
    runningNow: () => running.now(),
    planner: { caughtUp: () => caughtUp(), cursor: () => planner.cursor() },
  });
  const randomHex = (bytes = nonceBytes): string => randomBytes(bytes).toString('hex');
  const parts = { ...options, cache, rows, sender, running };
  const planner = new Planner({ ...parts, randomHex, firstDelayS: scheduleS[0] ?? 0 });
  let started = false;
  /** Before the start the consumers are unknown, and events would be planned without recipients. */
  const caughtUp = async (): Promise<void> => {
    if (!started) throw notStarted();
    return planner.caughtUp();
  };
  const remotes = new RemoteHosts({ ...options, cache, egress, resolver });
  const dispatcher = new Dispatcher({ ...parts, remotes, online: hasRoute });
  planner.onPlanned((subscriptionIds) => dispatcher.planned(subscriptionIds));
  const retention = new Retention({
    ...parts,
    maxAnswerBytes: Math.min(maxAnswerBytes, maxBytes * answerShare),
    onRemoved: () => dispatcher.dropped(),
  });
  const review = new Review(parts);
  const resend = new Resend({ ...parts, review, dispatcher });

  const status = (): WebhookStatus => {
    return {
      ...countsOf(cache),
      unplannedEvents: planner.unplanned(),
      plannedTotal: planner.plannedTotal(),
      historyBytes: retention.historyBytes(),
      ...dispatcher.status(),
    };
  };
  const alerts = new Alerts(webhookRules);
  /**
   * Errors: NOT_FOUND (no such subscription or delivery), INVALID_ARGUMENT with every reason (the fields' own faults and the egress
   * guard's), STALE_VERSION, CONFLICT, TOO_MANY, and those of ChangeStore.commit. `version`: the expected one; undefined: any.
   */
  const admin = {
    ...methodsOf(cache, ['subscriptions', 'subscription', 'subscribe', 'update', 'unsubscribe', 'rotateSecret']),
    ...methodsOf(review, ['deliveries', 'delivery', 'results']),
    ...methodsOf(resend, ['resend', 'resendAll']),
    testPing: createPinger({ ...options, sender, egress, now: () => store.now(), randomHex }),
    status,
    alerts: () => alerts.look(status(), clock.monoMs()),
  };
  let stopped = false;
  return {
    admin,
    /** `check` throws when the loop has stalled. */
    loops: [
      { name: 'the planner of webhooks', check: () => planner.assertAlive() },
      { name: 'the dispatcher of webhooks', check: () => dispatcher.assertAlive() },
    ],
    /** Outbox events above this are not planned yet: they must not be removed. */
    keepAbove: () => planner.cursor(),
    start() {
      if (stopped) return;
      started = true;
      planner.start();
      dispatcher.start();
      retention.start();
    },
    /** Cancels attempts under way, which stay due, and commits results. About 5 s at most. */
    async stop() {
      stopped = true;
      await retention.stop();
      await planner.stop();
      await dispatcher.stop();
      sender.close();
    },
  };
}

function countsOf(cache: SubscriptionSource) {
  const all = cache.all();
  const active = all.filter((one) => one.active);
  const blocked = active.filter((one) => cache.blocked(one) !== '');
  return { subscriptions: all.length, activeSubscriptions: active.length, blockedSubscriptions: blocked.length };
}

function notStarted(): LinesideError {
  return new LinesideError('NOT_READY', 'webhooks have not started: the consumers are not known yet', {
    hint: 'The tokens file (auth.tokens_file) has not been readable since the start: the log says why.',
  });
}

/** Makes a delivery's id unique when a restored backup reuses row ids. */
const nonceBytes = 8;

function methodsOf<T extends object, K extends keyof T>(of: T, names: readonly K[]): Pick<T, K> {
  return Object.fromEntries(
    names.map((name) => {
      const method = of[name];
      return [name, typeof method === 'function' ? method.bind(of) : method];
    }),
  ) as Pick<T, K>;
}

/** CLOCK_MONOTONIC is the same for all processes, and setting the time does not change it. */
function machineBoot(): Boot {
  const id = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  return { id, monoMs: () => Number(process.hrtime.bigint() / 1_000_000n) };
}

/** The first three retries (12.5 min) are no lag; being overdue without an attempt is. */
const lagSeconds = 900;

export const webhookRules: readonly Rule<WebhookStatus>[] = [
  {
    name: 'RefdataWebhookLagHigh',
    severity: 'warning',
    value: ({ oldestDueSeconds }) => (oldestDueSeconds > lagSeconds ? oldestDueSeconds : 0),
    summary: ({ oldestDueSeconds, waiting, offline }) =>
      `a webhook delivery has been due for ${oldestDueSeconds} s, more than ${lagSeconds}; ` +
      `${waiting} wait${offline ? ', and the device is offline (no route, or no remote host takes a connection)' : ''}`,
    expr: `lineside_webhook_oldest_due_seconds > ${lagSeconds}`,
    title: 'A webhook delivery of BOX has been overdue for VALUE s',
    means: `A delivery has been overdue for ${lagSeconds / 60} minutes: the device is offline (no route, or no remote host accepts a connection), its subscription is blocked, or more is due than the subscribers accept.`,
    remedy: '`lineside webhook deliveries` shows which. The delivery is kept and is sent when it can be.',
  },
  {
    name: 'RefdataWebhookDeliveriesForReview',
    severity: 'warning',
    value: ({ rejected, failed }) => rejected + failed,
    summary: ({ rejected, failed }) =>
      `${rejected} webhook deliveries were rejected and ${failed} have failed: they are for review`,
    expr: 'sum without (state) (lineside_webhook_deliveries_for_review) > 0',
    title: 'VALUE webhook deliveries of BOX were rejected or have failed',
    means: 'Deliveries were rejected, or failed at every attempt. They are removed after webhooks.keep_failed_days.',
    remedy:
      '`lineside webhook delivery ID` shows the answers. Fix the cause with the subscriber, then `lineside webhook retry`.',
  },
  {
    name: 'RefdataWebhookSubscriptionBlocked',
    severity: 'critical',
    value: ({ blockedSubscriptions }) => blockedSubscriptions,
    summary: ({ blockedSubscriptions }) =>
      `${blockedSubscriptions} active webhook subscriptions are blocked: nothing is sent to them`,
    expr: 'lineside_webhook_subscriptions_blocked > 0',
    title: 'VALUE active webhook subscriptions of BOX are blocked',
    means:
      "Nothing is sent to an active subscription: its consumer's token is missing or lacks a scope, or its secret cannot be read.",
    remedy: '`lineside webhook show ID` shows the reason.',
  },
];
