/** One record: its newest version, its history; for writers, a new version and its end. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { Record as RefRecord } from '../../../shared/gen/http.ts';
import { pathOf, validityText } from '../../data/record.ts';
import { instantText } from '../../format.ts';
import { text } from '../../text.ts';
import { hashOf, withQuery } from '../../views.ts';
import { usePaged } from '../loading.ts';
import { Button, Done, Dump, focusHeading, Heading, Items, ReasonDialog, Section } from '../parts.tsx';
import { useSession } from '../session.ts';
import { RecordForm, recordFormId } from './record-form.tsx';
import { UnsavedNote } from './unsaved-text.tsx';

const say = text.data;

export function RecordView({ dictionary, businessKey }: { dictionary: string; businessKey: string }): JSX.Element {
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
    setDone(say.isClosed);
    history.reload();
    queueMicrotask(focusHeading);
  };
  return (
    <>
      <p class="trail">
        <a href={hashOf('data')}>{say.title}</a> <a href={hashOf('data', dictionary)}>{dictionary}</a>
      </p>
      <Heading>{businessKey}</Heading>
      <p>
        <Done>{done}</Done>
      </p>
      {rights.sections.includes('delivery') && (
        <p>
          <a class="touch" href={withQuery(hashOf('delivery', 'outbox'), { dictionary, businessKey })}>
            {text.delivery.outbox.ofRecord}
          </a>
        </p>
      )}
      {newest !== undefined && (
        <Section title={isOpen ? say.openVersion(newest.version) : say.closedVersion(newest.version)}>
          <Version of={newest} />
          {rights.writes && isOpen && (
            <div class="buttons">
              <Button text={say.change} class="main" onClick={() => setDoing('change')} />
              <Button text={say.close} onClick={() => setDoing('close')} />
            </div>
          )}
          {doing !== 'change' && (
            <UnsavedNote id={recordFormId(dictionary, businessKey)} resume={() => setDoing('change')} />
          )}
        </Section>
      )}
      <Section title={say.history} class="history">
        <Items of={{ ...history, items: history.items?.slice(1) }} none={say.noHistory}>
          {(one) => (
            <li key={one.version}>
              <h3>{say.openVersion(one.version)}</h3>
              <Version of={one} next={history.items?.find(({ version }) => version === one.version + 1)} />
            </li>
          )}
        </Items>
      </Section>
      {doing === 'change' && newest !== undefined && (
        <RecordForm
          dictionary={dictionary}
          versions={history.items ?? []}
          onSaved={(made) => {
            setDoing(undefined);
            setDone(say.saved(made.version));
            history.reload();
          }}
          onClose={() => setDoing(undefined)}
        />
      )}
      {doing === 'close' && (
        <ReasonDialog
          title={say.closeTitle}
          text={say.closeText(businessKey)}
          action={say.closeTitle}
          danger
          run={close}
          onClose={() => setDoing(undefined)}
        />
      )}
    </>
  );
}

/** `next`: the version that replaced it. */
function Version({ of, next }: { of: RefRecord; next?: RefRecord | undefined }): JSX.Element {
  return (
    <>
      <p>
        {say.madeBy[of.action]} <strong>{of.changedBy}</strong> <span class="note">{instantText(of.txTime)}</span>
        {of.changeReason !== '' && `: ${of.changeReason}`}
      </p>
      <p class="note">{say.validityOf(validityText(of, next))}</p>
      <Dump label={say.dataOf(of.version)}>{JSON.stringify(of.data, undefined, 2)}</Dump>
    </>
  );
}
