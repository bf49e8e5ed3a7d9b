/** The statuses of rooms in which nothing is wrong: the tests of alerts and metrics change one figure at a time. */
import type { OutboxStatus } from '../outbox/admin.ts';
import type { UpstreamStatus } from '../upstream/status.ts';
import type { WebhookStatus } from '../webhooks/face.ts';

export const wellOutbox: OutboxStatus = {
  waiting: 0,
  oldest: undefined,
  inFlight: 0,
  inFlightBytes: 0,
  publishedTotal: 9,
  refusedTotal: 0,
  unreachedTotal: 0,
  prunedTotal: 0,
  deadLetters: 0,
  blockedKeys: [],
  blockedKeyCount: 0,
  broker: { configured: true, connected: true, reason: '', forSeconds: 60, producersReplaced: 0, topics: [] },
};

export const wellWebhooks: WebhookStatus = {
  subscriptions: 2,
  activeSubscriptions: 2,
  blockedSubscriptions: 0,
  unplannedEvents: 0,
  waiting: 0,
  oldestDueSeconds: 0,
  inFlight: 0,
  rejected: 0,
  failed: 0,
  offline: false,
  deliveredTotal: 7,
  plannedTotal: 7,
  attemptsTotal: { accepted: 7, dns: 0, timeout: 0, ssrf: 0, tls: 0, connect: 0, http: 0 },
  historyBytes: 0,
};

export const wellUpstream: UpstreamStatus = {
  to: 'kafka',
  state: 'up to date',
  reason: '',
  connected: true,
  lagEntries: 0,
  oldestUnsentAgeS: 0,
  sentEntries: 10,
  sentBytes: 100,
  wireBytes: 50,
  batches: 1,
  repeatedBatches: 0,
  gapsSent: 0,
  entriesLost: 0,
  budgetUsedBytes: 50,
  budgetLimitBytes: 1_000,
  position: 10,
  logId: 'log',
};
