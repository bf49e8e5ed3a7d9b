/** The configuration file: read, checked, changed as a whole, and put back. */
import type { JSX, RefObject } from 'preact';
import { useRef, useState } from 'preact/hooks';
import type { ConfigurationChange, Configuration as ConfigurationFile } from '../../../shared/gen/http.ts';
import { text } from '../../text.ts';
import { type Doing, useDoing } from '../loading.ts';
import { Button, Dialog, Done, Field, Form, ProblemBox, Section } from '../parts.tsx';
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
  /** Of the text as it is now; undefined: it has not been checked. */
  const [checked, setChecked] = useState<ConfigurationChange>();
  const area = useRef<HTMLTextAreaElement>(null);
  const body = { hash: file.hash, text: typed };
  const isGood = checked?.isChanged === true && checked.faults.length === 0;
  const submit = (): void =>
    void doing.run(async () => {
      if (isGood) onClose(await api.send<ConfigurationChange>('PUT', PATH, { body, patienceMs: PATIENCE_MS }));
      else setChecked(await api.send<ConfigurationChange>('POST', `${PATH}/check`, { body, patienceMs: PATIENCE_MS }));
    });
  return (
    <Dialog title={say.editTitle} typed={typed !== file.text} onClose={() => onClose()}>
      <Form
        doing={doing}
        action={isGood ? say.change : say.check}
        acting={isGood ? say.changing : say.checking}
        onSubmit={submit}
      >
        <p class="note">{file.hidden === 0 ? say.help : `${say.help} ${say.hidden(file.hidden)}`}</p>
        <Field label={file.file}>
          {(attributes) => (
            <textarea
              {...attributes}
              ref={area}
              class="mono"
              wrap="off"
              rows={20}
              autoCapitalize="off"
              spellcheck={false}
              value={typed}
              disabled={doing.busy}
              onInput={(event) => {
                setTyped(event.currentTarget.value);
                setChecked(undefined);
              }}
            />
          )}
        </Field>
        <Result doing={doing} checked={checked} area={area} />
      </Form>
    </Dialog>
  );
}

function Result(props: {
  doing: Doing;
  checked: ConfigurationChange | undefined;
  area: RefObject<HTMLTextAreaElement | null>;
}): JSX.Element {
  const { checked, area } = props;
  if (checked === undefined || props.doing.busy) return <div role="status" />;
  const { faults, isChanged } = checked;
  return (
    <div role="status" class={faults.length > 0 ? 'problem' : ''}>
      <strong>{faults.length > 0 ? say.faults(faults.length) : isChanged ? say.good : say.same}</strong>
      {faults.length > 0 && (
        <ul>
          {faults.map(({ path, line, message }) => (
            <li key={`${line} ${path} ${message}`}>
              {line !== null && (
                <Button
                  class="quiet"
                  text={say.line(line)}
                  onClick={() => area.current && showLine(area.current, line)}
                />
              )}
              {path !== '' && <code>{path}</code>} {message}
            </li>
          ))}
        </ul>
      )}
      {faults.length === 0 && <Effects of={checked} />}
    </div>
  );
}

/** Selects the line and scrolls to it: its lines are not wrapped. */
function showLine(area: HTMLTextAreaElement, line: number): void {
  const lines = area.value.split('\n');
  const start = lines.slice(0, line - 1).join('\n').length + (line > 1 ? 1 : 0);
  area.focus();
  area.setSelectionRange(start, start + (lines[line - 1] ?? '').length);
  area.scrollTop = (area.scrollHeight * (line - 1)) / lines.length - area.clientHeight / 2;
  area.scrollLeft = 0;
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
