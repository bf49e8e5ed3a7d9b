import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Alerts } from '../../shared/base/alerts.ts';
import { webhookRules } from './alerts.ts';
import type { WebhookStatus } from './face.ts';

const well: WebhookStatus = {
  subscriptions: 3,
  activeSubscriptions: 2,
  blockedSubscriptions: 0,
  unplannedEvents: 0,
  waiting: 0,
  oldestDueSeconds: 0,
  inFlight: 0,
  rejected: 0,
  failed: 0,
  offline: false,
  deliveredTotal: 0,
  plannedTotal: 0,
  attemptsTotal: { '': 0, dns: 0, timeout: 0, ssrf: 0, tls: 0, connect: 0, http: 0 },
  historyBytes: 0,
};

function fires(changes: Partial<WebhookStatus>): readonly (readonly [string, string, number, string])[] {
  return new Alerts(webhookRules)
    .look({ ...well, ...changes }, 0)
    .map(({ name, severity, value, summary }) => [name, severity, value, summary]);
}

test('each rule fires at its own condition and not before', () => {
  assert.deepEqual(fires({}), []);
  assert.deepEqual(fires({ oldestDueSeconds: 900, waiting: 1_000_000, offline: true }), []);
  assert.deepEqual(
    fires({ oldestDueSeconds: 901, waiting: 7 }).map(([name, severity, value]) => [name, severity, value]),
    [['RefdataWebhookLagHigh', 'warning', 901]],
  );
  for (const review of [{ rejected: 2 }, { failed: 2 }, { rejected: 1, failed: 1 }]) {
    assert.deepEqual(
      fires(review).map(([name, severity, value]) => [name, severity, value]),
      [['RefdataWebhookDeliveriesForReview', 'warning', 2]],
    );
  }
  assert.deepEqual(
    fires({ blockedSubscriptions: 1 }).map(([name, severity, value]) => [name, severity, value]),
    [['RefdataWebhookSubscriptionBlocked', 'critical', 1]],
  );
});

test('the summaries say how much, and that the device is offline where it is', () => {
  const [lag] = fires({ oldestDueSeconds: 4_000, waiting: 12 });
  assert.match(lag?.[3] ?? '', /due for 4000 s, more than 900; 12 wait$/);
  const [offline] = fires({ oldestDueSeconds: 4_000, waiting: 12, offline: true });
  assert.match(
    offline?.[3] ?? '',
    /12 wait, and the device is offline \(no route, or no remote host takes a connection\)$/,
  );
  const [review] = fires({ rejected: 5, failed: 6 });
  assert.match(review?.[3] ?? '', /5 webhook deliveries were rejected and 6 have failed/);
});
