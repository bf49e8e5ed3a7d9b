/** The configuration file: read, checked, changed as a whole, and put back. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { ConfigurationChange, Configuration as ConfigurationFile } from '../../../shared/gen/http.ts';
import { text } from '../../text.ts';
import { JsonField } from '../data/json-field.tsx';
import { type Doing, useDoing } from '../loading.ts';
import { Button, Dialog, Done, Form, ProblemBox, Section } from '../parts.tsx';
import { useSession } from '../session.ts';

const say = text.administration.configuration;
const PATH = '/api/v1/admin/configuration';
/** Above the limit of the helper, 40 s, and its turn. */
const PATIENCE_MS = 70_000;

export function Configuration(): JSX.Element {
  const { api } = useSession();
  const reading = useDoing();
  const [file, setFile] = useState<ConfigurationFile>();
  const [isUndoing, setUndoing] = useState(false);
  const [changed, setChanged] = useState<ConfigurationChange>();
  const read = (then: () => void): void =>
    void reading.run(async () => {
      setFile(await api.get<ConfigurationFile>(PATH, undefined, PATIENCE_MS));
      then();
    });
  const close = (change?: ConfigurationChange): void => {
    setFile(undefined);
    setUndoing(false);
    if (change !== undefined) setChanged(change);
  };
  return (
    <Section title={say.title}>
      <p class="note">{say.about}</p>
      <ProblemBox problem={reading.problem} />
      <div class="buttons">
        <Button text={say.open} disabled={reading.busy} onClick={() => read(() => setUndoing(false))} />
        <Button text={say.undo} disabled={reading.busy} onClick={() => read(() => setUndoing(true))} />
      </div>
      {changed !== undefined && <Effect of={changed} />}
      {file !== undefined && !isUndoing && <EditDialog file={file} onClose={close} />}
      {file !== undefined && isUndoing && <UndoDialog file={file} onClose={close} />}
    </Section>
  );
}

/** What was changed. */
function Effect({ of }: { of: ConfigurationChange }): JSX.Element {
  return (
    <div>
      <Done>{of.isChanged ? say.changed(of.file) : say.same}</Done>
      <Effects of={of} />
      {of.isChanged && !of.isReloaded && <p>{say.notReloaded}</p>}
    </div>
  );
}

/** By what applies the changed keys. */
function Effects({ of: { live, hub, restart, unused, warnings } }: { of: ConfigurationChange }): JSX.Element {
  const rows = [
    [say.live, live],
    [say.hub, hub],
    [say.restart, restart],
    [say.unused, unused],
  ] as const;
  return (
    <ul>
      {rows.map(([words, keys]) => keys.length > 0 && <li key={words}>{words(keys.join(', '))}</li>)}
      {warnings.map((warning) => (
        <li key={warning}>{warning}</li>
      ))}
    </ul>
  );
}

interface DialogProps {
  readonly file: ConfigurationFile;
  readonly onClose: (change?: ConfigurationChange) => void;
}

function EditDialog({ file, onClose }: DialogProps): JSX.Element {
  const { api } = useSession();
  const doing = useDoing();
  const [typed, setTyped] = useState(file.text);
  const [answer, setAnswer] = useState<{ of: string; change: ConfigurationChange | undefined }>();
  /** undefined: the text as it is now has not been checked. */
  const checked = answer?.of === typed ? answer.change : undefined;
  const [at, setAt] = useState<{ line: number }>();
  const body = { hash: file.hash, text: typed };
  const isGood = checked?.isChanged === true && checked.faults.length === 0;
  const submit = (): void =>
    void doing.run(async () => {
      if (isGood) onClose(await api.send<ConfigurationChange>('PUT', PATH, { body, patienceMs: PATIENCE_MS }));
      else {
        const change = await api.send<ConfigurationChange>('POST', `${PATH}/check`, { body, patienceMs: PATIENCE_MS });
        setAnswer({ of: body.text, change });
      }
    });
  return (
    <Dialog title={say.editTitle} typed={typed !== file.text} onClose={() => onClose()}>
      <Form
        doing={doing}
        action={isGood ? say.change : say.check}
        acting={isGood ? say.changing : say.checking}
        onSubmit={submit}
      >
        <JsonField
          label={file.file}
          hint={file.hidden === 0 ? say.help : `${say.help} ${say.hidden(file.hidden)}`}
          fault=""
          faults={(checked?.faults ?? []).flatMap(({ path, line, message }) =>
            line === null ? [] : [{ line, fault: `${path} ${message}`.trim() }],
          )}
          isPlain={true}
          at={at}
          value={typed}
          onChange={setTyped}
        />
        <Result doing={doing} checked={checked} onLine={(line) => setAt({ line })} />
      </Form>
    </Dialog>
  );
}

function Result(props: {
  doing: Doing;
  checked: ConfigurationChange | undefined;
  onLine: (line: number) => void;
}): JSX.Element {
  const { checked, onLine } = props;
  if (checked === undefined || props.doing.busy) return <div role="status" />;
  const { faults, isChanged } = checked;
  return (
    <div role="status" class={faults.length > 0 ? 'problem' : ''}>
      <strong>{faults.length > 0 ? say.faults(faults.length) : isChanged ? say.good : say.same}</strong>
      {faults.length > 0 && (
        <ul>
          {faults.map(({ path, line, message }) => (
            <li key={`${line} ${path} ${message}`}>
              {line !== null && <Button class="quiet" text={say.line(line)} onClick={() => onLine(line)} />}
              {path !== '' && <code>{path}</code>} {message}
            </li>
          ))}
        </ul>
      )}
      {faults.length === 0 && <Effects of={checked} />}
    </div>
  );
}

function UndoDialog({ file, onClose }: DialogProps): JSX.Element {
  const { api } = useSession();
  const doing = useDoing();
  const submit = (): void =>
    void doing.run(async () => {
      const body = { hash: file.hash };
      onClose(await api.send<ConfigurationChange>('POST', `${PATH}/undo`, { body, patienceMs: PATIENCE_MS }));
    });
  return (
    <Dialog title={say.undoTitle} onClose={() => onClose()}>
      {file.hasPrevious ? (
        <Form doing={doing} action={say.undoAction} acting={say.changing} danger={true} onSubmit={submit}>
          <p>{say.undoQuestion}</p>
        </Form>
      ) : (
        <p>{say.noPrevious}</p>
      )}
    </Dialog>
  );
}
