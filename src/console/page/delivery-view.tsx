/** What is on its way out of the box: the outbox, its dead letters, webhooks. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { countText, durationText, instantText, plural } from '../format.ts';
import { type Delivery, type DeliveryState, deliveryStates, type Page } from '../shapes.ts';
import { AlertList } from './alert-list.tsx';
import { DeadLetters } from './dead-letters.tsx';
import { DeliveryDialog } from './delivery-dialog.tsx';
import { lookOf } from './delivery-look.ts';
import { usePaged } from './loading.ts';
import { OutboxPanel, WebhookPanel } from './outbox-panel.tsx';
import { Heading, ListEnd, ProblemBox, Section, Select } from './parts.tsx';
import { useSession } from './session.ts';

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

// Deliveries to webhook subscribers, newest first.

const EVERY_MS = 5_000;
type Shown = DeliveryState | 'all';
const shownStates: readonly (readonly [Shown, string])[] = [
  ['all', 'all'],
  ...deliveryStates.map((state) => [state, state] as const),
];

function Deliveries(): JSX.Element {
  const { api } = useSession();
  const [state, setState] = useState<Shown>('all');
  const [open, setOpen] = useState<string>();
  const deliveries = usePaged<Delivery>(`deliveries ${state}`, EVERY_MS, (cursor, signal) => {
    const filter = state === 'all' ? '' : `&state=${state}`;
    const from = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
    return api.get<Page<Delivery>>(`/api/v1/admin/webhooks/deliveries?limit=50${filter}${from}`, signal);
  });
  return (
    <Section
      title="Webhook deliveries"
      actions={<Select label="State" value={state} options={shownStates} onChange={setState} />}
    >
      <ProblemBox problem={deliveries.problem} />
      <ul class="items">
        {deliveries.items?.map((one) => (
          <li key={one.deliveryId} data-state={one.state}>
            <button type="button" class="opens" onClick={() => setOpen(one.deliveryId)}>
              <span class={`badge ${lookOf(one.state)}`}>{one.state}</span> <strong>{one.subscriptionName}</strong>{' '}
              <span>
                {plural(one.events, 'event')}, {instantText(one.occurredAt)}
              </span>{' '}
              <span class="note">{progressOf(one)}</span>
            </button>
          </li>
        ))}
      </ul>
      <ListEnd
        count={deliveries.items?.length}
        hasMore={deliveries.hasMore}
        onMore={deliveries.more}
        none="There are none."
      />
      {open !== undefined && (
        <DeliveryDialog id={open} onChanged={deliveries.reload} onClose={() => setOpen(undefined)} />
      )}
    </Section>
  );
}

function progressOf({ attempts, nextAttemptInSeconds, lastAttempt }: Delivery): string {
  const made = `${countText(attempts)} ${attempts === 1 ? 'attempt' : 'attempts'}`;
  const next = nextAttemptInSeconds === null ? '' : `, next in ${durationText(nextAttemptInSeconds)}`;
  const said = lastAttempt === null || lastAttempt.message === '' ? '' : `: ${lastAttempt.message}`;
  return `${made}${next}${said}`;
}
