/** One record with its history; for writers, a new version of it, and its end. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { instantText } from '../format.ts';
import { hashOf } from '../places.ts';
import type { Page, RefRecord } from '../shapes.ts';
import { type Paged, usePaged } from './loading.ts';
import { focusHeading, Heading, ListEnd, ProblemBox, Section } from './parts.tsx';
import { ReasonDialog } from './reason-dialog.tsx';
import { RecordForm } from './record-form.tsx';
import { useSession } from './session.ts';

export function RecordView({ dictionary, businessKey }: { dictionary: string; businessKey: string }): JSX.Element {
  const { api, rights } = useSession();
  const [doing, setDoing] = useState<'change' | 'close'>();
  const [done, setDone] = useState('');
  const path = `/api/v1/dictionaries/${encodeURIComponent(dictionary)}/records/${encodeURIComponent(businessKey)}`;
  const history = usePaged<RefRecord>(path, 0, (cursor, signal) =>
    api.get<Page<RefRecord>>(
      `${path}/history?limit=50${cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`}`,
      signal,
    ),
  );
  const newest = history.items?.[0];
  const isOpen = newest !== undefined && newest.action !== 'closed';
  const close = async (changeReason: string): Promise<void> => {
    if (newest === undefined) return;
    await api.send('POST', `${path}/close`, { body: { changeReason }, ifMatch: newest.version });
    setDone('The record is closed.');
    history.reload();
    queueMicrotask(focusHeading);
  };
  return (
    <>
      <p class="trail">
        <a href={hashOf('data')}>Data</a> <a href={hashOf('data', dictionary)}>{dictionary}</a>
      </p>
      <Heading>{businessKey}</Heading>
      <ProblemBox problem={history.problem} />
      <p role="status" class="good">
        {done}
      </p>
      {newest !== undefined && (
        <Section title={isOpen ? `Version ${newest.version}` : `Closed with version ${newest.version}`}>
          <Version of={newest} />
          {rights.writes && isOpen && (
            <div class="buttons">
              <button type="button" class="main" onClick={() => setDoing('change')}>
                Change…
              </button>
              <button type="button" onClick={() => setDoing('close')}>
                Close record…
              </button>
            </div>
          )}
        </Section>
      )}
      <Earlier history={history} />
      {doing === 'change' && newest !== undefined && (
        <RecordForm
          dictionary={dictionary}
          before={newest}
          onSaved={(made) => {
            setDoing(undefined);
            setDone(`Version ${made.version} is saved.`);
            history.reload();
          }}
          onClose={() => setDoing(undefined)}
        />
      )}
      {doing === 'close' && (
        <ReasonDialog
          title="Close the record"
          text={`${businessKey} ends now. Its history stays, and its key can be opened again.`}
          action="Close the record"
          danger
          run={close}
          onClose={() => setDoing(undefined)}
        />
      )}
    </>
  );
}

function Earlier({ history }: { history: Paged<RefRecord> }): JSX.Element {
  const earlier = history.items?.slice(1);
  return (
    <Section title="History" class="history">
      <ol class="items">
        {earlier?.map((one) => (
          <li key={one.version}>
            <h3>Version {one.version}</h3>
            <Version of={one} />
          </li>
        ))}
      </ol>
      <ListEnd
        count={earlier?.length}
        hasMore={history.hasMore}
        onMore={history.more}
        none="There is no earlier version."
      />
    </Section>
  );
}

function Version({ of }: { of: RefRecord }): JSX.Element {
  return (
    <>
      <p>
        {of.action} by <strong>{of.changedBy}</strong> <span class="note">{instantText(of.txTime)}</span>
        {of.changeReason !== '' && `: ${of.changeReason}`}
      </p>
      <p class="note">
        valid from {instantText(of.validFrom)} {of.validTo.startsWith('9999-') ? 'on' : `to ${instantText(of.validTo)}`}
      </p>
      <pre class="dump wraps" tabIndex={0} aria-label={`Data of version ${of.version}`}>
        {JSON.stringify(of.data, undefined, 2)}
      </pre>
    </>
  );
}
