/** Reference data: dictionaries, the records of one, one record with its history. */
import type { JSX } from 'preact';
import type { Dictionary } from '../../../shared/gen/http.ts';
import { instantText } from '../../format.ts';
import { text } from '../../text.ts';
import { hashOf } from '../../views.ts';
import { usePaged } from '../loading.ts';
import { Heading } from '../parts.tsx';
import { type Column, Table } from '../table.tsx';
import { RecordList } from './record-list.tsx';
import { RecordView } from './record-view.tsx';

const say = text.data;

export function DataView({ parts: [dictionary, key] }: { parts: readonly string[] }): JSX.Element {
  if (dictionary === undefined) return <Dictionaries />;
  // A view of its own for each: nothing of the one before stays.
  if (key === undefined) return <RecordList key={dictionary} dictionary={dictionary} />;
  return <RecordView key={`${dictionary}/${key}`} dictionary={dictionary} businessKey={key} />;
}

function Dictionaries(): JSX.Element {
  const found = usePaged<Dictionary>('/api/v1/dictionaries?limit=100', 0);
  return (
    <>
      <Heading>{say.title}</Heading>
      <section class="card" aria-label={say.dictionaries}>
        <Table
          of={found}
          caption={say.dictionaries}
          columns={columns}
          idOf={({ name }) => name}
          none={say.noDictionary}
        />
      </section>
    </>
  );
}

const columns: readonly Column<Dictionary>[] = [
  {
    head: say.name,
    isName: true,
    cell: ({ name }) => (
      <a class="touch" href={hashOf('data', name)}>
        {name}
      </a>
    ),
  },
  { head: say.dictionaryTitle, cell: ({ title }) => title },
  { head: say.scope, cell: ({ scope }) => scope },
  { head: say.version, isNumber: true, cell: ({ version }) => version },
  { head: say.changed, cell: ({ updatedAt, changedBy }) => say.changedBy(instantText(updatedAt), changedBy) },
];
