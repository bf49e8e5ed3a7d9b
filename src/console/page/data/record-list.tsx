/** The records of a dictionary as a table whose columns come from its schema; for writers, new records and closing of several. */
import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { Dictionary, ImportResult, Record as RefRecord } from '../../../shared/gen/http.ts';
import { dictionaryPath, pathOf, validityText } from '../../data/record.ts';
import { recordColumns, wholeText } from '../../data/schema.ts';
import { text } from '../../text.ts';
import { hashOf } from '../../views.ts';
import { type Loaded, useLoaded, usePaged } from '../loading.ts';
import { Button, Done, focusHeading, Heading, ProblemBox, ReasonDialog, Select, TextField } from '../parts.tsx';
import { useSession } from '../session.ts';
import { type Column, Table } from '../table.tsx';
import { DefinitionForm } from './definition-form.tsx';
import { SchemaAndDrafts } from './drafts.tsx';
import { ImportDialog } from './import-dialog.tsx';
import { RecordForm, recordFormId } from './record-form.tsx';
import { UnsavedNote, useUnsavedNames } from './unsaved-text.tsx';

const say = text.data;

interface Filter {
  readonly prefix: string;
  readonly which: 'valid' | 'all';
}

/** By dictionary: after a record was shown, its list is as it was left. */
const filters = new Map<string, Filter>();
/** No request for each letter. */
const TYPED_MS = 300;

export function RecordList({ dictionary }: { dictionary: string }): JSX.Element {
  const { rights } = useSession();
  const [filter, setFilter] = useState<Filter>(filters.get(dictionary) ?? { prefix: '', which: 'valid' });
  const [isMaking, setMaking] = useState(false);
  const [isImporting, setImporting] = useState(false);
  const [imported, setImported] = useState<ImportResult>();
  const about = useLoaded<Dictionary>(dictionaryPath(dictionary), 0);
  const prefix = useSettled(filter.prefix, TYPED_MS);
  const change = (changed: Partial<Filter>): void => {
    const next = { ...filter, ...changed };
    filters.set(dictionary, next);
    setFilter(next);
  };
  return (
    <>
      <p class="trail">
        <a href={hashOf('data')}>{say.title}</a>
      </p>
      <Heading>{dictionary}</Heading>
      <Definition of={about} />
      <ProblemBox problem={about.problem} />
      {rights.writes && (
        <div class="buttons">
          <Button text={say.newRecord} class="main" onClick={() => setMaking(true)} />
          <Button text={text.importing.open} disabled={about.value === undefined} onClick={() => setImporting(true)} />
        </div>
      )}
      <Done>{imported === undefined ? '' : text.importing.imported(imported)}</Done>
      {!isMaking && <UnsavedNote id={recordFormId(dictionary)} resume={() => setMaking(true)} />}
      <UnsavedRecords dictionary={dictionary} />
      <div class="card row">
        <TextField
          label={say.keyBegins}
          value={filter.prefix}
          input={{ maxLength: 256 }}
          onChange={(typed) => change({ prefix: typed })}
        />
        <Select
          label={say.which}
          value={filter.which}
          options={say.whichOptions}
          onChange={(which) => change({ which })}
        />
      </div>
      <RecordTable
        // After an import, all is read again.
        key={imported?.txTime}
        dictionary={dictionary}
        schema={about.value?.schema}
        which={filter.which}
        prefix={prefix}
      />
      {about.value !== undefined && (
        <SchemaAndDrafts dictionary={dictionary} schema={about.value.schema} onPublished={about.reload} />
      )}
      {isImporting && (
        <ImportDialog
          dictionary={dictionary}
          schema={about.value?.schema}
          onDone={(result) => {
            setImporting(false);
            setImported(result);
          }}
          onClose={() => setImporting(false)}
        />
      )}
      {isMaking && (
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

/** The title and the scope; an administrator changes them. */
function Definition({ of }: { of: Loaded<Dictionary> }): JSX.Element | null {
  const { roles } = useSession();
  const [isChanging, setChanging] = useState(false);
  if (of.value === undefined) return null;
  const { title, scope } = of.value;
  return (
    <>
      <p>
        {title} <span class="badge">{scope}</span>{' '}
        {roles.includes('admin') && (
          <Button text={say.definition.change} class="quiet" onClick={() => setChanging(true)} />
        )}
      </p>
      {isChanging && (
        <DefinitionForm
          before={of.value}
          onSaved={(saved) => {
            of.put(saved);
            setChanging(false);
          }}
          onClose={() => setChanging(false)}
        />
      )}
    </>
  );
}

/** Records with text that was typed and not saved. */
function UnsavedRecords({ dictionary }: { dictionary: string }): JSX.Element | null {
  const keys = useUnsavedNames(recordFormId(dictionary)).filter((key) => key !== '');
  if (keys.length === 0) return null;
  return (
    <p class="unsaved">
      {say.unsavedRecords}
      {keys.map((key) => (
        <a key={key} class="touch" href={hashOf('data', dictionary, key)}>
          {key}
        </a>
      ))}
    </p>
  );
}

function RecordTable(props: Filter & { dictionary: string; schema: unknown }): JSX.Element {
  const { dictionary, schema, which, prefix } = props;
  const { api, rights } = useSession();
  const [selected, select] = useState<ReadonlySet<string>>(new Set());
  const [closing, setClosing] = useState<readonly string[]>();
  const [done, setDone] = useState('');
  const query = `limit=100&which=${which}&prefix=${encodeURIComponent(prefix)}`;
  const found = usePaged<RefRecord>(`${pathOf(dictionary)}?${query}`, 0);
  const columns = useMemo(() => columnsOf(schema), [schema]);
  const close = async (changeReason: string): Promise<void> => {
    if (closing === undefined) return;
    const body = { businessKeys: closing, changeReason };
    await api.send('POST', `${dictionaryPath(dictionary)}/bulk-close`, { body });
    setDone(say.closedMany(closing.length));
    select(new Set());
    found.reload();
    queueMicrotask(focusHeading);
  };
  const closeAction = (records: readonly RefRecord[]): JSX.Element => {
    const keys = records.filter(({ action }) => action !== 'closed').map(({ businessKey }) => businessKey);
    return <Button text={say.closeMany(keys.length)} disabled={keys.length === 0} onClick={() => setClosing(keys)} />;
  };
  const selection = { ids: selected, onChange: select, nameOf: keyOf, actions: closeAction };
  return (
    <section class="card" aria-label={say.records}>
      <Done>{done}</Done>
      <Table
        of={found}
        caption={say.records}
        columns={columns}
        idOf={keyOf}
        none={prefix === '' ? say.noRecord : say.noSuchRecord(prefix)}
        {...(rights.writes && { selection })}
      />
      {closing !== undefined && (
        <ReasonDialog
          title={say.closeManyTitle}
          text={say.closeManyText(closing.length)}
          action={say.closeManyTitle}
          danger
          run={close}
          onClose={() => setClosing(undefined)}
        />
      )}
    </section>
  );
}

const keyOf = ({ businessKey }: RefRecord): string => businessKey;

function columnsOf(schema: unknown): readonly Column<RefRecord>[] {
  const key: Column<RefRecord> = {
    head: say.businessKey,
    isName: true,
    cell: ({ dictionary: of, businessKey }) => (
      <a class="touch" href={hashOf('data', of, businessKey)}>
        {businessKey}
      </a>
    ),
  };
  const last: readonly Column<RefRecord>[] = [
    { head: say.version, isNumber: true, cell: ({ version }) => version },
    { head: say.validity, cell: (record) => validityText(record) },
  ];
  const heads = [key, ...last].map(({ head }) => head);
  const fields = recordColumns(schema, heads).map(({ cell, ...column }) => ({
    head: column.head,
    ...(column.isNumber && { isNumber: true as const }),
    cell: ({ data }: RefRecord) => cell(data),
  }));
  const whole: Column<RefRecord> = { head: say.dataColumn, cell: ({ data }) => wholeText(data) };
  return [key, ...(fields.length > 0 ? fields : [whole]), ...last];
}

/** The value, once it has not changed for a while. */
function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
