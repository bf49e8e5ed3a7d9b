/** What is on its way out of the box: the outbox, its dead letters, webhooks. */
import type { JSX } from 'preact';
import { AlertList } from './alert-list.tsx';
import { DeadLetters } from './dead-letters.tsx';
import { Deliveries } from './deliveries.tsx';
import { OutboxPanel, WebhookPanel } from './outbox-panel.tsx';
import { Heading } from './parts.tsx';

export function DeliveryView(): JSX.Element {
  return (
    <>
      <Heading>Delivery</Heading>
      <AlertList />
      <div class="columns">
        <OutboxPanel />
        <WebhookPanel />
      </div>
      <DeadLetters />
      <Deliveries />
    </>
  );
}
