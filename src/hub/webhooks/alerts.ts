/** The alerts of webhooks: a rule table. Pure. */
import type { Rule } from '../../shared/base/alerts.ts';
import type { WebhookStatus } from './face.ts';

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
