/** The webhooks' numbers for Prometheus. */
import { Counter, Gauge, type Registry } from 'prom-client';
import { causes, reviewStates, type WebhookStatus } from '../webhooks/face.ts';

/** Registers them; the function sets them to what a status says. */
export function webhookMetrics(registry: Registry): (status: WebhookStatus) => void {
  const registers = [registry];
  const forReview = new Gauge({
    name: 'lineside_webhook_deliveries_for_review',
    help: 'Deliveries that ended without being delivered.',
    labelNames: ['state'],
    registers,
  });
  const attempts = new Counter({
    name: 'lineside_webhook_attempts_total',
    help: 'Attempts since the start, by what they failed of, or accepted.',
    labelNames: ['cause'],
    registers,
  });
  const plain = plainMetrics(registers);
  return (status) => {
    for (const state of reviewStates) forReview.set({ state }, status[state]);
    attempts.reset();
    attempts.inc({ cause: 'accepted' }, status.attemptsTotal['']);
    for (const cause of causes) attempts.inc({ cause }, status.attemptsTotal[cause]);
    for (const read of plain) read(status);
  };
}

/** Those without labels. */
function plainMetrics(registers: Registry[]): ((status: WebhookStatus) => void)[] {
  const gauge = (name: string, help: string, of: (status: WebhookStatus) => number) => {
    const metric = new Gauge({ name: `lineside_webhook_${name}`, help, registers });
    return (status: WebhookStatus): void => metric.set(of(status));
  };
  const counter = (name: string, help: string, of: (status: WebhookStatus) => number) => {
    const metric = new Counter({ name: `lineside_webhook_${name}`, help, registers });
    return (status: WebhookStatus): void => {
      metric.reset();
      metric.inc(of(status));
    };
  };
  return [
    gauge('subscriptions_active', 'Active subscriptions.', ({ activeSubscriptions }) => activeSubscriptions),
    gauge('subscriptions_blocked', 'Of the active ones, those to which nothing is sent.', (status) => {
      return status.blockedSubscriptions;
    }),
    gauge('waiting', 'Deliveries that are still to be accepted.', ({ waiting }) => waiting),
    gauge('oldest_due_seconds', 'How long the delivery that is due longest has been due.', (status) => {
      return status.oldestDueSeconds;
    }),
    gauge('unplanned_events', 'Outbox events of which no deliveries are made yet.', (status) => status.unplannedEvents),
    gauge('in_flight', 'Attempts under way.', ({ inFlight }) => inFlight),
    gauge('offline', '1: the device has no route or reaches no remote host, and deliveries wait.', ({ offline }) =>
      Number(offline),
    ),
    gauge('history_bytes', 'Bytes of the answers that are kept for review.', ({ historyBytes }) => historyBytes),
    counter('delivered_total', 'Deliveries accepted since the start.', ({ deliveredTotal }) => deliveredTotal),
    counter('planned_total', 'Deliveries made of events since the start.', ({ plannedTotal }) => plannedTotal),
  ];
}
