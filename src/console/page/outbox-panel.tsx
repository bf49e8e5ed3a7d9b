/** How far the outbox and the webhooks are behind. */
import type { JSX } from 'preact';
import { countText, durationText } from '../format.ts';
import type { BlockedKey, OutboxStatus, WebhookStatus } from '../shapes.ts';
import { useLoaded } from './loading.ts';
import { Facts, ProblemBox, Section } from './parts.tsx';
import { useSession } from './session.ts';

const EVERY_MS = 5_000;

export function OutboxPanel(): JSX.Element {
  const { api } = useSession();
  const { value, problem } = useLoaded('outbox', EVERY_MS, (signal) =>
    api.get<OutboxStatus>('/api/v1/admin/outbox', signal),
  );
  return (
    <Section title="Outbox">
      <ProblemBox problem={problem} />
      {value !== undefined && (
        <>
          <Facts
            of={[
              ['Waiting', countText(value.waiting)],
              ['Oldest', value.oldest === undefined ? 'none' : `${durationText(value.oldest.ageSeconds)} old`],
              ['In flight', countText(value.inFlight)],
              ['Published since the start', countText(value.publishedTotal)],
              ['Dead letters', countText(value.deadLetters), value.deadLetters > 0 ? 'bad' : undefined],
              ['Blocked keys', countText(value.blockedKeyCount), value.blockedKeyCount > 0 ? 'bad' : undefined],
              ['Broker', brokerText(value), value.broker.configured && !value.broker.connected ? 'bad' : undefined],
            ]}
          />
          {value.blockedKeys.length > 0 && <BlockedKeys keys={value.blockedKeys} />}
        </>
      )}
    </Section>
  );
}

function brokerText({ broker }: OutboxStatus): string {
  if (!broker.configured) return 'none is configured: rows wait';
  if (broker.connected) return 'connected';
  return `not reached for ${durationText(broker.forSeconds)}: ${broker.reason}`;
}

function BlockedKeys({ keys }: { keys: readonly BlockedKey[] }): JSX.Element {
  return (
    <>
      <h3>Blocked keys</h3>
      <ul class="items">
        {keys.map((one) => (
          <li key={`${one.topic} ${one.key}`}>
            <span class="mono">{one.key}</span> <span class="note">{one.topic}</span>
            <p>
              {one.reason} (refused {countText(one.attempts)} times, again in {durationText(one.nextAttemptInSeconds)})
            </p>
          </li>
        ))}
      </ul>
    </>
  );
}

export function WebhookPanel(): JSX.Element {
  const { api } = useSession();
  const { value, problem } = useLoaded('webhooks', EVERY_MS, (signal) =>
    api.get<WebhookStatus>('/api/v1/admin/webhooks/status', signal),
  );
  return (
    <Section title="Webhooks">
      <ProblemBox problem={problem} />
      {value !== undefined && (
        <Facts
          of={[
            ['Subscriptions', `${countText(value.activeSubscriptions)} active of ${countText(value.subscriptions)}`],
            ['Blocked', countText(value.blockedSubscriptions), value.blockedSubscriptions > 0 ? 'bad' : undefined],
            ['Deliveries waiting', countText(value.waiting)],
            ['Oldest overdue', durationText(value.oldestDueSeconds)],
            ['Rejected', countText(value.rejected), value.rejected > 0 ? 'bad' : undefined],
            ['Failed', countText(value.failed), value.failed > 0 ? 'bad' : undefined],
            ['Delivered since the start', countText(value.deliveredTotal)],
            [
              'Network',
              value.offline ? 'offline: no route, or no remote host takes a connection' : 'online',
              value.offline ? 'bad' : undefined,
            ],
          ]}
        />
      )}
    </Section>
  );
}
