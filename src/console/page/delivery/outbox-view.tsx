/** Why an event is not published yet: the waiting events with their reasons, and the dead letters. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { parseInstant, usOfInstant } from '../../../shared/base/instant.ts';
import type { DeadLetter, OutboxStatus, WaitingEvent } from '../../../shared/gen/http.ts';
import { countText, durationText, instantText } from '../../format.ts';
import { text } from '../../text.ts';
import { hashOf, withQuery } from '../../views.ts';
import { useFilter } from '../address.ts';
import { type Paged, useLoaded, usePaged } from '../loading.ts';
import { Answer, Button, badAbove0, Facts, Problems, Section, TextField } from '../parts.tsx';
import { useSession } from '../session.ts';
import { type Column, Table } from '../table.tsx';
import { type Bulk, BulkDialog } from './bulk-dialog.tsx';

const say = text.delivery.outbox;
const EVERY_MS = 5_000;
const OUTBOX = '/api/v1/admin/outbox';
const PLACE = hashOf('delivery', 'outbox');

export function OutboxView(): JSX.Element {
  const { typed, settled, change } = useFilter(PLACE, ['dictionary', 'businessKey']);
  const status = useLoaded<OutboxStatus>(OUTBOX, EVERY_MS);
  const query = { limit: '100', ...settled };
  const waiting = usePaged<WaitingEvent>(withQuery(`${OUTBOX}/waiting`, query), EVERY_MS);
  const letters = usePaged<DeadLetter>(withQuery(`${OUTBOX}/dead-letters`, query), EVERY_MS);
  const isFiltered = settled.dictionary !== '' || settled.businessKey !== '';
  return (
    <>
      <Problems of={[status, waiting, letters]} />
      <Section title={say.state} class="state">
        <Answer of={{ ...status, problem: undefined }}>{(value) => <State of={value} />}</Answer>
      </Section>
      <search class="card row" aria-label={say.filter}>
        <TextField
          label={say.dictionary}
          hint={say.filterHint}
          value={typed.dictionary}
          input={{ maxLength: 128 }}
          onChange={(dictionary) => change({ dictionary })}
        />
        <TextField
          label={say.businessKey}
          hint={say.keyHint}
          value={typed.businessKey}
          input={{ maxLength: 256 }}
          onChange={(businessKey) => change({ businessKey })}
        />
      </search>
      <Section title={say.waiting} class="waiting">
        <Table
          of={{ ...waiting, problem: undefined }}
          caption={say.waiting}
          columns={waitingColumns(status.value?.oldest)}
          idOf={idOf}
          none={isFiltered ? say.noneWaitingOf : say.noneWaiting}
        />
      </Section>
      <DeadLetters of={letters} />
    </>
  );
}

function State({ of }: { of: OutboxStatus }): JSX.Element {
  return (
    <>
      <Facts
        of={[
          [say.broker, brokerText(of), of.broker.configured && !of.broker.connected ? 'bad' : undefined],
          [say.waitingCount, countText(of.waiting)],
          [say.oldest, of.oldest === undefined ? text.delivery.none : say.old(durationText(of.oldest.ageSeconds))],
          [say.inFlight, countText(of.inFlight)],
          [say.published, countText(of.publishedTotal)],
          badAbove0(say.deadCount, of.deadLetters),
          badAbove0(say.blockedCount, of.blockedKeyCount),
        ]}
      />
      {of.blockedKeys.length > 0 && <BlockedKeys keys={of.blockedKeys} />}
    </>
  );
}

function brokerText({ broker }: OutboxStatus): string {
  if (!broker.configured) return say.noBroker;
  return broker.connected ? say.connected : say.unreachable(durationText(broker.forSeconds), broker.reason);
}

/** Each leads to the waiting events of its record. */
function BlockedKeys({ keys }: { keys: OutboxStatus['blockedKeys'] }): JSX.Element {
  return (
    <ul class="items">
      {keys.map(({ topic, key, reason, attempts, nextAttemptInSeconds }) => {
        // No name of a dictionary has a colon.
        const [dictionary = '', ...rest] = key.split(':');
        return (
          <li key={`${topic} ${key}`}>
            <a class="touch" href={withQuery(PLACE, { dictionary, businessKey: rest.join(':') })}>
              {key}
            </a>
            <p>{say.blocked(reason, say.refusals(attempts), durationText(nextAttemptInSeconds))}</p>
          </li>
        );
      })}
    </ul>
  );
}

const idOf = ({ id }: { readonly id: number }): string => String(id);
const nameOf = ({ dictionary, businessKey }: Pick<DeadLetter, 'dictionary' | 'businessKey'>): string =>
  `${dictionary}:${businessKey}`;

const record: Column<WaitingEvent | DeadLetter> = {
  head: say.record,
  isName: true,
  cell: (event) => (
    <a class="touch" href={hashOf('data', event.dictionary, event.businessKey)}>
      {nameOf(event)}
    </a>
  ),
};
const action: Column<WaitingEvent | DeadLetter> = { head: say.change, cell: (event) => event.action };
const number: Column<WaitingEvent | DeadLetter> = { head: say.event, isNumber: true, cell: ({ id }) => id };

function waitingColumns(oldest: OutboxStatus['oldest']): readonly Column<WaitingEvent>[] {
  return [
    record,
    number,
    action,
    { head: say.age, cell: ({ txTime }) => ageText(txTime, oldest) },
    { head: say.waitsFor, cell: ({ waitsFor }) => say.waitsForWords[waitsFor] },
    {
      head: say.reason,
      cell: ({ reason, nextAttemptInSeconds: next }) =>
        next === null ? reason : say.nextIn(reason, durationText(next)),
    },
  ];
}

/** By the clock of the box, which says how old the oldest one is: the browser's may differ. */
function ageText(txTime: string, oldest: OutboxStatus['oldest']): string {
  const [at, oldestAt] = [txTime, oldest?.txTime ?? ''].map(parseInstant);
  if (oldest === undefined || at === undefined || oldestAt === undefined) return instantText(txTime);
  return durationText(oldest.ageSeconds - Number(usOfInstant(at) - usOfInstant(oldestAt)) / 1e6);
}

// Events that cannot be published: to be sent again, or discarded.

const letterColumns: readonly Column<DeadLetter>[] = [
  record,
  number,
  action,
  { head: say.diedAt, cell: ({ diedAt }) => instantText(diedAt) },
  { head: say.attempts, isNumber: true, cell: ({ attempts }) => countText(attempts) },
  { head: say.reason, cell: ({ reason }) => reason },
];

function DeadLetters({ of }: { of: Paged<DeadLetter> }): JSX.Element {
  const { api } = useSession();
  const [selected, select] = useState<ReadonlySet<string>>(new Set());
  const [asked, ask] = useState<Bulk<DeadLetter>>();
  const step =
    (name: 'requeue' | 'discard') =>
    ({ id }: DeadLetter, changeReason: string): Promise<unknown> =>
      api.send('POST', `${OUTBOX}/dead-letters/${id}/${name}`, { body: { changeReason } });
  const requeue = (items: readonly DeadLetter[]): Bulk<DeadLetter> => ({
    items,
    title: say.requeueTitle,
    text: say.requeueText(items.length),
    action: text.delivery.sendAgain,
    each: step('requeue'),
    summary: text.delivery.bulk.queued,
  });
  const discard = (items: readonly DeadLetter[]): Bulk<DeadLetter> => ({
    items,
    title: say.discardTitle,
    text: say.discardText(items.length),
    action: say.discard,
    danger: true,
    each: step('discard'),
    summary: text.delivery.bulk.discarded,
  });
  const actions = (items: readonly DeadLetter[]): JSX.Element => (
    <div class="buttons">
      <Button text={text.delivery.sendAgainOf(items.length)} onClick={() => ask(requeue(items))} />
      <Button text={say.discardOf(items.length)} onClick={() => ask(discard(items))} />
    </div>
  );
  return (
    <Section title={say.dead} class="dead">
      <p class="note">{say.aboutDead}</p>
      <Table
        of={{ ...of, problem: undefined }}
        caption={say.dead}
        none={say.noneDead}
        idOf={idOf}
        columns={letterColumns}
        selection={{ ids: selected, onChange: select, nameOf, actions }}
      />
      {asked !== undefined && (
        <BulkDialog
          of={asked}
          nameOf={nameOf}
          onDone={() => {
            select(new Set());
            of.reload();
          }}
          onClose={() => ask(undefined)}
        />
      )}
    </Section>
  );
}
