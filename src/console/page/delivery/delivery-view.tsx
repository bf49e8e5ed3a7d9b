/** The outbox and its dead letters, webhooks and their deliveries. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { DeadLetter, Delivery, DeliveryDetail, OutboxStatus, WebhookStatus } from '../../../shared/gen/http.ts';
import { countText, durationText, instantText, plural } from '../../format.ts';
import { useDoing, useLoaded, usePaged } from '../loading.ts';
import {
  Answer,
  Button,
  Dialog,
  Done,
  Dump,
  type Fact,
  Facts,
  Form,
  focusHeading,
  Heading,
  Items,
  ReasonDialog,
  ReasonField,
  Section,
  Select,
} from '../parts.tsx';
import { useSession } from '../session.ts';
import { type Column, Table } from '../table.tsx';

const EVERY_MS = 5_000;

export function DeliveryView(): JSX.Element {
  return (
    <>
      <Heading>Delivery</Heading>
      <div class="columns">
        <OutboxPanel />
        <WebhookPanel />
      </div>
      <DeadLetters />
      <Deliveries />
    </>
  );
}

// How far the outbox and the webhooks are behind.

const badAbove0 = (name: string, count: number): Fact => [name, countText(count), count > 0 ? 'bad' : undefined];

function OutboxPanel(): JSX.Element {
  const outbox = useLoaded<OutboxStatus>('/api/v1/admin/outbox', EVERY_MS);
  return (
    <Section title="Outbox">
      <Answer of={outbox}>
        {(value) => (
          <>
            <Facts
              of={[
                ['Waiting', countText(value.waiting)],
                ['Oldest', value.oldest === undefined ? 'none' : `${durationText(value.oldest.ageSeconds)} old`],
                ['In flight', countText(value.inFlight)],
                ['Published since the start', countText(value.publishedTotal)],
                badAbove0('Dead letters', value.deadLetters),
                badAbove0('Blocked keys', value.blockedKeyCount),
                ['Broker', brokerText(value), value.broker.configured && !value.broker.connected ? 'bad' : undefined],
              ]}
            />
            {value.blockedKeys.length > 0 && <BlockedKeys keys={value.blockedKeys} />}
          </>
        )}
      </Answer>
    </Section>
  );
}

function brokerText({ broker }: OutboxStatus): string {
  if (!broker.configured) return 'none is configured: rows wait';
  if (broker.connected) return 'connected';
  return `unreachable for ${durationText(broker.forSeconds)}: ${broker.reason}`;
}

function BlockedKeys({ keys }: { keys: OutboxStatus['blockedKeys'] }): JSX.Element {
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

function WebhookPanel(): JSX.Element {
  const webhooks = useLoaded<WebhookStatus>('/api/v1/admin/webhooks/status', EVERY_MS);
  return (
    <Section title="Webhooks">
      <Answer of={webhooks}>
        {(value) => (
          <Facts
            of={[
              ['Subscriptions', `${countText(value.activeSubscriptions)} active of ${countText(value.subscriptions)}`],
              badAbove0('Blocked', value.blockedSubscriptions),
              ['Deliveries waiting', countText(value.waiting)],
              ['Oldest overdue', durationText(value.oldestDueSeconds)],
              badAbove0('Rejected', value.rejected),
              badAbove0('Failed', value.failed),
              ['Delivered since the start', countText(value.deliveredTotal)],
              value.offline
                ? ['Network', 'offline: no route, or no remote host takes a connection', 'bad']
                : ['Network', 'online'],
            ]}
          />
        )}
      </Answer>
    </Section>
  );
}

// Rows of the outbox that cannot be published: to be sent again, or discarded.

const DEAD_LETTERS = '/api/v1/admin/outbox/dead-letters';

function DeadLetters(): JSX.Element {
  const { api } = useSession();
  const [asked, ask] = useState<{ letter: DeadLetter; step: 'requeue' | 'discard' }>();
  const [done, setDone] = useState('');
  const letters = usePaged<DeadLetter>(`${DEAD_LETTERS}?limit=100`, EVERY_MS);
  const run = async (reason: string): Promise<void> => {
    if (asked === undefined) return;
    const { letter, step } = asked;
    await api.send('POST', `${DEAD_LETTERS}/${letter.id}/${step}`, { body: { changeReason: reason } });
    setDone(`Dead letter ${letter.id} ${step === 'requeue' ? 'is queued' : 'was discarded'}.`);
    letters.reload();
    // The button that was pressed is removed with its letter.
    queueMicrotask(focusHeading);
  };
  const buttonsOf = (letter: DeadLetter): JSX.Element => (
    <div class="buttons">
      <Button
        text="Send again…"
        aria-label={`Send again… ${letter.businessKey}`}
        onClick={() => ask({ letter, step: 'requeue' })}
      />
      <Button
        text="Discard…"
        aria-label={`Discard… ${letter.businessKey}`}
        onClick={() => ask({ letter, step: 'discard' })}
      />
    </div>
  );
  return (
    <Section title="Dead letters">
      <p>
        <Done>{done}</Done>
      </p>
      <Table
        of={letters}
        caption="Dead letters"
        none="There are none."
        idOf={({ id }) => String(id)}
        columns={[...letterColumns, { head: 'Action', cell: buttonsOf }]}
      />
      {asked !== undefined && <ReasonDialog {...wordsFor(asked)} run={run} onClose={() => ask(undefined)} />}
    </Section>
  );
}

const letterColumns: readonly Column<DeadLetter>[] = [
  { head: 'Record', isName: true, cell: (letter) => <span class="mono">{nameOf(letter)}</span> },
  { head: 'Change', cell: ({ action }) => action },
  { head: 'Dead-lettered', cell: ({ diedAt }) => instantText(diedAt) },
  { head: 'Refusals', isNumber: true, cell: ({ attempts }) => countText(attempts) },
  { head: 'Reason', cell: ({ reason }) => reason },
];

const nameOf = ({ dictionary, businessKey }: DeadLetter): string => `${dictionary}:${businessKey}`;

function wordsFor({ letter, step }: { letter: DeadLetter; step: 'requeue' | 'discard' }) {
  return step === 'requeue'
    ? { title: 'Send again', text: `${nameOf(letter)} is put among the waiting rows again.`, action: 'Send again' }
    : {
        title: 'Discard',
        text: `The event of ${nameOf(letter)} will be discarded permanently. The change itself stays.`,
        action: 'Discard permanently',
        danger: true,
      };
}

// Deliveries to webhook subscribers, newest first.

type Shown = Delivery['state'] | 'all';
const shownStates: readonly Shown[] = ['all', 'pending', 'retrying', 'delivered', 'rejected', 'failed'];

function Deliveries(): JSX.Element {
  const [state, setState] = useState<Shown>('all');
  const [open, setOpen] = useState<string>();
  const filter = state === 'all' ? '' : `&state=${state}`;
  const deliveries = usePaged<Delivery>(`/api/v1/admin/webhooks/deliveries?limit=50${filter}`, EVERY_MS);
  const choose = <Select label="State" value={state} options={shownStates} onChange={setState} />;
  return (
    <Section title="Webhook deliveries" actions={choose}>
      <Items of={deliveries} none="There are none.">
        {(one) => (
          <li key={one.deliveryId} data-state={one.state}>
            <button type="button" class="opens" onClick={() => setOpen(one.deliveryId)}>
              <StateBadge of={one} /> <strong>{one.subscriptionName}</strong>{' '}
              <span>
                {plural(one.events, 'event')}, {instantText(one.occurredAt)}
              </span>{' '}
              <span class="note">{progressOf(one)}</span>
            </button>
          </li>
        )}
      </Items>
      {open !== undefined && (
        <DeliveryDialog id={open} onChanged={deliveries.reload} onClose={() => setOpen(undefined)} />
      )}
    </Section>
  );
}

const looks = { delivered: 'good', rejected: 'bad', failed: 'bad', retrying: 'warn', pending: 'idle' } as const;

function StateBadge({ of: { state } }: { of: Delivery }): JSX.Element {
  return <span class={`badge ${looks[state]}`}>{state}</span>;
}

function progressOf({ attempts, nextAttemptInSeconds, lastAttempt }: Delivery): string {
  const next = nextAttemptInSeconds === null ? '' : `, next in ${durationText(nextAttemptInSeconds)}`;
  const said = lastAttempt === null || lastAttempt.message === '' ? '' : `: ${lastAttempt.message}`;
  return `${plural(attempts, 'attempt')}${next}${said}`;
}

/** One delivery: what was sent, every attempt, and sending it again. */
function DeliveryDialog(props: { id: string; onChanged: () => void; onClose: () => void }): JSX.Element {
  const { api } = useSession();
  const path = `/api/v1/admin/webhooks/deliveries/${encodeURIComponent(props.id)}`;
  const detail = useLoaded<DeliveryDetail>(path, 2_000);
  const doing = useDoing();
  const [reason, setReason] = useState('');
  const [done, setDone] = useState('');
  const resend = (): void =>
    void doing.run(async () => {
      await api.send('POST', `${path}/resend`, { body: { changeReason: reason } });
      setDone('Queued.');
      detail.reload();
      props.onChanged();
    });
  const to = detail.value?.subscriptionName;
  return (
    <Dialog title={to === undefined ? 'Delivery' : `Delivery to ${to}`} leave="Close" onClose={props.onClose}>
      <Answer of={detail}>
        {(one) => (
          <>
            <Facts
              of={[
                ['State', <StateBadge of={one} />],
                ['Id', <span class="mono">{one.deliveryId}</span>],
                ['Created', instantText(one.occurredAt)],
                ['Completed', one.endedAt === null ? 'not yet' : instantText(one.endedAt)],
                ['Events', countText(one.events)],
              ]}
            />
            <h3>Attempts</h3>
            {one.attemptList.length === 0 ? <p class="note">There was none yet.</p> : <Attempts of={one.attemptList} />}
            <h3>What is sent</h3>
            {one.body === null ? (
              <p class="note">Not for the scopes of this token, or not kept any more.</p>
            ) : (
              <Dump label="What is sent">{one.body}</Dump>
            )}
            <Form doing={doing} action="Send again" onSubmit={resend} done={done}>
              <ReasonField hint="It is kept in the audit." value={reason} onChange={setReason} />
            </Form>
          </>
        )}
      </Answer>
    </Dialog>
  );
}

function Attempts({ of }: { of: DeliveryDetail['attemptList'] }): JSX.Element {
  return (
    <ol class="items" reversed>
      {of.toReversed().map((one) => (
        <li key={one.attempt}>
          <strong>{one.statusCode ?? one.cause ?? 'no answer'}</strong>{' '}
          <span class="note">
            {instantText(one.at)}, {countText(one.elapsedMs)} ms
          </span>
          {one.message !== '' && <p>{one.message}</p>}
          {one.responseBody !== null && one.responseBody !== '' && (
            <Dump label={`Answer to attempt ${one.attempt}`}>{one.responseBody}</Dump>
          )}
        </li>
      ))}
    </ol>
  );
}
