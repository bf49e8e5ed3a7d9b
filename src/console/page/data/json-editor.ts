/**
 * An editor of JSON, and of the configuration: CodeMirror in a shadow root. There its styles are adopted style sheets, which the content security policy allows;
 * in the document they would be a <style> element.
 */
import { history, historyKeymap, standardKeymap } from '@codemirror/commands';
import { json } from '@codemirror/lang-json';
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting, syntaxTree } from '@codemirror/language';
import { type Diagnostic, lintGutter, setDiagnostics } from '@codemirror/lint';
import { Annotation, Compartment, EditorState } from '@codemirror/state';
import { EditorView, highlightSpecialChars, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import type { LineFault } from '../../data/import-file.ts';
import { syntaxFaultAt } from '../../data/json-text.ts';
import { objectFault } from '../../data/record.ts';
import { text } from '../../text.ts';

/** While a text is typed it has faults that are none. */
const PAUSE_MS = 500;
const ABOUT = 'about';

/** Of the text as it was set, not as the user typed it. */
const given = Annotation.define<boolean>();

export class JsonEditor {
  readonly #view: EditorView;
  readonly #about = document.createElement('p');
  readonly #attributes = new Compartment();
  readonly #label: string;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #faults: readonly LineFault[] = [];
  #note = '';
  readonly #isJson: boolean;

  constructor(
    host: HTMLElement,
    { label, isJson }: { readonly label: string; readonly isJson: boolean },
    value: string,
    onChange: (value: string) => void,
  ) {
    const root = host.attachShadow({ mode: 'open' });
    this.#label = label;
    this.#isJson = isJson;
    this.#about.id = ABOUT;
    // An element of the page cannot describe one of a shadow root. Hidden, it is not read twice.
    this.#about.hidden = true;
    this.#view = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: value,
        extensions: [
          lineNumbers(),
          lintGutter(),
          history(),
          isJson ? [json(), indentOnInput(), bracketMatching()] : [],
          // A sign that turns the direction of the text, or has no width, would hide what is sent.
          highlightSpecialChars(),
          EditorView.lineWrapping,
          EditorState.phrases.of({ 'Control character': text.data.controlCharacter }),
          // Tab and Esc are not among these: Tab leaves the editor, Esc leaves the dialog.
          keymap.of([...standardKeymap, ...historyKeymap]),
          look,
          syntaxHighlighting(colours),
          this.#attributes.of(this.#attributesOf(false)),
          EditorView.updateListener.of(({ docChanged, transactions, state }) => {
            if (!docChanged) return;
            this.#check();
            if (transactions.every((one) => one.annotation(given) !== true)) onChange(state.doc.toString());
          }),
        ],
      }),
    });
    root.append(this.#about);
    this.#check();
  }

  get value(): string {
    return this.#view.state.doc.toString();
  }

  /** Text that was not typed here. It can be undone. */
  set(value: string): void {
    if (value === this.value) return;
    const { length } = this.#view.state.doc;
    this.#view.dispatch({ changes: { from: 0, to: length, insert: value }, annotations: given.of(true) });
  }

  /** `faults`: of the box. `note`: what stands below the editor. */
  show(faults: readonly LineFault[], note: string): void {
    this.#faults = faults;
    this.#note = note;
    this.#mark();
  }

  focus(): void {
    this.#view.focus();
  }

  select(from: number, to: number): void {
    this.#view.dispatch({ selection: { anchor: from, head: to } });
  }

  /** From 1. */
  showLine(line: number): void {
    const { doc } = this.#view.state;
    const { from, to } = doc.line(Math.min(line, doc.lines));
    this.#view.dispatch({ selection: { anchor: from, head: to }, scrollIntoView: true });
    this.focus();
  }

  destroy(): void {
    clearTimeout(this.#timer);
    this.#view.destroy();
  }

  #check(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#mark(), PAUSE_MS);
  }

  #mark(): void {
    const { state } = this.#view;
    const found = [...(this.#isJson ? syntaxFaults(state) : []), ...this.#faults.map((one) => ofLine(state, one))];
    const lines = found.map(({ from, message }) => text.data.form.atLine(state.doc.lineAt(from).number, message));
    const isInLines = found.some(({ message }) => message === this.#note);
    this.#about.textContent = [...(isInLines ? [] : [this.#note]), ...lines].join(' ');
    this.#view.dispatch(setDiagnostics(state, found), {
      effects: this.#attributes.reconfigure(this.#attributesOf(found.length > 0)),
    });
  }

  #attributesOf(isInvalid: boolean) {
    return EditorView.contentAttributes.of({
      'aria-label': this.#label,
      // It is in the order of Tab without that, which checkers of a region that scrolls do not know.
      tabindex: '0',
      'aria-describedby': ABOUT,
      ...(isInvalid && { 'aria-invalid': 'true' }),
    });
  }
}

function syntaxFaults(state: EditorState): readonly Diagnostic[] {
  const value = state.doc.toString();
  const message = value.trim() === '' ? '' : objectFault(value);
  if (message === '') return [];
  const from = Math.min(syntaxFaultAt(value, message) ?? firstError(state), state.doc.length);
  return [{ from, to: state.doc.lineAt(from).to, severity: 'error', message }];
}

/** A browser does not say where every fault is: then where the editor's own parser found the first. */
function firstError(state: EditorState): number {
  let found: number | undefined;
  syntaxTree(state).iterate({
    enter: ({ type, from }) => {
      if (type.isError) found ??= from;
    },
  });
  return found ?? 0;
}

function ofLine({ doc }: EditorState, { line, fault }: LineFault): Diagnostic {
  const { from, to, text: words } = doc.line(Math.min(line, doc.lines));
  return { from: from + words.length - words.trimStart().length, to, severity: 'error', message: fault };
}

// Colours and sizes of the page; its variables are inherited.

const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: 'var(--rx)' },
  { tag: tags.string, color: 'var(--good)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--tx)' },
]);

const look = EditorView.theme({
  '&': {
    border: '1px solid var(--edge)',
    borderRadius: '6px',
    backgroundColor: 'var(--card)',
    color: 'var(--ink)',
    fontSize: '1rem',
    overflow: 'hidden',
  },
  '&.cm-focused': { outline: '3px solid var(--focus)', outlineOffset: '2px' },
  '.cm-scroller': {
    fontFamily: 'var(--mono)',
    lineHeight: '1.45',
    maxHeight: '50vh',
    overflow: 'auto',
  },
  '.cm-content': { caretColor: 'var(--ink)' },
  // The height of a text field with 8 lines.
  '.cm-content, .cm-gutter': { minHeight: '8lh' },
  '.cm-gutters': { backgroundColor: 'var(--ground)', color: 'var(--soft)', borderRight: '1px solid var(--line)' },
  '.cm-gutter-lint': { width: '1ch' },
  '.cm-gutter-lint .cm-gutterElement': { padding: '0' },
  '.cm-lint-marker': { width: '1ch', height: 'auto' },
  '.cm-lint-marker-error': { content: 'normal', color: 'var(--bad)', fontWeight: '700' },
  '.cm-lint-marker-error::before': { content: '"!"' },
  '.cm-lintRange-error': { backgroundImage: 'none', textDecoration: 'underline wavy var(--bad)', paddingBottom: '0' },
  '.cm-tooltip': { backgroundColor: 'var(--card)', color: 'var(--ink)', border: '1px solid var(--edge)' },
  '.cm-diagnostic-error': { borderLeft: '5px solid var(--bad)' },
  '.cm-specialChar': { color: 'var(--bad)' },
  '&.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--marked-ground)' },
  '&.cm-focused .cm-nonmatchingBracket': { backgroundColor: 'var(--bad-ground)' },
});
