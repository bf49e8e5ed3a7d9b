/** A new record, or a new version of one. What is typed is kept until it is saved or discarded, also if the record changes meanwhile. */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Record as RefRecord } from '../../../shared/gen/http.ts';
import { type Difference, differences } from '../../data/differences.ts';
import { objectFault, pathOf, recordBody } from '../../data/record.ts';
import type { Typed } from '../../data/unsaved.ts';
import { instantText } from '../../format.ts';
import { ProblemError } from '../../problem.ts';
import { text } from '../../text.ts';
import type { Api } from '../api.ts';
import { useDoing } from '../loading.ts';
import { Button, Dialog, Form, ReasonField, TextField } from '../parts.tsx';
import { useSession } from '../session.ts';
import { type Column, Table } from '../table.tsx';
import { DataEditor, useSchemaForm } from './data-editor.tsx';
import { useTyping } from './unsaved-text.tsx';

const say = text.data;

/** Of the text that is kept. `businessKey` '': a new record. */
export const recordFormId = (dictionary: string, businessKey = ''): string => `record/${dictionary}/${businessKey}`;

export function RecordForm(props: {
  dictionary: string;
  /** Its newest versions, the newest first. Empty: a new record. */
  versions?: readonly RefRecord[];
  onSaved: (record: RefRecord) => void;
  onClose: () => void;
}): JSX.Element {
  const { api } = useSession();
  const { dictionary } = props;
  const [versions, setVersions] = useState(props.versions ?? []);
  const [newest] = versions;
  const key = newest?.businessKey;
  const typing = useTyping(recordFormId(dictionary, key), {
    businessKey: '',
    data: newest === undefined ? '{\n  \n}' : dataText(newest),
    changeReason: '',
    // The version that the text is a change of.
    base: String(newest?.version ?? ''),
  });
  const { businessKey, data, changeReason, base } = typing.values;
  const [tried, setTried] = useState(false);
  const doing = useDoing();
  const { at, rest, form, editing } = useSchemaForm(
    dictionary,
    doing.problem,
    key === undefined ? ['/businessKey'] : [],
    data,
  );
  const fault = objectFault(data);
  const isConflict = newest !== undefined && base !== String(newest.version);
  const submit = (): void => {
    setTried(true);
    if (fault !== '' || isConflict) return;
    void doing.run(async () => {
      try {
        const saved = await api.send<RefRecord>(...requestOf(dictionary, newest, typing.values));
        typing.forget();
        if (saved !== undefined) props.onSaved(saved);
      } catch (error) {
        const isStale = error instanceof ProblemError && error.problem.code === 'STALE_VERSION';
        if (!isStale || key === undefined) throw error;
        const { items } = await api.get<{ items: RefRecord[] }>(`${pathOf(dictionary, key)}/history?limit=50`);
        setVersions(items);
      }
    });
  };
  return (
    <Dialog
      title={key === undefined ? say.newTitle : say.changeTitle(key)}
      isLoading={key !== undefined && editing.fields === undefined}
      typed={typing.isTyped}
      onDiscard={typing.forget}
      onClose={props.onClose}
    >
      <Form doing={{ ...doing, problem: rest }} action={say.save} acting={say.saving} onSubmit={submit}>
        <div ref={form}>
          {typing.note}
          {isConflict && <Conflict versions={versions} typed={typing.values} change={typing.change} />}
          {key === undefined && (
            <TextField
              label={say.businessKey}
              fault={at.get('/businessKey')}
              value={businessKey}
              onChange={(typed) => typing.change({ businessKey: typed })}
            />
          )}
          <DataEditor
            {...editing}
            fault={tried ? fault : ''}
            value={data}
            onChange={(typed) => typing.change({ data: typed })}
          />
          <ReasonField
            hint={say.reasonHint}
            value={changeReason}
            onChange={(typed) => typing.change({ changeReason: typed })}
          />
        </div>
      </Form>
    </Dialog>
  );
}

/** How the text is saved. `newest`: the version that it is a change of. */
function requestOf(dictionary: string, newest: RefRecord | undefined, typed: Typed): Parameters<Api['send']> {
  const { businessKey = '', data = '', changeReason = '' } = typed;
  if (newest === undefined)
    return ['POST', pathOf(dictionary), { body: recordBody({ businessKey, changeReason }, data) }];
  const { businessKey: same, version, action } = newest;
  // A closed record is opened again.
  if (action === 'closed')
    return ['POST', pathOf(dictionary), { body: recordBody({ businessKey: same, changeReason }, data) }];
  return ['PUT', pathOf(dictionary, same), { body: recordBody({ changeReason }, data), ifMatch: version }];
}

const dataText = ({ data }: RefRecord): string => JSON.stringify(data, undefined, 2);

/** Another user was faster: what differs, field by field, and the choice. */
function Conflict(props: {
  versions: readonly RefRecord[];
  typed: { readonly base: string; readonly data: string };
  change: (changed: { base: string; data?: string }) => void;
}): JSX.Element | null {
  const box = useRef<HTMLDivElement>(null);
  const { versions, typed, change } = props;
  const base = Number(typed.base);
  const mine: unknown = objectFault(typed.data) === '' ? JSON.parse(typed.data) : undefined;
  const [newest] = versions;
  // A screen reader reads it, and the choice is one Tab away.
  useEffect(() => box.current?.focus(), [newest?.version]);
  if (newest === undefined) return null;
  const before = versions.find(({ version }) => version === base);
  const items = differences(before?.data, newest.data, mine);
  const at = instantText(newest.txTime);
  return (
    <div class="problem" tabIndex={-1} ref={box}>
      <strong>{say.conflict.title}</strong>
      <p>
        {newest.action === 'closed'
          ? say.conflict.closed(newest.changedBy, at)
          : say.conflict.changed(newest.changedBy, at, newest.version)}
      </p>
      <Table
        of={{ items, hasMore: false, problem: undefined, more: () => {} }}
        caption={say.conflict.differences}
        columns={differenceColumns(base, newest.version)}
        idOf={({ field }) => field}
        none={say.conflict.noDifference}
      />
      <p>{say.conflict.choose}</p>
      <div class="buttons">
        <Button text={say.conflict.keepMine} onClick={() => change({ base: String(newest.version) })} />
        <Button
          text={say.conflict.takeTheirs}
          onClick={() => change({ base: String(newest.version), data: dataText(newest) })}
        />
      </div>
    </div>
  );
}

function differenceColumns(base: number, newest: number): readonly Column<Difference>[] {
  const shown = (json: string): JSX.Element => <span class="mono">{json === '' ? say.conflict.missing : json}</span>;
  return [
    {
      head: say.conflict.field,
      isName: true,
      cell: ({ field, isConflict }) => (
        <>
          {field}
          {isConflict && <small class="bad"> {say.conflict.both}</small>}
        </>
      ),
    },
    { head: say.conflict.before(base), cell: ({ before }) => shown(before) },
    { head: say.conflict.theirs(newest), cell: ({ theirs }) => shown(theirs) },
    { head: say.conflict.mine, cell: ({ mine }) => shown(mine) },
  ];
}
