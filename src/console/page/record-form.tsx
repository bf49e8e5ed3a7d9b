/** A record, or a new version of one. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { objectFault, recordBody } from '../record-body.ts';
import type { RefRecord } from '../shapes.ts';
import { useDoing } from './loading.ts';
import { Dialog, Field, ProblemBox, ReasonField } from './parts.tsx';
import { useSession } from './session.ts';

export function RecordForm(props: {
  dictionary: string;
  /** undefined: a new one. */
  before?: RefRecord;
  onSaved: (record: RefRecord) => void;
  onClose: () => void;
}): JSX.Element {
  const { api } = useSession();
  const { before } = props;
  const [key, setKey] = useState('');
  const [atFirst] = useState(before === undefined ? '{\n  \n}' : JSON.stringify(before.data, undefined, 2));
  const [data, setData] = useState(atFirst);
  const [reason, setReason] = useState('');
  const [tried, setTried] = useState(false);
  const doing = useDoing();
  const fault = objectFault(data);
  const path = `/api/v1/dictionaries/${encodeURIComponent(props.dictionary)}/records`;
  const submit = (event: Event): void => {
    event.preventDefault();
    setTried(true);
    if (fault !== '') return;
    void doing.run(async () => {
      const saved =
        before === undefined
          ? await api.send<RefRecord>('POST', path, {
              json: recordBody({ businessKey: key, changeReason: reason }, data),
            })
          : await api.send<RefRecord>('PUT', `${path}/${encodeURIComponent(before.businessKey)}`, {
              json: recordBody({ changeReason: reason }, data),
              ifMatch: before.version,
            });
      if (saved !== undefined) props.onSaved(saved);
    });
  };
  return (
    <Dialog
      title={before === undefined ? 'New record' : `Change ${before.businessKey}`}
      typed={key !== '' || reason !== '' || data !== atFirst}
      onClose={props.onClose}
    >
      <form onSubmit={submit}>
        <ProblemBox problem={doing.problem} />
        {before === undefined && (
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
        )}
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
        <button type="submit" class="main" disabled={doing.busy}>
          {doing.busy ? 'Saving…' : 'Save'}
        </button>
      </form>
    </Dialog>
  );
}
