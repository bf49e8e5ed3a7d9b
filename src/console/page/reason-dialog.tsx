/** Asks for the reason of something that is kept in the audit, then does it. */
import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { useDoing } from './loading.ts';
import { Dialog, Field, ProblemBox } from './parts.tsx';

export function ReasonDialog(props: {
  title: string;
  text: string;
  action: string;
  danger?: boolean;
  children?: ComponentChildren;
  /** Rejects where it failed; the dialog stays then. */
  run: (reason: string) => Promise<void>;
  onClose: () => void;
}): JSX.Element {
  const [reason, setReason] = useState('');
  const doing = useDoing();
  const submit = (event: Event): void => {
    event.preventDefault();
    void doing.run(() => props.run(reason)).then((well) => well && props.onClose());
  };
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      <form onSubmit={submit}>
        <p>{props.text}</p>
        {props.children}
        <ProblemBox problem={doing.problem} />
        <Field label="Reason" hint="It is kept with the change.">
          {(attributes) => (
            <input
              {...attributes}
              autoComplete="off"
              value={reason}
              onInput={(event) => setReason(event.currentTarget.value)}
            />
          )}
        </Field>
        <button type="submit" class={props.danger === true ? 'danger' : 'main'} disabled={doing.busy}>
          {props.action}
        </button>
      </form>
    </Dialog>
  );
}
