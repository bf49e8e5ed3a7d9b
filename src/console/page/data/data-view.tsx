/** Reference data: dictionaries, the records of one, one record with its history. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { Dictionary } from '../../../shared/gen/http.ts';
import { instantText } from '../../format.ts';
import { text } from '../../text.ts';
import { hashOf } from '../../views.ts';
import { usePaged } from '../loading.ts';
import { Button, Heading } from '../parts.tsx';
import { useSession } from '../session.ts';
import { type Column, Table } from '../table.tsx';
import { DefinitionForm, definitionFormId } from './definition-form.tsx';
import { RecordList } from './record-list.tsx';
import { RecordView } from './record-view.tsx';
import { UnsavedNote } from './unsaved-text.tsx';

const say = text.data;

export function DataView({ parts: [dictionary, key] }: { parts: readonly string[] }): JSX.Element {
  if (dictionary === undefined) return <Dictionaries />;
  // A view of its own for each: nothing of the one before stays.
  if (key === undefined) return <RecordList key={dictionary} dictionary={dictionary} />;
  return <RecordView key={`${dictionary}/${key}`} dictionary={dictionary} businessKey={key} />;
}

function Dictionaries(): JSX.Element {
  const { roles } = useSession();
  const [isMaking, setMaking] = useState(false);
  const found = usePaged<Dictionary>('/api/v1/dictionaries?limit=100', 0);
  return (
    <>
      <Heading>{say.title}</Heading>
      {roles.includes('admin') && (
        <div class="buttons">
          <Button text={say.definition.make} class="main" onClick={() => setMaking(true)} />
        </div>
      )}
      {!isMaking && <UnsavedNote id={definitionFormId()} resume={() => setMaking(true)} />}
      {isMaking && (
        <DefinitionForm
          onSaved={({ name }) => {
            location.hash = hashOf('data', name);
          }}
          onClose={() => setMaking(false)}
        />
      )}
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
