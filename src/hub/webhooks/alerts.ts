/** What is wrong with the webhooks, as the device's own alerts: a rule table. Pure. */
import type { Rule } from '../../shared/base/alerts.ts';
import type { WebhookStatus } from './face.ts';

/** RefdataWebhookLagHigh fires above this, seconds: the first three retries (12.5 min) do not make a delivery late, being due and not tried does. */
const lagSeconds = 900;

export const webhookRules: readonly Rule<WebhookStatus>[] = [
  {
    name: 'RefdataWebhookLagHigh',
    severity: 'warning',
    value: ({ oldestDueSeconds }) => (oldestDueSeconds > lagSeconds ? oldestDueSeconds : 0),
    summary: ({ oldestDueSeconds, waiting, offline }) =>
      `a webhook delivery has been due for ${oldestDueSeconds} s, more than ${lagSeconds}; ` +
      `${waiting} wait${offline ? ', and the device is offline (no route, or no remote host takes a connection)' : ''}`,
  },
  {
    name: 'RefdataWebhookDeliveriesForReview',
    severity: 'warning',
    value: ({ rejected, failed }) => rejected + failed,
    summary: ({ rejected, failed }) =>
      `${rejected} webhook deliveries were rejected and ${failed} have failed: they are for review`,
  },
  {
    name: 'RefdataWebhookSubscriptionBlocked',
    severity: 'critical',
    value: ({ blockedSubscriptions }) => blockedSubscriptions,
    summary: ({ blockedSubscriptions }) =>
      `${blockedSubscriptions} active webhook subscriptions are blocked: nothing is sent to them`,
  },
];
