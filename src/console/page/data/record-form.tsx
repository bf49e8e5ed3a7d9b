/** A new record, or a new version of one. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { Record as RefRecord } from '../../../shared/gen/http.ts';
import { objectFault, pathOf, recordBody } from '../../data/record.ts';
import { text } from '../../text.ts';
import { useDoing } from '../loading.ts';
import { Dialog, Field, Form, ReasonField, TextField } from '../parts.tsx';
import { useSession } from '../session.ts';

const say = text.data;

export function RecordForm(props: {
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
      title={before === undefined ? say.newTitle : say.changeTitle(before.businessKey)}
      typed={key !== '' || reason !== '' || data !== atFirst}
      onClose={props.onClose}
    >
      <Form doing={doing} action={say.save} acting={say.saving} onSubmit={submit}>
        {before === undefined && <TextField label={say.businessKey} value={key} onChange={setKey} />}
        <Field label={say.data} hint={say.dataHint} fault={tried && fault !== '' ? fault : undefined}>
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
        <ReasonField hint={say.reasonHint} value={reason} onChange={setReason} />
      </Form>
    </Dialog>
  );
}
