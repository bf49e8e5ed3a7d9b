/** The saved commands of the box: sent with one press, saved from what is typed, renamed, deleted. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { LineCommands } from '../../../shared/gen/http.ts';
import { dataFault, nameFault, withCommand, withoutCommand } from '../../line/commands.ts';
import { type Draft, type LineCommand } from '../../line/sending.ts';
import { localProblem, ProblemError, problemFrom } from '../../problem.ts';
import { text } from '../../text.ts';
import { type Loaded, useDoing, useLoaded } from '../loading.ts';
import { Answer, Button, Dialog, Form, TextField } from '../parts.tsx';
import { useSession } from '../session.ts';

const words = text.commands;
const PATH = '/api/v1/line/commands';

/** `name` '': it is not saved yet. */
interface Editing {
  readonly name: string;
  readonly draft: Draft;
}

export function SavedCommands(props: { draft: Draft; busy: boolean; onSend: (command: Draft) => void }): JSX.Element {
  const list = useLoaded<LineCommands>(PATH, 0);
  const [editing, edit] = useState<Editing>();
  return (
    <details
      class="commands"
      // Another person may have changed the list.
      onToggle={(event) => event.currentTarget.open && list.reload()}
    >
      <summary>{words.title(list.value?.items.length)}</summary>
      <Answer of={list}>
        {({ items }) => (
          <>
            {items.length === 0 && <p class="note">{words.none}</p>}
            <ul>
              {items.map((one) => (
                <li key={one.name}>
                  <Button
                    text={one.name}
                    aria-label={words.sendNamed(one.name)}
                    title={one.data}
                    disabled={props.busy}
                    onClick={() => props.onSend(draftOf(one))}
                  />
                  <Button
                    text={words.edit}
                    class="quiet"
                    aria-label={words.editNamed(one.name)}
                    onClick={() => edit({ name: one.name, draft: draftOf(one) })}
                  />
                </li>
              ))}
            </ul>
          </>
        )}
      </Answer>
      <Button
        text={words.saveCurrent}
        disabled={list.value === undefined || dataFault(props.draft) !== undefined}
        onClick={() => edit({ name: '', draft: props.draft })}
      />
      {editing !== undefined && <CommandDialog list={list} editing={editing} onClose={() => edit(undefined)} />}
    </details>
  );
}

function draftOf({ format, data, lineEnding }: LineCommand): Draft {
  return { format, data, lineEnding };
}

function CommandDialog(props: { list: Loaded<LineCommands>; editing: Editing; onClose: () => void }): JSX.Element {
  const { list, editing, onClose } = props;
  const { name: before, draft } = editing;
  const change = useChange(list);
  const doing = useDoing();
  const [name, setName] = useState(before);
  const [tried, setTried] = useState(false);
  const fault = nameFault(list.value?.items ?? [], name, before);
  const apply = (changed: (items: readonly LineCommand[]) => LineCommand[]): void =>
    void doing.run(() => change(changed)).then((well) => well && onClose());
  const save = (): void => {
    setTried(true);
    if (fault === undefined) apply((items) => withCommand(items, { name: name.trim(), ...draft }, before));
  };
  return (
    <Dialog title={before === '' ? words.saveTitle : words.editTitle} typed={name !== before} onClose={onClose}>
      <Form doing={doing} action={words.save} acting={words.saving} onSubmit={save}>
        <TextField label={words.name} fault={tried ? fault : undefined} value={name} onChange={setName} />
        <p class="note">
          {words.sends} <span class="mono">{draft.data}</span>
        </p>
      </Form>
      {before !== '' && (
        <div class="buttons">
          <Button
            text={words.remove}
            class="danger"
            disabled={doing.busy}
            onClick={() => apply((items) => withoutCommand(items, before))}
          />
        </div>
      )}
    </Dialog>
  );
}

/** Another person may have changed the list: it is read again, and what was typed stays for another try. */
function useChange(list: Loaded<LineCommands>) {
  const { api } = useSession();
  return async (changed: (items: readonly LineCommand[]) => LineCommand[]): Promise<void> => {
    const { version = 0, items = [] } = list.value ?? {};
    try {
      const body = { items: changed(items) };
      const saved = await api.send<LineCommands>('PUT', PATH, { body, ifMatch: version });
      if (saved !== undefined) list.put(saved);
    } catch (error) {
      if (problemFrom(error).status !== 412) throw error;
      list.put(await api.get<LineCommands>(PATH));
      throw new ProblemError(localProblem(words.changedTitle, words.changedDetail));
    }
  };
}
