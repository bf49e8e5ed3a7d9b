/** What the views are made of. */
import type { ComponentChildren, JSX } from 'preact';
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Problem } from '../problem.ts';

export function ProblemBox({ problem }: { problem: Problem | undefined }): JSX.Element | null {
  if (problem === undefined) return null;
  return (
    <div class="problem" role="alert">
      <strong>{problem.title}</strong>
      {problem.detail !== '' && <p>{problem.detail}</p>}
      {problem.reasons.length > 0 && (
        <ul>
          {problem.reasons.map((reason) => (
            <li key={reason}>{reason}</li>
          ))}
        </ul>
      )}
      {problem.hint !== '' && <p class="hint">{problem.hint}</p>}
    </div>
  );
}

type FieldAttributes = { id: string; 'aria-describedby'?: string; 'aria-invalid'?: 'true' };

/** A label, its control, and what there is to say about it. */
export function Field(props: {
  label: string;
  hint?: string | undefined;
  fault?: string | undefined;
  class?: string;
  children: (attributes: FieldAttributes) => ComponentChildren;
}): JSX.Element {
  const id = useId();
  const { fault = '' } = props;
  const note = fault === '' ? (props.hint ?? '') : fault;
  return (
    <div class={`field ${props.class ?? ''}`}>
      <label for={id}>{props.label}</label>
      {props.children({
        id,
        ...(note !== '' && { 'aria-describedby': `${id}-note` }),
        ...(fault !== '' && { 'aria-invalid': 'true' as const }),
      })}
      {note !== '' && (
        <p id={`${id}-note`} class={fault === '' ? 'note' : 'note fault'}>
          {note}
        </p>
      )}
    </div>
  );
}

export function ReasonField(props: { hint: string; value: string; onChange: (reason: string) => void }): JSX.Element {
  return (
    <Field label="Reason" hint={props.hint}>
      {(attributes) => (
        <input
          {...attributes}
          autoComplete="off"
          value={props.value}
          onInput={(event) => props.onChange(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

export function Select<T extends string>(props: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
}): JSX.Element {
  return (
    <Field label={props.label}>
      {(attributes) => (
        <select
          {...attributes}
          value={props.value}
          onChange={(event) => props.onChange(event.currentTarget.value as T)}
        >
          {props.options.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export type Fact = readonly [name: string, value: ComponentChildren, state?: 'bad' | 'good' | undefined];

export function Facts({ of }: { of: readonly Fact[] }): JSX.Element {
  return (
    <dl class="facts">
      {of.map(([name, value, state]) => (
        <div key={name} class={state ?? ''}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Section(props: {
  title: string;
  children: ComponentChildren;
  class?: string;
  actions?: ComponentChildren;
}): JSX.Element {
  const id = useId();
  return (
    <section class={`card ${props.class ?? ''}`} aria-labelledby={id}>
      <div class="card-head">
        <h2 id={id}>{props.title}</h2>
        {props.actions}
      </div>
      {props.children}
    </section>
  );
}

/** The page's own heading; it takes the focus when a view is entered, or when what had the focus is gone. */
export function Heading({ children }: { children: ComponentChildren }): JSX.Element {
  return (
    <h1 id="title" tabIndex={-1}>
      {children}
    </h1>
  );
}

export function focusHeading(): void {
  document.getElementById('title')?.focus();
}

/** A modal dialog: the browser keeps the focus in it; afterwards it goes back to where it was, if that is still there. */
export function Dialog(props: {
  title: string;
  /** Of the button that only closes it. */
  leave?: 'Cancel' | 'Close';
  /** Something was typed: Esc asks before it is gone. */
  typed?: boolean;
  onClose: () => void;
  children: ComponentChildren;
}): JSX.Element {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  // At once: what is typed next is meant for it.
  useLayoutEffect(() => {
    const before = document.activeElement;
    const dialog = element.current;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
      else focusHeading();
    };
  }, []);
  const { onClose, typed = false } = props;
  const [asks, setAsks] = useState(false);
  const leave = (): void => (typed ? setAsks(true) : onClose());
  return (
    <dialog
      ref={element}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        leave();
      }}
      onKeyDown={(event) => {
        // A browser closes at the second Esc whatever is said to its "cancel".
        if (event.key !== 'Escape' || !typed) return;
        event.preventDefault();
        leave();
      }}
    >
      <div class="card-head">
        <h2 id={id}>{props.title}</h2>
        <button type="button" class="quiet" onClick={onClose}>
          {props.leave ?? 'Cancel'}
        </button>
      </div>
      {asks && (
        <div class="problem" role="alert">
          <p>Discard what was typed?</p>
          <div class="buttons">
            <button type="button" class="danger" onClick={onClose}>
              Discard
            </button>
            <button type="button" onClick={() => setAsks(false)}>
              Keep editing
            </button>
          </div>
        </div>
      )}
      {props.children}
    </dialog>
  );
}

/** More of a list, or a word where there is nothing. */
export function ListEnd(props: {
  count: number | undefined;
  hasMore: boolean;
  onMore: () => void;
  none: string;
}): JSX.Element | null {
  if (props.count === undefined) return <p class="note">Loading…</p>;
  if (props.hasMore) {
    return (
      <button type="button" onClick={props.onMore}>
        Show more
      </button>
    );
  }
  return props.count === 0 ? <p class="note">{props.none}</p> : null;
}
