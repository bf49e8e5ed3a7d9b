/** Deliveries to webhook subscribers, newest first: found by state, subscription and answer, read, and sent again. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { Delivery, DeliveryDetail, Subscription, WebhookStatus } from '../../../shared/gen/http.ts';
import { countText, durationText, instantText } from '../../format.ts';
import { text } from '../../text.ts';
import { hashOf, withQuery } from '../../views.ts';
import { useFilter } from '../address.ts';
import { type Paged, useDoing, useLoaded, usePaged } from '../loading.ts';
import {
  Answer,
  Button,
  badAbove0,
  Dialog,
  Dump,
  type Fact,
  Facts,
  Form,
  Problems,
  ReasonField,
  Section,
  Select,
  TextField,
} from '../parts.tsx';
import { useSession } from '../session.ts';
import { type Column, Table } from '../table.tsx';
import { type Bulk, BulkDialog } from './bulk-dialog.tsx';

const say = text.delivery.webhooks;
const EVERY_MS = 5_000;
export const WEBHOOKS = '/api/v1/admin/webhooks';
const PLACE = hashOf('delivery', 'webhooks');
const states = ['pending', 'retrying', 'delivered', 'rejected', 'failed'] as const satisfies Delivery['state'][];
/** A box has at most 200. */
export const SUBSCRIPTIONS = `${WEBHOOKS}/subscriptions?limit=200`;

export function WebhooksView(): JSX.Element {
  const { typed, settled, change } = useFilter(PLACE, ['state', 'subscription', 'statusCode']);
  const status = useLoaded<WebhookStatus>(`${WEBHOOKS}/status`, EVERY_MS);
  const subscriptions = useLoaded<{ readonly items: readonly Subscription[] }>(SUBSCRIPTIONS, EVERY_MS);
  const statusCode = statusFault(settled.statusCode) === '' ? settled.statusCode : '';
  const query = { limit: '50', ...settled, statusCode };
  const deliveries = usePaged<Delivery>(withQuery(`${WEBHOOKS}/deliveries`, query), EVERY_MS);
  const isFiltered = Object.values(settled).some((value) => value !== '');
  const named = (subscriptions.value?.items ?? []).map(({ id, name }) => [id, name] as const);
  return (
    <>
      <Problems of={[status, subscriptions, deliveries]} />
      <Section title={say.state} class="state">
        <Answer of={{ ...status, problem: undefined }}>{(value) => <Facts of={stateFacts(value)} />}</Answer>
      </Section>
      <search class="card row" aria-label={say.filter}>
        <Select
          label={text.delivery.state}
          value={typed.state}
          options={[['', text.delivery.all], ...states]}
          onChange={(state) => change({ state })}
        />
        <Select
          label={say.subscription}
          value={typed.subscription}
          options={[['', text.delivery.all], ...named]}
          onChange={(subscription) => change({ subscription })}
        />
        <TextField
          label={say.statusCode}
          fault={statusFault(typed.statusCode)}
          value={typed.statusCode}
          input={{ maxLength: 3, inputMode: 'numeric' }}
          onChange={(typedCode) => change({ statusCode: typedCode })}
        />
      </search>
      <Deliveries of={deliveries} none={isFiltered ? say.noSuchDelivery : say.noDelivery} />
    </>
  );
}

function Deliveries({ of, none }: { of: Paged<Delivery>; none: string }): JSX.Element {
  const { api } = useSession();
  const [selected, select] = useState<ReadonlySet<string>>(new Set());
  const [open, setOpen] = useState<string>();
  const [asked, ask] = useState<Bulk<Delivery>>();
  const resend = (items: readonly Delivery[]): Bulk<Delivery> => ({
    items,
    title: text.delivery.sendAgain,
    text: say.resendText(items.length),
    action: text.delivery.sendAgain,
    each: ({ deliveryId }, changeReason) =>
      api.send('POST', `${pathOf(deliveryId)}/resend`, { body: { changeReason } }),
    summary: text.delivery.bulk.queued,
  });
  const actions = (items: readonly Delivery[]): JSX.Element => (
    <Button text={text.delivery.sendAgainOf(items.length)} onClick={() => ask(resend(items))} />
  );
  const onDone = (): void => {
    select(new Set());
    of.reload();
  };
  return (
    <Section title={say.deliveries} class="deliveries">
      <Table
        of={{ ...of, problem: undefined }}
        caption={say.deliveries}
        none={none}
        idOf={({ deliveryId }) => deliveryId}
        columns={columnsOf(setOpen)}
        selection={{ ids: selected, onChange: select, nameOf, actions }}
      />
      {asked !== undefined && <BulkDialog of={asked} nameOf={nameOf} onDone={onDone} onClose={() => ask(undefined)} />}
      {open !== undefined && <DeliveryDialog id={open} onChanged={of.reload} onClose={() => setOpen(undefined)} />}
    </Section>
  );
}

/** '' if it is one, or none was typed. */
function statusFault(typed: string): string {
  return typed === '' || /^[1-5]\d\d$/.test(typed) ? '' : say.statusCodeFault(typed);
}

const pathOf = (deliveryId: string): string => `${WEBHOOKS}/deliveries/${encodeURIComponent(deliveryId)}`;

function stateFacts(of: WebhookStatus): readonly Fact[] {
  return [
    [say.subscriptions, say.activeOf(countText(of.activeSubscriptions), countText(of.subscriptions))],
    badAbove0(say.blocked, of.blockedSubscriptions),
    [say.waiting, countText(of.waiting)],
    [say.overdue, of.oldestDueSeconds > 0 ? durationText(of.oldestDueSeconds) : text.delivery.none],
    badAbove0(say.rejected, of.rejected),
    badAbove0(say.failed, of.failed),
    [say.delivered, countText(of.deliveredTotal)],
    of.offline ? [text.delivery.network, say.offline, 'bad'] : [text.delivery.network, say.online],
  ];
}

const nameOf = ({ subscriptionName, occurredAt }: Delivery): string => `${subscriptionName} ${instantText(occurredAt)}`;

const columnsOf = (open: (id: string) => void): readonly Column<Delivery>[] => [
  {
    head: say.delivery,
    isName: true,
    cell: (one) => <Button text={nameOf(one)} class="quiet" onClick={() => open(one.deliveryId)} />,
  },
  { head: text.delivery.state, cell: (one) => <StateBadge of={one} /> },
  { head: say.lastAnswer, cell: ({ lastAttempt }) => lastAttempt && answerText(lastAttempt) },
  { head: say.record, cell: (one) => <RecordOf of={one} /> },
  {
    head: say.event,
    cell: ({ firstEvent: first }) => first?.action ?? first?.eventType.replaceAll(/\B[A-Z]/g, ' $&').toLowerCase(),
  },
  { head: say.attempts, isNumber: true, cell: ({ attempts }) => countText(attempts) },
  { head: say.next, cell: ({ nextAttemptInSeconds: next }) => next !== null && say.nextIn(durationText(next)) },
];

/** The record, dictionary or draft of its first event, and how many more events it has. */
function RecordOf({ of: { firstEvent: first, events } }: { of: Delivery }): JSX.Element {
  if (first === null) return <>{say.eventsOf(events)}</>;
  const { dictionary, businessKey } = first;
  const place = businessKey === null ? [dictionary] : [dictionary, businessKey];
  return (
    <>
      <a class="touch" href={hashOf('data', ...place)}>
        {place.join(':')}
      </a>
      {events > 1 && ` ${say.more(events - 1)}`}
    </>
  );
}

type Attempt = DeliveryDetail['attemptList'][number];

const resultOf = ({ statusCode, cause }: Attempt): string => String(statusCode ?? cause ?? say.noAnswer);

function answerText(attempt: Attempt): string {
  const { message } = attempt;
  const result = resultOf(attempt);
  if (message === '') return result;
  return message.includes(result) ? message : `${result}: ${message}`;
}

const looks = { delivered: 'good', rejected: 'bad', failed: 'bad', retrying: 'warn', pending: 'idle' } as const;

function StateBadge({ of: { state } }: { of: Delivery }): JSX.Element {
  return <span class={`badge ${looks[state]}`}>{state}</span>;
}

/** One delivery: what was sent, every attempt, and sending it again. */
function DeliveryDialog(props: { id: string; onChanged: () => void; onClose: () => void }): JSX.Element {
  const { api } = useSession();
  const path = pathOf(props.id);
  const detail = useLoaded<DeliveryDetail>(path, 2_000);
  const doing = useDoing();
  const [reason, setReason] = useState('');
  const [done, setDone] = useState('');
  const resend = (): void =>
    void doing.run(async () => {
      await api.send('POST', `${path}/resend`, { body: { changeReason: reason } });
      setReason('');
      setDone(say.queued);
      detail.reload();
      props.onChanged();
    });
  const to = detail.value?.subscriptionName;
  return (
    <Dialog
      title={to === undefined ? say.delivery : say.to(to)}
      leave={text.parts.close}
      typed={reason !== ''}
      onClose={props.onClose}
    >
      <Answer of={detail}>
        {(one) => (
          <>
            <Facts
              of={[
                [text.delivery.state, <StateBadge of={one} />],
                [say.id, <span class="mono">{one.deliveryId}</span>],
                [say.created, instantText(one.occurredAt)],
                [say.completed, one.endedAt === null ? say.notYet : instantText(one.endedAt)],
                [say.record, <RecordOf of={one} />],
                ...eventFacts(one),
              ]}
            />
            <h3>{say.attempts}</h3>
            {one.attemptList.length === 0 ? <p class="note">{say.noAttempt}</p> : <Attempts of={one.attemptList} />}
            <h3>{say.body}</h3>
            {one.body === null ? <p class="note">{say.noBody}</p> : <Dump label={say.body}>{one.body}</Dump>}
            <Form doing={doing} action={text.delivery.sendAgain} onSubmit={resend} done={done}>
              <ReasonField hint={text.delivery.reasonHint} value={reason} onChange={setReason} />
            </Form>
          </>
        )}
      </Answer>
    </Dialog>
  );
}

function eventFacts({ firstEvent: first }: Delivery): readonly Fact[] {
  if (first === null) return [];
  const { eventType, action } = first;
  return [[say.event, action === null ? eventType : say.typed(eventType, action)]];
}

function Attempts({ of }: { of: DeliveryDetail['attemptList'] }): JSX.Element {
  return (
    <ol class="items" reversed>
      {of.toReversed().map((one) => (
        <li key={one.attempt}>
          <strong>{resultOf(one)}</strong>{' '}
          <span class="note">{say.took(instantText(one.at), countText(one.elapsedMs))}</span>
          {one.message !== '' && <p>{one.message}</p>}
          {one.responseBody !== null && one.responseBody !== '' && (
            <Dump label={say.answerTo(one.attempt)}>{one.responseBody}</Dump>
          )}
        </li>
      ))}
    </ol>
  );
}
