/** The schema of a dictionary, and the drafts of its next one: proposed, reviewed, published or withdrawn. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { Draft } from '../../../shared/gen/http.ts';
import { linedFaults } from '../../data/form.ts';
import { dictionaryPath, objectFault, recordBody } from '../../data/record.ts';
import { instantText } from '../../format.ts';
import { text } from '../../text.ts';
import { useDoing, usePaged } from '../loading.ts';
import { Button, Dialog, Done, Dump, Form, focusHeading, Items, ReasonDialog, ReasonField } from '../parts.tsx';
import { useSession } from '../session.ts';
import { JsonField } from './json-field.tsx';
import { UnsavedNote, useTyping } from './unsaved-text.tsx';

const say = text.data.drafts;

const draftFormId = (dictionary: string): string => `draft/${dictionary}`;

interface Step {
  readonly path: 'request-review' | 'decide' | 'publish' | 'withdraw';
  readonly decision?: 'approved' | 'rejected';
  readonly isAdmins: boolean;
}

const steps = {
  review: { path: 'request-review', isAdmins: false },
  approve: { path: 'decide', decision: 'approved', isAdmins: true },
  reject: { path: 'decide', decision: 'rejected', isAdmins: true },
  publish: { path: 'publish', isAdmins: true },
  withdraw: { path: 'withdraw', isAdmins: false },
} as const satisfies Readonly<Record<string, Step>>;
type StepName = keyof typeof steps;

/** What can become of a draft. */
const next: Readonly<Record<Draft['state'], readonly StepName[]>> = {
  draft: ['review', 'withdraw'],
  inReview: ['approve', 'reject', 'withdraw'],
  approved: ['publish', 'withdraw'],
  rejected: [],
  published: [],
  withdrawn: [],
};

/** `schema` null: the dictionary has none. */
export function SchemaAndDrafts(props: {
  dictionary: string;
  schema: object | null;
  onPublished: () => void;
}): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="card" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{say.title}</summary>
      {isOpen && <Drafts {...props} />}
    </details>
  );
}

function Drafts(props: Parameters<typeof SchemaAndDrafts>[0]): JSX.Element {
  const { dictionary } = props;
  const { api, rights, roles } = useSession();
  const [isMaking, setMaking] = useState(false);
  const [doing, setDoing] = useState<{ readonly draft: Draft; readonly name: StepName }>();
  const [done, setDone] = useState('');
  const found = usePaged<Draft>(`${dictionaryPath(dictionary)}/drafts?limit=50`, 0);
  const schema = props.schema === null ? '{\n  \n}' : JSON.stringify(props.schema, undefined, 2);
  const take = async (changeReason: string): Promise<void> => {
    if (doing === undefined) return;
    const { path, ...step }: Step = steps[doing.name];
    const body = { changeReason, ...(step.decision !== undefined && { decision: step.decision }) };
    await api.send('POST', `${dictionaryPath(dictionary)}/drafts/${doing.draft.id}/${path}`, { body });
    setDone(say.done[doing.name](doing.draft.id));
    found.reload();
    if (path === 'publish') props.onPublished();
    queueMicrotask(focusHeading);
  };
  const offered = ({ state }: Draft): readonly StepName[] =>
    next[state].filter((name) => (steps[name].isAdmins ? roles.includes('admin') : rights.writes));
  return (
    <>
      {props.schema === null ? <p class="note">{say.noSchema}</p> : <Dump label={say.schema}>{schema}</Dump>}
      {rights.writes && (
        <div class="buttons">
          <Button text={say.make} onClick={() => setMaking(true)} />
        </div>
      )}
      {!isMaking && <UnsavedNote id={draftFormId(dictionary)} resume={() => setMaking(true)} />}
      <p>
        <Done>{done}</Done>
      </p>
      <Items of={found} none={say.none}>
        {(draft) => (
          <li key={draft.id}>
            <strong>{say.draft(draft.id)}</strong> <span class="badge">{say.states[draft.state]}</span>
            <p>
              {text.data.changedBy(instantText(draft.updatedAt), draft.updatedBy)}
              {draft.changeReason !== '' && `: ${draft.changeReason}`}
            </p>
            <Dump label={say.schemaOf(draft.id)}>{JSON.stringify(draft.schema, undefined, 2)}</Dump>
            <div class="buttons">
              {offered(draft).map((name) => (
                <Button key={name} text={say.steps[name]} onClick={() => setDoing({ draft, name })} />
              ))}
            </div>
          </li>
        )}
      </Items>
      {isMaking && (
        <DraftForm
          dictionary={dictionary}
          schema={schema}
          onSaved={({ id }) => {
            setMaking(false);
            setDone(say.made(id));
            found.reload();
          }}
          onClose={() => setMaking(false)}
        />
      )}
      {doing !== undefined && (
        <ReasonDialog
          title={`${say.draft(doing.draft.id)}: ${say.steps[doing.name]}`}
          text={say.about[doing.name]}
          action={say.steps[doing.name].replace('…', '')}
          run={take}
          onClose={() => setDoing(undefined)}
        />
      )}
    </>
  );
}

function DraftForm(props: {
  dictionary: string;
  schema: string;
  onSaved: (draft: Draft) => void;
  onClose: () => void;
}): JSX.Element {
  const { api } = useSession();
  const { dictionary } = props;
  const typing = useTyping(draftFormId(dictionary), { schema: props.schema, changeReason: '' });
  const { schema, changeReason } = typing.values;
  const [tried, setTried] = useState(false);
  const doing = useDoing();
  const fault = objectFault(schema);
  const lined = linedFaults(doing.problem, schema, '/schema');
  const submit = (): void => {
    setTried(true);
    if (fault !== '') return;
    void doing.run(async () => {
      const body = recordBody({ changeReason }, schema, 'schema');
      const saved = await api.send<Draft>('POST', `${dictionaryPath(dictionary)}/drafts`, { body });
      typing.forget();
      if (saved !== undefined) props.onSaved(saved);
    });
  };
  return (
    <Dialog title={say.makeTitle} typed={typing.isTyped} onDiscard={typing.forget} onClose={props.onClose}>
      <Form
        doing={{ ...doing, problem: lined.problem }}
        action={text.data.save}
        acting={text.data.saving}
        onSubmit={submit}
      >
        {typing.note}
        <JsonField
          label={say.schema}
          hint={say.schemaHint}
          fault={tried ? fault : ''}
          faults={lined.lines}
          value={schema}
          onChange={(typed) => typing.change({ schema: typed })}
        />
        <ReasonField
          hint={text.data.reasonHint}
          value={changeReason}
          onChange={(typed) => typing.change({ changeReason: typed })}
        />
      </Form>
    </Dialog>
  );
}
