/** The components of the views. */
import type { ButtonHTMLAttributes, ComponentChildren, ComponentType, InputHTMLAttributes, JSX, Ref } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { countText } from '../format.ts';
import { localProblem, type Problem } from '../problem.ts';
import { text } from '../text.ts';
import { type Doing, type Loaded, type Paged, useDoing } from './loading.ts';

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

/** The problems of the requests of one view: if the box does not answer, all of them fail alike, and it is shown once. */
export function Problems({ of }: { of: readonly { readonly problem: Problem | undefined }[] }): JSX.Element {
  const different = new Map(of.map(({ problem }) => [`${problem?.title} ${problem?.detail}`, problem]));
  return (
    <>
      {[...different].map(([key, problem]) => (
        <ProblemBox key={key} problem={problem} />
      ))}
    </>
  );
}

type FieldAttributes = { id: string; 'aria-describedby'?: string; 'aria-invalid'?: 'true' };

interface FieldProps {
  readonly label: string;
  readonly hint?: string | undefined;
  readonly fault?: string | undefined;
  readonly class?: string;
}

/** A label, its control, and its hint or fault. */
export function Field(
  props: FieldProps & { children: (attributes: FieldAttributes) => ComponentChildren },
): JSX.Element {
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

/** One line that is typed: nothing in it is corrected or completed by the browser, unless `input` says so. */
export function TextField(
  props: FieldProps & {
    value: string;
    onChange: (value: string) => void;
    input?: InputHTMLAttributes;
    inputRef?: Ref<HTMLInputElement>;
  },
): JSX.Element {
  const { value, onChange, input, inputRef, ...field } = props;
  return (
    <Field {...field}>
      {(attributes) => (
        <input
          {...attributes}
          ref={inputRef ?? null}
          autoComplete="off"
          autoCapitalize="off"
          spellcheck={false}
          {...input}
          value={value}
          onInput={(event) => onChange(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

export function ReasonField(props: { hint: string; value: string; onChange: (reason: string) => void }): JSX.Element {
  return <TextField label={text.parts.reason} input={{ autoCapitalize: 'on', spellcheck: true }} {...props} />;
}

export function Select<T extends string>(props: {
  label: string;
  hint?: string | undefined;
  fault?: string | undefined;
  value: T;
  /** A value, or a value with its words. */
  options: readonly (T | readonly [value: T, words: string])[];
  onChange: (value: T) => void;
}): JSX.Element {
  return (
    <Field label={props.label} hint={props.hint} fault={props.fault}>
      {(attributes) => (
        <select
          {...attributes}
          value={props.value}
          onChange={(event) => props.onChange(event.currentTarget.value as T)}
        >
          {props.options.map((option) => {
            const [value, words] = typeof option === 'string' ? [option, option] : option;
            return (
              <option key={value} value={value}>
                {words}
              </option>
            );
          })}
        </select>
      )}
    </Field>
  );
}

export function Button({ text: words, ...attributes }: ButtonHTMLAttributes & { text: string }): JSX.Element {
  return (
    <button type="button" {...attributes}>
      {words}
    </button>
  );
}

export type Fact = readonly [name: string, value: ComponentChildren, state?: 'bad' | 'good' | undefined];

/** A count that should be 0. */
export const badAbove0 = (name: string, count: number): Fact => [name, countText(count), count > 0 ? 'bad' : undefined];

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

/** The page's heading; it gets the focus when a view is entered, or when the focused element was removed. */
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

/** The first field of a dialog. None if the dialog asks before something is destroyed: there Enter must not confirm. */
function firstField(dialog: HTMLDialogElement): HTMLElement | undefined {
  if (dialog.querySelector('.danger[type=submit]') !== null) return undefined;
  const fields = dialog.querySelectorAll<HTMLElement>(':is(input, select, textarea):enabled, .code');
  return [...fields].find((field) => field.checkVisibility());
}

/**
 * A modal dialog: its first field gets the focus, the browser keeps the focus in the dialog, and afterwards the focus returns to its
 * element, if that still exists.
 */
export function Dialog(props: {
  title: string;
  /** Its first field is not there yet, and gets the focus once it is. */
  isLoading?: boolean;
  /** The text of the button that only closes it. */
  leave?: string;
  /** Something was typed: leaving asks before it discards that. */
  typed?: boolean;
  /** Before it closes because what was typed is to be discarded. */
  onDiscard?: () => void;
  onClose: () => void;
  children: ComponentChildren;
}): JSX.Element {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  // Before the next key press, which is meant for the dialog.
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
  const { isLoading = false } = props;
  useLayoutEffect(() => {
    // The button that leaves has the focus. A user who went elsewhere meanwhile stays there.
    const isMoved = document.activeElement?.closest('.card-head') === null;
    if (!isLoading && !isMoved && element.current !== null) firstField(element.current)?.focus();
  }, [isLoading]);
  const { onClose, typed = false } = props;
  const [asks, setAsks] = useState(false);
  const leave = (): void => (typed ? setAsks(true) : onClose());
  const discard = (): void => {
    props.onDiscard?.();
    onClose();
  };
  return (
    <dialog
      ref={element}
      aria-labelledby={id}
      onCancel={(event) => {
        // A choice of a file that is cancelled bubbles to here.
        if (event.target !== event.currentTarget) return;
        event.preventDefault();
        leave();
      }}
      onKeyDown={(event) => {
        // A browser closes at the second Esc even if "cancel" was prevented.
        if (event.key !== 'Escape' || !typed) return;
        event.preventDefault();
        leave();
      }}
    >
      <div class="dialog-head">
        <div class="card-head">
          <h2 id={id}>{props.title}</h2>
          <Button text={props.leave ?? text.parts.cancel} class="quiet" onClick={leave} />
        </div>
        {asks && (
          <div class="problem" role="alert">
            <p>{text.parts.discardQuestion}</p>
            <div class="buttons">
              <Button text={text.parts.discard} class="danger" onClick={discard} />
              <Button text={text.parts.keepEditing} onClick={() => setAsks(false)} />
            </div>
          </div>
        )}
      </div>
      {props.children}
    </dialog>
  );
}

/** Asks for the reason of something that is kept in the audit, then does it. */
export function ReasonDialog(props: {
  title: string;
  text: string;
  action: string;
  danger?: boolean;
  /** Rejects if it failed; the dialog stays then. */
  run: (reason: string) => Promise<void>;
  onClose: () => void;
}): JSX.Element {
  const [reason, setReason] = useState('');
  const doing = useDoing();
  const submit = (): void => void doing.run(() => props.run(reason)).then((well) => well && props.onClose());
  return (
    <Dialog title={props.title} typed={reason !== ''} onClose={props.onClose}>
      <Form doing={doing} action={props.action} danger={props.danger === true} onSubmit={submit}>
        <p>{props.text}</p>
        <ReasonField hint={text.parts.reasonHint} value={reason} onChange={setReason} />
      </Form>
    </Dialog>
  );
}

/** A form with one button, which stays in sight in a dialog; what went wrong is above its fields, and is brought into sight. */
export function Form(props: {
  doing: Doing;
  action: string;
  /** On the button while it is done. */
  acting?: string;
  danger?: boolean;
  onSubmit: () => void;
  /** The result, beside the button. */
  done?: string;
  children: ComponentChildren;
}): JSX.Element {
  const { doing, action, acting = action, done } = props;
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    form.current?.querySelector(':scope > .problem')?.scrollIntoView({ block: 'nearest' });
  }, [doing.problem]);
  const submit = (event: Event): void => {
    event.preventDefault();
    props.onSubmit();
  };
  return (
    <form ref={form} onSubmit={submit} noValidate>
      <ProblemBox problem={doing.problem} />
      {props.children}
      <div class="row foot">
        <button type="submit" class={props.danger === true ? 'danger' : 'main'} disabled={doing.busy}>
          {doing.busy ? acting : action}
        </button>
        {done !== undefined && <Done>{done}</Done>}
      </div>
    </form>
  );
}

/** A screen reader reads it when it changes. */
export function Done({ children }: { children: string }): JSX.Element {
  return (
    <span role="status" class="good">
      {children}
    </span>
  );
}

/** A requested value: its problem, the last answer, or a note until there is one of these. */
export function Answer<T>(props: { of: Loaded<T>; children: (value: T) => ComponentChildren }): JSX.Element {
  const { value, problem } = props.of;
  return (
    <>
      <ProblemBox problem={problem} />
      {value === undefined && problem === undefined && <p class="note">{text.parts.loading}</p>}
      {value !== undefined && props.children(value)}
    </>
  );
}

/** A part of the page that a browser loads when it is first shown. `class` and `children`: of what stands in its place meanwhile. */
export function OnDemand(props: {
  load: () => Promise<ComponentType>;
  class?: string;
  children?: ComponentChildren;
}): JSX.Element {
  const { load } = props;
  const [Part, setPart] = useState<ComponentType>();
  const [problem, setProblem] = useState<Problem>();
  useEffect(() => {
    load().then(
      (part) => setPart(() => part),
      (error: unknown) => setProblem(localProblem(text.parts.notLoaded, String(error), text.parts.reload)),
    );
  }, [load]);
  if (Part !== undefined) return <Part />;
  return (
    <div class={props.class ?? 'card'}>
      {props.children}
      <ProblemBox problem={problem} />
      {problem === undefined && <p class="note">{text.parts.loading}</p>}
    </div>
  );
}

/** A list in pages; `none`: the text of an empty list. */
export function Items<T>(props: { of: Paged<T>; none: string; children: (item: T) => JSX.Element }): JSX.Element {
  const { items, hasMore, more, problem } = props.of;
  return (
    <>
      <ProblemBox problem={problem} />
      <ul class="items">{items?.map(props.children)}</ul>
      {items === undefined && problem === undefined && <p class="note">{text.parts.loading}</p>}
      {hasMore && <Button text={text.parts.more} onClick={more} />}
      {items?.length === 0 && !hasMore && <p class="note">{props.none}</p>}
    </>
  );
}

/** Whether a media query matches now. */
export function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const update = (): void => setMatches(media.matches);
    media.addEventListener('change', update);
    return () => media.removeEventListener('change', update);
  }, [query]);
  return matches;
}

/** Bytes or text as they are, in a box that scrolls. */
export function Dump(props: { label: string; wraps?: boolean; children: ComponentChildren }): JSX.Element {
  return (
    <pre class={props.wraps === false ? 'dump' : 'dump wraps'} tabIndex={0} aria-label={props.label}>
      {props.children}
    </pre>
  );
}
