/** Reference data: dictionaries, the records of one, one record. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { instantText } from '../format.ts';
import { hashOf } from '../places.ts';
import type { Dictionary, Page, RefRecord } from '../shapes.ts';
import { usePaged } from './loading.ts';
import { Field, Heading, ListEnd, ProblemBox } from './parts.tsx';
import { RecordForm } from './record-form.tsx';
import { RecordView } from './record-view.tsx';
import { useSession } from './session.ts';

export function DataView({ parts: [dictionary, key] }: { parts: readonly string[] }): JSX.Element {
  if (dictionary === undefined) return <Dictionaries />;
  // A view of its own for each: nothing of the one before stays.
  if (key === undefined) return <RecordList key={dictionary} dictionary={dictionary} />;
  return <RecordView key={`${dictionary}/${key}`} dictionary={dictionary} businessKey={key} />;
}

function Dictionaries(): JSX.Element {
  const { api } = useSession();
  const found = usePaged<Dictionary>('dictionaries', 0, (cursor, signal) =>
    api.get<Page<Dictionary>>(
      `/api/v1/dictionaries?limit=100${cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`}`,
      signal,
    ),
  );
  return (
    <>
      <Heading>Data</Heading>
      <section class="card" aria-label="Dictionaries">
        <ProblemBox problem={found.problem} />
        <ul class="items">
          {found.items?.map((one) => (
            <li key={one.name}>
              <a class="opens" href={hashOf('data', one.name)}>
                <strong>{one.title}</strong> <span class="mono">{one.name}</span>{' '}
                <span class="note">
                  {one.scope}, version {one.version} of {instantText(one.updatedAt)}
                </span>
              </a>
            </li>
          ))}
        </ul>
        <ListEnd
          count={found.items?.length}
          hasMore={found.hasMore}
          onMore={found.more}
          none="There are none, or none that the scopes of this token open."
        />
      </section>
    </>
  );
}

// The records of a dictionary that are valid now.

function RecordList({ dictionary }: { dictionary: string }): JSX.Element {
  const { api, rights } = useSession();
  const [making, setMaking] = useState(false);
  const path = `/api/v1/dictionaries/${encodeURIComponent(dictionary)}/records`;
  const found = usePaged<RefRecord>(path, 0, (cursor, signal) =>
    api.get<Page<RefRecord>>(
      `${path}?limit=100${cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`}`,
      signal,
    ),
  );
  return (
    <>
      <p class="trail">
        <a href={hashOf('data')}>Data</a>
      </p>
      <Heading>{dictionary}</Heading>
      {rights.writes && (
        <div class="buttons">
          <button type="button" class="main" onClick={() => setMaking(true)}>
            New record…
          </button>
        </div>
      )}
      <KeyForm dictionary={dictionary} />
      <section class="card" aria-label="Records">
        <ProblemBox problem={found.problem} />
        <ul class="items">
          {found.items?.map((one) => (
            <li key={one.businessKey}>
              <a class="opens" href={hashOf('data', dictionary, one.businessKey)}>
                <strong>{one.businessKey}</strong> <span class="mono cut">{JSON.stringify(one.data)}</span>
              </a>
            </li>
          ))}
        </ul>
        <ListEnd count={found.items?.length} hasMore={found.hasMore} onMore={found.more} none="There are none." />
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
      <Field label="Business key">
        {(attributes) => (
          <input
            {...attributes}
            autoComplete="off"
            autoCapitalize="off"
            spellcheck={false}
            value={key}
            onInput={(event) => setKey(event.currentTarget.value)}
          />
        )}
      </Field>
      <button type="submit">Show</button>
    </form>
  );
}
