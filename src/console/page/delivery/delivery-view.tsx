/** Delivery: the outbox with its dead letters, the deliveries to webhook subscribers. */
import type { JSX } from 'preact';
import { text } from '../../text.ts';
import { hashOf } from '../../views.ts';
import { Heading } from '../parts.tsx';
import { OutboxView } from './outbox-view.tsx';
import { WebhooksView } from './webhooks-view.tsx';

const say = text.delivery;
const tabs = ['outbox', 'webhooks'] as const;

export function DeliveryView({ parts: [part = 'outbox'] }: { parts: readonly string[] }): JSX.Element {
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
      <Part name={part} />
    </>
  );
}

function Part({ name }: { name: string }): JSX.Element {
  switch (name) {
    case 'outbox':
      return <OutboxView />;
    case 'webhooks':
      return <WebhooksView />;
    default:
      return <p class="card">{say.noSuchPart(name)}</p>;
  }
}
