/** Delivery: the outbox with its dead letters, webhook subscriptions and their deliveries. */
import type { JSX } from 'preact';
import { text } from '../../text.ts';
import { hashOf } from '../../views.ts';
import { Heading } from '../parts.tsx';
import { OutboxView } from './outbox-view.tsx';
import { SubscriptionList, SubscriptionView } from './subscriptions-view.tsx';
import { WebhooksView } from './webhooks-view.tsx';

const say = text.delivery;
const tabs = ['outbox', 'webhooks', 'subscriptions'] as const;

export function DeliveryView({ parts: [part = 'outbox', id] }: { parts: readonly string[] }): JSX.Element {
  return (
    <>
      <Heading>{say.title}</Heading>
      <nav class="tabs" aria-label={say.title}>
        {tabs.map((tab) => (
          <a key={tab} href={hashOf('delivery', tab)} aria-current={tab === part ? 'page' : undefined}>
            {say.tabs[tab]}
          </a>
        ))}
      </nav>
      <Part name={part} id={id} />
    </>
  );
}

function Part({ name, id }: { name: string; id: string | undefined }): JSX.Element {
  switch (name) {
    case 'outbox':
      return <OutboxView />;
    case 'webhooks':
      return <WebhooksView />;
    case 'subscriptions':
      return id === undefined ? <SubscriptionList /> : <SubscriptionView key={id} id={id} />;
    default:
      return <p class="card">{say.noSuchPart(name)}</p>;
  }
}
