/** Webhook subscriptions with how their deliveries ended; one of them with everything that can be done with it. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { DeliveryResults, Subscription } from '../../../shared/gen/http.ts';
import { countText, instantText, percentText } from '../../format.ts';
import { acceptedPercent } from '../../subscription.ts';
import { text } from '../../text.ts';
import { hashOf, withQuery } from '../../views.ts';
import { useLoaded, usePaged } from '../loading.ts';
import { Button, badAbove0, Done, type Fact, Facts, focusHeading, Problems, ReasonDialog, Section } from '../parts.tsx';
import { useSession } from '../session.ts';
import { type Column, Table } from '../table.tsx';
import { PingForm, RotationForm, SubscriptionForm } from './subscription-form.tsx';
import { SUBSCRIPTIONS, WEBHOOKS } from './webhooks-view.tsx';

const say = text.delivery.subscriptions;
const EVERY_MS = 5_000;
const PLACE = hashOf('delivery', 'subscriptions');

type Counts = DeliveryResults['subscriptions'][number];

export function SubscriptionList(): JSX.Element {
  const found = usePaged<Subscription>(SUBSCRIPTIONS, EVERY_MS);
  const results = useLoaded<DeliveryResults>(`${WEBHOOKS}/results`, EVERY_MS);
  const [isAdding, setAdding] = useState(false);
  const since = results.value?.since;
  return (
    <>
      <Problems of={[found, results]} />
      <div class="buttons">
        <Button text={say.add} class="main" onClick={() => setAdding(true)} />
      </div>
      <section class="card subscriptions" aria-label={say.title}>
        <Table
          of={{ ...found, problem: undefined }}
          caption={say.title}
          none={say.none}
          idOf={({ id }) => id}
          columns={columnsOf(results.value)}
        />
        {since && <p class="note">{say.since(instantText(since), countText(results.value?.deliveries))}</p>}
      </section>
      {isAdding && (
        <SubscriptionForm
          onSaved={({ id }) => {
            location.hash = hashOf('delivery', 'subscriptions', id);
          }}
          onClose={() => setAdding(false)}
        />
      )}
    </>
  );
}

const deliveriesOf = (id: string): string => withQuery(hashOf('delivery', 'webhooks'), { subscription: id });
const countsOf = (results: DeliveryResults | undefined, of: Subscription): Counts | undefined =>
  results?.subscriptions.find(({ subscription }) => subscription === of.id);

const columnsOf = (results: DeliveryResults | undefined): readonly Column<Subscription>[] => [
  {
    head: say.name,
    isName: true,
    cell: ({ id, name }) => (
      <a class="touch" href={hashOf('delivery', 'subscriptions', id)}>
        {name}
      </a>
    ),
  },
  { head: say.url, cell: ({ url }) => url },
  { head: say.state, cell: (one) => <State of={one} /> },
  { head: say.accepted, cell: (one) => rateText(countsOf(results, one)) },
  {
    head: say.review,
    isNumber: true,
    cell: (one) => {
      const counts = countsOf(results, one);
      const count = counts && counts.rejected + counts.failed;
      if (!count) return countText(count);
      return (
        <a class="touch bad" href={deliveriesOf(one.id)}>
          {countText(count)}
        </a>
      );
    },
  },
  { head: say.waiting, isNumber: true, cell: (one) => countText(countsOf(results, one)?.waiting) },
];

function rateText(counts: Counts | undefined): string {
  if (counts === undefined) return '';
  const percent = acceptedPercent(counts);
  if (percent === null) return say.noneEnded;
  return say.rate(percentText(percent), countText(counts.delivered + counts.rejected + counts.failed));
}

// Active is a setting: whether its deliveries arrive is in the column beside it.
const looks = { active: 'idle', paused: 'idle', blocked: 'bad' } as const;

function State({ of: { active, blocked } }: { of: Subscription }): JSX.Element {
  const state = blocked !== '' ? 'blocked' : active ? 'active' : 'paused';
  return (
    <>
      <span class={`badge ${looks[state]}`}>{say.states[state]}</span> {blocked}
    </>
  );
}

type Step = 'edit' | 'test' | 'rotate' | 'pause' | 'resume' | 'resend' | 'remove';

export function SubscriptionView({ id }: { id: string }): JSX.Element {
  const path = `${WEBHOOKS}/subscriptions/${encodeURIComponent(id)}`;
  const found = useLoaded<Subscription>(path, EVERY_MS);
  const results = useLoaded<DeliveryResults>(`${WEBHOOKS}/results`, EVERY_MS);
  const [step, setStep] = useState<Step>();
  const [done, setDone] = useState('');
  const onDone = (what: string, saved?: Subscription): void => {
    setStep(undefined);
    setDone(what);
    if (saved === undefined) found.reload();
    else found.put(saved);
  };
  const { value } = found;
  return (
    <>
      <p class="trail">
        <a href={PLACE}>{say.title}</a>
      </p>
      <Problems of={[found, results]} />
      <p>
        <Done>{done}</Done>
      </p>
      {value !== undefined && (
        <Section title={value.name} class="subscription">
          <Facts of={factsOf(value, countsOf(results.value, value))} />
          <p>
            <a class="touch" href={deliveriesOf(id)}>
              {say.itsDeliveries}
            </a>
          </p>
          <div class="buttons">
            {steps(value).map((one) => (
              <Button key={one} text={say[one]} onClick={() => setStep(one)} />
            ))}
          </div>
        </Section>
      )}
      {value !== undefined && step !== undefined && (
        <StepDialog step={step} of={value} path={path} onDone={onDone} onClose={() => setStep(undefined)} />
      )}
    </>
  );
}

const steps = ({ active }: Subscription): readonly Step[] => [
  'edit',
  'test',
  'rotate',
  active ? 'pause' : 'resume',
  'resend',
  'remove',
];

function factsOf(of: Subscription, counts: Counts | undefined): readonly Fact[] {
  const listed = (list: readonly string[] | null): string => list?.join(', ') ?? text.delivery.all;
  return [
    [say.state, <State of={of} />],
    [say.url, of.url],
    [say.accepted, rateText(counts)],
    ...(counts === undefined ? [] : [badAbove0(say.review, counts.rejected + counts.failed)]),
    [say.waiting, countText(counts?.waiting)],
    [say.consumer, of.consumer],
    [say.scopes, listed(of.scopes)],
    [say.dictionaries, listed(of.dictionaries)],
    [say.actions, listed(of.actions)],
    [say.categories, listed(of.categories?.map((one) => say.categoryWords[one]) ?? null)],
    [say.created, instantText(of.createdAt)],
    [say.changed, instantText(of.updatedAt)],
    [say.version, of.version],
  ];
}

function StepDialog(props: {
  step: Step;
  of: Subscription;
  path: string;
  onDone: (what: string, saved?: Subscription) => void;
  onClose: () => void;
}): JSX.Element {
  const { api } = useSession();
  const { step, of, path, onDone, onClose } = props;
  const onSaved = (saved: Subscription): void => onDone(say.saved(saved.version), saved);
  const { version: ifMatch, name } = of;
  const setActive = async (active: boolean, changeReason: string): Promise<void> => {
    const saved = await api.send<Subscription>('PATCH', path, { body: { active, changeReason }, ifMatch });
    if (saved !== undefined) onSaved(saved);
  };
  switch (step) {
    case 'edit':
      return <SubscriptionForm before={of} onSaved={onSaved} onClose={onClose} />;
    case 'test':
      return <PingForm url={of.url} onClose={onClose} />;
    case 'rotate':
      return <RotationForm of={of} onSaved={(saved) => onDone(say.rotated, saved)} onClose={onClose} />;
    case 'pause':
      return (
        <ReasonDialog
          title={say.pauseTitle}
          text={say.pauseText(name)}
          action={say.pauseTitle}
          run={(reason) => setActive(false, reason)}
          onClose={onClose}
        />
      );
    case 'resume':
      return (
        <ReasonDialog
          title={say.resumeTitle}
          text={say.resumeText(name)}
          action={say.resumeTitle}
          run={(reason) => setActive(true, reason)}
          onClose={onClose}
        />
      );
    case 'resend':
      return (
        <ReasonDialog
          title={say.resendTitle}
          text={say.resendText(name)}
          action={say.resendTitle}
          run={async (changeReason) => {
            const answer = await api.send<{ deliveries: number }>('POST', `${path}/resend`, { body: { changeReason } });
            onDone(say.resent(answer?.deliveries ?? 0));
          }}
          onClose={onClose}
        />
      );
    case 'remove':
      return (
        <ReasonDialog
          title={say.removeTitle}
          text={say.removeText(name)}
          action={say.remove1}
          danger
          run={async (changeReason) => {
            await api.send('DELETE', path, { changeReason, ifMatch });
            location.hash = PLACE;
            queueMicrotask(focusHeading);
          }}
          onClose={onClose}
        />
      );
  }
}
