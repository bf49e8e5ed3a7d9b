/** JSON, or the configuration, that is edited as text: in an editor that marks the faults at their lines, or in a plain field if the editor is not there. */
import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { LineFault } from '../../data/import-file.ts';
import { Field } from '../parts.tsx';
import type { JsonEditor } from './json-editor.ts';

type Editor = typeof JsonEditor;

/** Once it was loaded. */
let loaded: Editor | undefined;

interface Props {
  readonly label: string;
  readonly hint: string;
  readonly fault: string;
  /** Of the box, in lines of the text. */
  readonly faults: readonly LineFault[];
  readonly value: string;
  readonly onChange: (value: string) => void;
  /** It is no JSON. */
  readonly isPlain?: boolean;
  /** A line that is to be selected, once for each of these. */
  readonly at?: { readonly line: number } | undefined;
}

/** Where the plain field was when the editor took its place. */
interface Taken {
  readonly hadFocus: boolean;
  readonly from: number;
  readonly to: number;
}

export function JsonField(props: Props): JSX.Element {
  const plain = useRef<HTMLTextAreaElement>(null);
  const [state, setState] = useState<'loading' | 'plain' | Taken | undefined>(
    loaded === undefined ? 'loading' : undefined,
  );
  useEffect(() => {
    if (loaded !== undefined) return;
    import('./json-editor.ts').then(
      ({ JsonEditor: editor }) => {
        loaded = editor;
        const field = plain.current;
        // What was typed before stays where it is typed.
        setState((now) => (now === 'loading' && field !== null ? takenFrom(field) : now));
      },
      // The box is unreachable: the text is edited without the editor.
      () => setState('plain'),
    );
  }, []);
  const { value, onChange, label, hint, fault, at } = props;
  useLayoutEffect(() => {
    if (at !== undefined && plain.current !== null) selectLine(plain.current, at.line);
  }, [at]);
  const keepPlain = (): void => setState('plain');
  return (
    <Field label={label} hint={hint} fault={fault}>
      {(attributes) =>
        state === 'loading' || state === 'plain' ? (
          <textarea
            {...attributes}
            ref={plain}
            class={state === 'loading' ? 'mono loading' : 'mono'}
            rows={8}
            autoCapitalize="off"
            spellcheck={false}
            value={value}
            onCompositionStart={keepPlain}
            onInput={(event) => {
              keepPlain();
              onChange(event.currentTarget.value);
            }}
          />
        ) : (
          <Editing {...props} id={attributes.id} taken={state} />
        )
      }
    </Field>
  );
}

function selectLine(area: HTMLTextAreaElement, line: number): void {
  const lines = area.value.split('\n');
  const start = lines.slice(0, line - 1).reduce((sum, { length }) => sum + length + 1, 0);
  area.focus();
  area.setSelectionRange(start, start + (lines[line - 1] ?? '').length);
}

function takenFrom(field: HTMLTextAreaElement): Taken {
  return { hadFocus: document.activeElement === field, from: field.selectionStart, to: field.selectionEnd };
}

function Editing(props: Props & { id: string; taken: Taken | undefined }): JSX.Element {
  const { id, value, faults, taken, at, label, isPlain = false } = props;
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<JsonEditor>(undefined);
  const newest = useRef(props);
  newest.current = props;
  useLayoutEffect(() => {
    const element = host.current;
    if (element === null || loaded === undefined) return undefined;
    const about = { label, isJson: !isPlain };
    const made = new loaded(element, about, value, (typed) => newest.current.onChange(typed));
    editor.current = made;
    element.focus = () => made.focus();
    // A label focuses controls of the page alone.
    const words = document.querySelector<HTMLElement>(`label[for="${id}"]`);
    const focus = (): void => made.focus();
    words?.addEventListener('click', focus);
    if (taken !== undefined) made.select(taken.from, taken.to);
    if (taken?.hadFocus === true) made.focus();
    return () => {
      words?.removeEventListener('click', focus);
      made.destroy();
    };
  }, []);
  useLayoutEffect(() => editor.current?.set(value), [value]);
  useLayoutEffect(() => {
    if (at !== undefined) editor.current?.showLine(at.line);
  }, [at]);
  const note = props.fault === '' ? props.hint : props.fault;
  const marks = JSON.stringify(faults);
  useLayoutEffect(() => editor.current?.show(faults, note), [marks, note]);
  return <div class="code" id={id} ref={host} />;
}
