/** Reference data: dictionaries, the records of one, one record. */
import type { JSX } from 'preact';
import { instantText } from '../format.ts';
import { hashOf } from '../places.ts';
import type { Dictionary, Page } from '../shapes.ts';
import { usePaged } from './loading.ts';
import { Heading, ListEnd, ProblemBox } from './parts.tsx';
import { RecordList } from './record-list.tsx';
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
