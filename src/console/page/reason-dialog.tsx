/** Asks for the reason of something that is kept in the audit, then does it. */
import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { useDoing } from './loading.ts';
import { Dialog, ProblemBox, ReasonField } from './parts.tsx';

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
    <Dialog title={props.title} typed={reason !== ''} onClose={props.onClose}>
      <form onSubmit={submit}>
        <p>{props.text}</p>
        {props.children}
        <ProblemBox problem={doing.problem} />
        <ReasonField hint="It is kept with the change." value={reason} onChange={setReason} />
        <button type="submit" class={props.danger === true ? 'danger' : 'main'} disabled={doing.busy}>
          {props.action}
        </button>
      </form>
    </Dialog>
  );
}
