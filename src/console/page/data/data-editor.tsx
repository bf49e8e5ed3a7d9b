/** The data of a record, as the fields of its schema or as JSON: two views of one text. */
import type { JSX } from 'preact';
import { useId, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Dictionary } from '../../../shared/gen/http.ts';
import {
  changedObject,
  choicesOf,
  controlOf,
  faultOf,
  formFaults,
  linedFaults,
  orNone,
  pointerTo,
  rawOf,
  shownOf,
  undeclared,
} from '../../data/form.ts';
import type { LineFault } from '../../data/import-file.ts';
import { membersOf } from '../../data/json-text.ts';
import { dictionaryPath, objectFault } from '../../data/record.ts';
import { fieldsOf, type SchemaField } from '../../data/schema.ts';
import type { Problem } from '../../problem.ts';
import { text } from '../../text.ts';
import { useLoaded } from '../loading.ts';
import { Button, Field, Select, TextField } from '../parts.tsx';
import { useKept } from '../session.ts';
import { JsonField } from './json-field.tsx';

const say = text.data;

const editors = ['form', 'json'] as const;
type Editor = (typeof editors)[number];

/** What is wrong, by JSON pointer. */
type Faults = ReadonlyMap<string, string>;

interface Editing {
  /** Empty: there is only JSON. undefined: the schema is being loaded. */
  readonly fields: readonly SchemaField[] | undefined;
  readonly editor: Editor;
  readonly onEditor: (editor: Editor) => void;
  readonly faults: Faults;
  /** Those in the text. */
  readonly lines: readonly LineFault[];
}

/** A form by the schema of a dictionary. `others`: pointers of its fields beside those of the data. */
export function useSchemaForm(
  dictionary: string,
  problem: Problem | undefined,
  others: readonly string[],
  value: string,
) {
  const about = useLoaded<Dictionary>(dictionaryPath(dictionary), 0);
  const [editor, onEditor] = useKept('lineside.data.editor', editors);
  const isLoaded = about.value !== undefined || about.problem !== undefined;
  const fields = useMemo(() => (isLoaded ? fieldsOf(about.value?.schema) : undefined), [isLoaded, about.value]);
  // In the text there is no field that a fault could stand at.
  const shown = editor === 'form' ? (fields ?? []) : [];
  const { at, rest } = formFaults(problem, shown, others);
  const lined = shown.length > 0 ? { problem: rest, lines: [] } : linedFaults(rest, value, '/data');
  const form = useRef<HTMLDivElement>(null);
  // Together with the fault: a key press after it is meant for the field.
  useLayoutEffect(() => {
    if (problem !== undefined) form.current?.querySelector<HTMLElement>('[aria-invalid=true]')?.focus();
  }, [problem]);
  return {
    at,
    rest: lined.problem,
    form,
    editing: { fields, editor, onEditor, faults: at, lines: lined.lines } satisfies Editing,
  };
}

export function DataEditor(
  props: Editing & {
    value: string;
    onChange: (value: string) => void;
    /** Of the text as a whole; '': it is not said yet. */
    fault: string;
  },
): JSX.Element {
  const { fields, editor, value, onChange, faults } = props;
  if (fields === undefined) return <p class="note">{text.parts.loading}</p>;
  const broken = objectFault(value);
  const { fault, lines } = props;
  const json = (
    <JsonField label={say.data} hint={say.dataHint} fault={fault} faults={lines} value={value} onChange={onChange} />
  );
  if (fields.length === 0) return json;
  return (
    <>
      <div class="buttons" role="group" aria-label={say.form.editorsOf}>
        {editors.map((one) => (
          <Button
            key={one}
            text={say.form.editors[one]}
            aria-pressed={one === editor}
            onClick={() => props.onEditor(one)}
          />
        ))}
      </div>
      {editor === 'json' && json}
      {editor === 'form' && broken !== '' && <p class="note fault">{say.form.broken(broken)}</p>}
      {editor === 'form' && broken === '' && (
        <ObjectFields fields={fields} value={value} at="/data" faults={faults} onChange={onChange} />
      )}
    </>
  );
}

/** `value`: a JSON object; undefined: there is none yet. */
function ObjectFields(props: {
  fields: readonly SchemaField[];
  value: string | undefined;
  at: string;
  faults: Faults;
  onChange: (value: string) => void;
}): JSX.Element {
  const { fields, value, faults } = props;
  const members = membersOf(value ?? '{}');
  const others = undeclared(fields, members);
  return (
    <>
      {fields.map((field) => {
        const raw = members.get(field.name);
        const at = pointerTo(props.at, field.name);
        const change = (changed: string | undefined): void => props.onChange(changedObject(value, field, changed));
        return <OneField key={field.name} field={field} raw={raw} at={at} faults={faults} onChange={change} />;
      })}
      {others.length > 0 && <p class="note">{say.form.others(others)}</p>}
    </>
  );
}

function OneField(props: {
  field: SchemaField;
  raw: string | undefined;
  at: string;
  faults: Faults;
  onChange: (raw: string | undefined) => void;
}): JSX.Element {
  const { field, raw, at, faults } = props;
  const id = useId();
  const control = controlOf(field, raw);
  const shown = shownOf(field, raw);
  const fault = faults.get(at) ?? faultOf(field, raw);
  const common = {
    label: field.isRequired ? say.form.required(field.label) : field.label,
    hint: hintOf(field, control === 'list' ? say.form.oneALine : control === 'none' ? say.form.asJson : ''),
    fault,
  };
  const type = (typed: string): void => props.onChange(rawOf(field, typed));
  switch (control) {
    case 'choice':
      return <Select {...common} value={shown} options={choicesOf(field, shown)} onChange={type} />;
    case 'date':
      return <TextField {...common} value={shown} input={{ type: 'date' }} onChange={type} />;
    case 'list':
      return <ListField {...common} field={field} shown={shown} onChange={type} />;
    case 'object':
      return (
        <fieldset class="group" aria-describedby={id}>
          <legend>{common.label}</legend>
          <p id={id} class={fault === '' ? 'note' : 'note fault'}>
            {fault || field.hint}
          </p>
          <ObjectFields
            fields={field.fields}
            value={raw === 'null' ? undefined : raw}
            at={at}
            faults={faults}
            onChange={(changed) => props.onChange(orNone(field, changed))}
          />
        </fieldset>
      );
    case 'none':
      return (
        <div class="field">
          <strong>{common.label}</strong>
          <p class={fault === '' ? 'note' : 'note fault'}>{fault || common.hint}</p>
        </div>
      );
    case 'line':
      return <LineField {...common} kind={field.kind} value={shown} onChange={type} />;
  }
}

const hintOf = ({ hint }: SchemaField, more: string): string => [hint, more].filter((part) => part !== '').join(' ');

function LineField({ kind, ...field }: LinesProps & { kind: SchemaField['kind'] }): JSX.Element {
  // One line would lose the others.
  if (field.value.includes('\n')) return <LinesField {...field} />;
  return <TextField {...field} input={kind === 'number' || kind === 'integer' ? { inputMode: 'decimal' } : {}} />;
}

interface LinesProps {
  readonly label: string;
  readonly hint: string;
  readonly fault: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

function LinesField({ value, onChange, ...field }: LinesProps): JSX.Element {
  return (
    <Field {...field}>
      {(attributes) => (
        <textarea
          {...attributes}
          rows={3}
          autoCapitalize="off"
          spellcheck={false}
          value={value}
          onInput={(event) => onChange(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

/** An empty line is no value, but the next one begins with it. */
function ListField(props: Omit<LinesProps, 'value'> & { field: SchemaField; shown: string }): JSX.Element {
  const { field, shown, onChange, ...common } = props;
  const [typed, setTyped] = useState(shown);
  const isSame = rawOf(field, typed) === rawOf(field, shown);
  const type = (next: string): void => {
    setTyped(next);
    onChange(next);
  };
  return <LinesField {...common} value={isSame ? typed : shown} onChange={type} />;
}
