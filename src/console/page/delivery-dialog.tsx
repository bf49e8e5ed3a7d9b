/** One delivery: what was sent, every attempt, and sending it again. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { countText, instantText } from '../format.ts';
import type { Attempt, DeliveryDetail } from '../shapes.ts';
import { lookOf } from './delivery-look.ts';
import { useDoing, useLoaded } from './loading.ts';
import { Dialog, Facts, Field, ProblemBox } from './parts.tsx';
import { useSession } from './session.ts';

const EVERY_MS = 2_000;

export function DeliveryDialog(props: { id: string; onChanged: () => void; onClose: () => void }): JSX.Element {
  const { api } = useSession();
  const path = `/api/v1/admin/webhooks/deliveries/${encodeURIComponent(props.id)}`;
  const detail = useLoaded(path, EVERY_MS, (signal) => api.get<DeliveryDetail>(path, signal));
  const doing = useDoing();
  const [reason, setReason] = useState('');
  const [done, setDone] = useState('');
  const one = detail.value;
  const resend = (event: Event): void => {
    event.preventDefault();
    void doing.run(async () => {
      await api.send('POST', `${path}/resend`, { body: { changeReason: reason } });
      setDone('Queued.');
      detail.reload();
      props.onChanged();
    });
  };
  return (
    <Dialog
      title={one === undefined ? 'Delivery' : `Delivery to ${one.subscriptionName}`}
      leave="Close"
      onClose={props.onClose}
    >
      <ProblemBox problem={detail.problem} />
      {one === undefined && detail.problem === undefined && <p class="note">Loading…</p>}
      {one !== undefined && (
        <>
          <Facts
            of={[
              ['State', <span class={`badge ${lookOf(one.state)}`}>{one.state}</span>],
              ['Id', <span class="mono">{one.deliveryId}</span>],
              ['Made', instantText(one.occurredAt)],
              ['Ended', one.endedAt === null ? 'not yet' : instantText(one.endedAt)],
              ['Events', countText(one.events)],
            ]}
          />
          <h3>Attempts</h3>
          {one.attemptList.length === 0 ? <p class="note">There was none yet.</p> : <Attempts of={one.attemptList} />}
          <h3>What is sent</h3>
          {one.body === null ? (
            <p class="note">Not for the scopes of this token, or not kept any more.</p>
          ) : (
            <pre class="dump wraps" tabIndex={0} aria-label="What is sent">
              {one.body}
            </pre>
          )}
          <form onSubmit={resend}>
            <ProblemBox problem={doing.problem} />
            <Field label="Reason" hint="It is kept in the audit.">
              {(attributes) => (
                <input
                  {...attributes}
                  autoComplete="off"
                  value={reason}
                  onInput={(event) => setReason(event.currentTarget.value)}
                />
              )}
            </Field>
            <div class="row">
              <button type="submit" class="main" disabled={doing.busy}>
                Send again
              </button>
              <span role="status" class="good">
                {done}
              </span>
            </div>
          </form>
        </>
      )}
    </Dialog>
  );
}

function Attempts({ of }: { of: readonly Attempt[] }): JSX.Element {
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
            <pre class="dump wraps" tabIndex={0} aria-label={`Answer to attempt ${one.attempt}`}>
              {one.responseBody}
            </pre>
          )}
        </li>
      ))}
    </ol>
  );
}
