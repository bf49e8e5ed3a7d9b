/** A new dictionary, or another title and scope of one. Its schema is changed by drafts. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { Dictionary } from '../../../shared/gen/http.ts';
import { formFaults, linedFaults } from '../../data/form.ts';
import { dictionaryPath, isWider, objectFault, recordBody, scopes } from '../../data/record.ts';
import { text } from '../../text.ts';
import type { Api } from '../api.ts';
import { useDoing } from '../loading.ts';
import { Dialog, Form, ReasonField, Select, TextField } from '../parts.tsx';
import { useSession } from '../session.ts';
import { JsonField } from './json-field.tsx';
import { useTyping } from './unsaved-text.tsx';

const say = text.data.definition;

/** Of the text that is kept. `dictionary` '': a new one. */
export const definitionFormId = (dictionary = ''): string => `definition/${dictionary}`;

const EMPTY = '{\n  "type": "object",\n  "required": [],\n  "properties": {\n  }\n}';

export function DefinitionForm(props: {
  /** undefined: a new one. */
  before?: Dictionary;
  onSaved: (saved: Dictionary) => void;
  onClose: () => void;
}): JSX.Element {
  const { api } = useSession();
  const [before] = useState(props.before);
  const typing = useTyping(definitionFormId(before?.name), {
    name: '',
    title: before?.title ?? '',
    scope: before?.scope ?? 'PUBLIC',
    schema: EMPTY,
    changeReason: '',
  });
  const { name, title, scope, schema, changeReason } = typing.values;
  const [isConfirmed, setConfirmed] = useState(false);
  const [tried, setTried] = useState(false);
  const doing = useDoing();
  const { at, rest } = formFaults(doing.problem, [], ['/name', '/title', '/scope']);
  const lined = linedFaults(rest, schema, '/schema');
  const fault = before !== undefined || schema.trim() === '' ? '' : objectFault(schema);
  const asksToConfirm = before !== undefined && isWider(scope, before.scope);
  const submit = (): void => {
    setTried(true);
    if (fault !== '') return;
    void doing.run(async () => {
      const saved = await save(api, before, typing.values, asksToConfirm && isConfirmed);
      typing.forget();
      if (saved !== undefined) props.onSaved(saved);
    });
  };
  return (
    <Dialog
      title={before === undefined ? say.newTitle : say.changeTitle(before.name)}
      typed={typing.isTyped}
      onDiscard={typing.forget}
      onClose={props.onClose}
    >
      <Form
        doing={{ ...doing, problem: lined.problem }}
        action={text.data.save}
        acting={text.data.saving}
        onSubmit={submit}
      >
        {typing.note}
        {before === undefined && (
          <TextField
            label={text.data.name}
            hint={say.nameHint}
            fault={at.get('/name')}
            value={name}
            onChange={(typed) => typing.change({ name: typed })}
          />
        )}
        <TitleAndScope title={title} scope={scope} faults={at} onChange={typing.change} />
        {asksToConfirm && (
          <label class="check">
            <input type="checkbox" checked={isConfirmed} onChange={() => setConfirmed(!isConfirmed)} />
            {say.confirm(before.scope, scope)}
          </label>
        )}
        {before === undefined && (
          <JsonField
            label={say.schema}
            hint={say.schemaHint}
            fault={tried ? fault : ''}
            faults={lined.lines}
            value={schema}
            onChange={(typed) => typing.change({ schema: typed })}
          />
        )}
        <ReasonField
          hint={text.data.reasonHint}
          value={changeReason}
          onChange={(typed) => typing.change({ changeReason: typed })}
        />
      </Form>
    </Dialog>
  );
}

type Typed = Readonly<Record<'name' | 'title' | 'schema' | 'changeReason', string>> & Pick<Dictionary, 'scope'>;

/** `before` undefined: a new one, whose schema may be empty. */
function save(
  api: Api,
  before: Dictionary | undefined,
  typed: Typed,
  confirmWidening: boolean,
): Promise<Dictionary | undefined> {
  const { name, title, scope, schema, changeReason } = typed;
  if (before !== undefined) {
    const body = { title, scope, changeReason, ...(confirmWidening && { confirmWidening }) };
    return api.send('PATCH', dictionaryPath(before.name), { body, ifMatch: before.version });
  }
  const body = recordBody({ name, title, scope, changeReason }, schema.trim() || 'null', 'schema');
  return api.send('POST', '/api/v1/dictionaries', { body });
}

function TitleAndScope(props: {
  title: string;
  scope: Dictionary['scope'];
  faults: ReadonlyMap<string, string>;
  onChange: (changed: { title?: string; scope?: Dictionary['scope'] }) => void;
}): JSX.Element {
  const { title, scope, faults, onChange } = props;
  return (
    <>
      <TextField
        label={text.data.dictionaryTitle}
        hint={say.titleHint}
        fault={faults.get('/title')}
        value={title}
        onChange={(typed) => onChange({ title: typed })}
      />
      <Select
        label={text.data.scope}
        hint={say.scopeHint}
        fault={faults.get('/scope')}
        value={scope}
        options={scopes}
        onChange={(typed) => onChange({ scope: typed })}
      />
    </>
  );
}
