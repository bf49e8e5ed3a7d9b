import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Alerts } from '../../shared/base/alerts.ts';
import { wellWebhooks } from '../health/well.fixture.ts';
import { webhookRules } from './alerts.ts';
import type { WebhookStatus } from './face.ts';

function fires(changes: Partial<WebhookStatus>): readonly string[] {
  const found = new Alerts(webhookRules).look({ ...wellWebhooks, ...changes }, 0);
  return found.map(({ name, severity, value, summary }) => `${severity} ${name} ${value}: ${summary}`);
}

const offline = /12 wait, and the device is offline \(no route, or no remote host takes a connection\)$/;
const review = /^warning RefdataWebhookDeliveriesForReview 2: \d webhook deliveries were rejected and \d have failed/;
const table: readonly (readonly [changes: Partial<WebhookStatus>, ...fires: readonly RegExp[]])[] = [
  [{}],
  [{ oldestDueSeconds: 900, waiting: 1_000_000, offline: true }],
  [
    { oldestDueSeconds: 901, waiting: 7 },
    /^warning RefdataWebhookLagHigh 901: .* due for 901 s, more than 900; 7 wait$/,
  ],
  [{ oldestDueSeconds: 4_000, waiting: 12, offline: true }, offline],
  [{ rejected: 2 }, review],
  [{ failed: 2 }, review],
  [{ rejected: 1, failed: 1 }, review],
  [{ blockedSubscriptions: 1 }, /^critical RefdataWebhookSubscriptionBlocked 1: /],
];
for (const [changes, ...expected] of table) {
  test(`of ${JSON.stringify(changes)} just that is reported`, () => {
    const found = fires(changes);
    assert.equal(found.length, expected.length);
    for (const [at, pattern] of expected.entries()) assert.match(found[at] ?? '', pattern);
  });
}
