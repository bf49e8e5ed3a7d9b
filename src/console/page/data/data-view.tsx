/** Reference data: dictionaries, the records of one, one record with its history; for writers, a new version and its end. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { Dictionary, Record as RefRecord } from '../../../shared/gen/http.ts';
import { instantText, objectFault, recordBody } from '../../format.ts';
import { hashOf } from '../../views.ts';
import { useDoing, usePaged } from '../loading.ts';
import {
  Button,
  Dialog,
  Done,
  Dump,
  Field,
  Form,
  focusHeading,
  Heading,
  Items,
  ReasonDialog,
  ReasonField,
  Section,
  TextField,
} from '../parts.tsx';
import { useSession } from '../session.ts';

export function DataView({ parts: [dictionary, key] }: { parts: readonly string[] }): JSX.Element {
  if (dictionary === undefined) return <Dictionaries />;
  // A view of its own for each: nothing of the one before stays.
  if (key === undefined) return <RecordList key={dictionary} dictionary={dictionary} />;
  return <RecordView key={`${dictionary}/${key}`} dictionary={dictionary} businessKey={key} />;
}

function pathOf(dictionary: string, businessKey?: string): string {
  const path = `/api/v1/dictionaries/${encodeURIComponent(dictionary)}/records`;
  return businessKey === undefined ? path : `${path}/${encodeURIComponent(businessKey)}`;
}

function Dictionaries(): JSX.Element {
  const found = usePaged<Dictionary>('/api/v1/dictionaries?limit=100', 0);
  return (
    <>
      <Heading>Data</Heading>
      <section class="card" aria-label="Dictionaries">
        <Items of={found} none="There are none, or none that the scopes of this token open.">
          {(one) => (
            <li key={one.name}>
              <a class="opens" href={hashOf('data', one.name)}>
                <strong>{one.title}</strong> <span class="mono">{one.name}</span>{' '}
                <span class="note">
                  {one.scope}, version {one.version} of {instantText(one.updatedAt)}
                </span>
              </a>
            </li>
          )}
        </Items>
      </section>
    </>
  );
}

// The records of a dictionary that are valid now.

function RecordList({ dictionary }: { dictionary: string }): JSX.Element {
  const { rights } = useSession();
  const [making, setMaking] = useState(false);
  const found = usePaged<RefRecord>(`${pathOf(dictionary)}?limit=100`, 0);
  return (
    <>
      <p class="trail">
        <a href={hashOf('data')}>Data</a>
      </p>
      <Heading>{dictionary}</Heading>
      {rights.writes && (
        <div class="buttons">
          <Button text="New record…" class="main" onClick={() => setMaking(true)} />
        </div>
      )}
      <KeyForm dictionary={dictionary} />
      <section class="card" aria-label="Records">
        <Items of={found} none="There are none.">
          {(one) => (
            <li key={one.businessKey}>
              <a class="opens" href={hashOf('data', dictionary, one.businessKey)}>
                <strong>{one.businessKey}</strong> <span class="mono cut">{JSON.stringify(one.data)}</span>
              </a>
            </li>
          )}
        </Items>
      </section>
      {making && (
        <RecordForm
          dictionary={dictionary}
          onSaved={(made) => {
            location.hash = hashOf('data', dictionary, made.businessKey);
          }}
          onClose={() => setMaking(false)}
        />
      )}
    </>
  );
}

/** A dictionary may have a hundred thousand records: a user who knows the key need not search for it. */
function KeyForm({ dictionary }: { dictionary: string }): JSX.Element {
  const [key, setKey] = useState('');
  const submit = (event: Event): void => {
    event.preventDefault();
    if (key !== '') location.hash = hashOf('data', dictionary, key);
  };
  return (
    <form class="card row" onSubmit={submit}>
      <TextField label="Business key" value={key} onChange={setKey} />
      <button type="submit">Show</button>
    </form>
  );
}

// One record.

function RecordView({ dictionary, businessKey }: { dictionary: string; businessKey: string }): JSX.Element {
  const { api, rights } = useSession();
  const [doing, setDoing] = useState<'change' | 'close'>();
  const [done, setDone] = useState('');
  const path = pathOf(dictionary, businessKey);
  const history = usePaged<RefRecord>(`${path}/history?limit=50`, 0);
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
      <p>
        <Done>{done}</Done>
      </p>
      {newest !== undefined && (
        <Section title={isOpen ? `Version ${newest.version}` : `Closed with version ${newest.version}`}>
          <Version of={newest} />
          {rights.writes && isOpen && (
            <div class="buttons">
              <Button text="Change…" class="main" onClick={() => setDoing('change')} />
              <Button text="Close record…" onClick={() => setDoing('close')} />
            </div>
          )}
        </Section>
      )}
      <Section title="History" class="history">
        <Items of={{ ...history, items: history.items?.slice(1) }} none="There is no earlier version.">
          {(one) => (
            <li key={one.version}>
              <h3>Version {one.version}</h3>
              <Version of={one} />
            </li>
          )}
        </Items>
      </Section>
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

function Version({ of }: { of: RefRecord }): JSX.Element {
  const until = of.validTo.startsWith('9999-') ? '' : ` to ${instantText(of.validTo)}`;
  return (
    <>
      <p>
        {of.action} by <strong>{of.changedBy}</strong> <span class="note">{instantText(of.txTime)}</span>
        {of.changeReason !== '' && `: ${of.changeReason}`}
      </p>
      <p class="note">
        valid from {instantText(of.validFrom)}
        {until}
      </p>
      <Dump label={`Data of version ${of.version}`}>{JSON.stringify(of.data, undefined, 2)}</Dump>
    </>
  );
}

function RecordForm(props: {
  dictionary: string;
  /** undefined: a new one. */
  before?: RefRecord;
  onSaved: (record: RefRecord) => void;
  onClose: () => void;
}): JSX.Element {
  const { api } = useSession();
  const { before, dictionary } = props;
  const [key, setKey] = useState('');
  const [atFirst] = useState(before === undefined ? '{\n  \n}' : JSON.stringify(before.data, undefined, 2));
  const [data, setData] = useState(atFirst);
  const [reason, setReason] = useState('');
  const [tried, setTried] = useState(false);
  const doing = useDoing();
  const fault = objectFault(data);
  const submit = (): void => {
    setTried(true);
    if (fault !== '') return;
    void doing.run(async () => {
      const made = { body: recordBody({ businessKey: key, changeReason: reason }, data) };
      const changed = { body: recordBody({ changeReason: reason }, data), ifMatch: before?.version };
      const saved =
        before === undefined
          ? await api.send<RefRecord>('POST', pathOf(dictionary), made)
          : await api.send<RefRecord>('PUT', pathOf(dictionary, before.businessKey), changed);
      if (saved !== undefined) props.onSaved(saved);
    });
  };
  return (
    <Dialog
      title={before === undefined ? 'New record' : `Change ${before.businessKey}`}
      typed={key !== '' || reason !== '' || data !== atFirst}
      onClose={props.onClose}
    >
      <Form doing={doing} action="Save" acting="Saving…" onSubmit={submit}>
        {before === undefined && <TextField label="Business key" value={key} onChange={setKey} />}
        <Field label="Data" hint="A JSON object" fault={tried && fault !== '' ? fault : undefined}>
          {(attributes) => (
            <textarea
              {...attributes}
              class="mono"
              rows={8}
              autoCapitalize="off"
              spellcheck={false}
              value={data}
              onInput={(event) => setData(event.currentTarget.value)}
            />
          )}
        </Field>
        <ReasonField hint="It is kept with the version." value={reason} onChange={setReason} />
      </Form>
    </Dialog>
  );
}
