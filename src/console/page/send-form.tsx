/** Something to send. What is typed while a packet is on its way stays; what could not be sent is not lost either. */
import type { JSX, RefObject } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { hexText } from '../bytes.ts';
import { bytesOfHex, bytesOfText, type Typed } from '../escapes.ts';
import { plural } from '../format.ts';
import { useDoing } from './loading.ts';
import { Field, ProblemBox, Section, Select } from './parts.tsx';
import { useSession } from './session.ts';

const endings = [
  ['', 'nothing'],
  ['\\n', '\\n'],
  ['\\r', '\\r'],
  ['\\r\\n', '\\r\\n'],
] as const;
/** Of what will be sent, as many bytes are shown. */
const SHOWN_BYTES = 48;
const MAX_REMEMBERED = 20;

interface Draft {
  readonly typed: string;
  readonly as: 'text' | 'hex';
  readonly end: (typeof endings)[number][0];
}

export function SendForm(): JSX.Element {
  const { api } = useSession();
  const [draft, setDraft] = useState<Draft>({ typed: '', as: 'text', end: '' });
  const [said, say] = useState({ sent: '', unsent: '' });
  const [tried, setTried] = useState(false);
  const remembered = useRef<string[]>([]);
  const input = useRef<HTMLInputElement>(null);
  const doing = useDoing();
  const read = bytesOf(draft);
  const bytes = 'bytes' in read ? read.bytes : new Uint8Array();
  const type = (typed: string): void => setDraft((was) => ({ ...was, typed }));

  const submit = (event: Event): void => {
    event.preventDefault();
    input.current?.focus();
    const { typed } = draft;
    setTried(true);
    // One after the other; what is typed meanwhile waits in the field.
    if (bytes.length === 0 || doing.busy) return;
    setTried(false);
    type('');
    say({ sent: '', unsent: '' });
    remembered.current = [typed, ...remembered.current.filter((one) => one !== typed)].slice(0, MAX_REMEMBERED);
    const send = async (): Promise<void> => {
      await api.send('POST', '/api/v1/line/send', { body: { hex: hexText(bytes) } });
    };
    void doing
      .run(send)
      .then((well) =>
        say(well ? { sent: `${plural(bytes.length, 'byte')} sent`, unsent: '' } : { sent: '', unsent: typed }),
      );
  };
  const putBack = (): void => {
    type(said.unsent);
    say({ sent: '', unsent: '' });
    input.current?.focus();
  };
  const empty = tried && bytes.length === 0 ? 'Nothing was typed yet.' : undefined;
  return (
    <Section title="Send" class="send">
      <form onSubmit={submit}>
        <ProblemBox problem={doing.problem} />
        {said.unsent !== '' && (
          <p class="unsent">
            Not sent: <span class="mono">{said.unsent}</span>{' '}
            <button type="button" onClick={putBack}>
              Put it back
            </button>
          </p>
        )}
        <DraftFields
          draft={draft}
          fault={'fault' in read ? read.fault : empty}
          input={input}
          onChange={setDraft}
          latest={() => remembered.current[0]}
        />
        <p class="note preview">
          {bytes.length === 0 ? 'Will be sent: nothing' : `Will be sent: ${plural(bytes.length, 'byte')}: `}
          <span class="mono">{hexText(bytes, SHOWN_BYTES)}</span>
        </p>
        <div class="row">
          <button type="submit" class="main">
            {doing.busy ? 'Sending…' : 'Send'}
          </button>
          <span role="status" class="note">
            {said.sent}
          </span>
        </div>
      </form>
    </Section>
  );
}

function bytesOf({ typed, as, end }: Draft): Typed {
  if (as === 'hex') return bytesOfHex(typed);
  const text = bytesOfText(typed);
  // The fault is one of what was typed, not of the ending behind it.
  return 'fault' in text || typed === '' ? text : bytesOfText(typed + end);
}

function DraftFields(props: {
  draft: Draft;
  fault: string | undefined;
  input: RefObject<HTMLInputElement | null>;
  onChange: (draft: Draft) => void;
  latest: () => string | undefined;
}): JSX.Element {
  const { draft, onChange } = props;
  const isHex = draft.as === 'hex';
  const recall = (event: KeyboardEvent): void => {
    const latest = props.latest();
    if (event.key !== 'ArrowUp' || draft.typed !== '' || latest === undefined) return;
    event.preventDefault();
    onChange({ ...draft, typed: latest });
  };
  return (
    <>
      <Field
        label={isHex ? 'Bytes in hex' : 'Text'}
        hint={isHex ? 'For example 48 65 6c 0d' : 'Escapes: \\n \\r \\t \\0 \\\\ \\xNN'}
        fault={props.fault}
      >
        {(attributes) => (
          <input
            {...attributes}
            ref={props.input}
            class="mono"
            autoComplete="off"
            autoCapitalize="off"
            spellcheck={false}
            value={draft.typed}
            onInput={(event) => onChange({ ...draft, typed: event.currentTarget.value })}
            onKeyDown={recall}
          />
        )}
      </Field>
      <div class="row">
        <Select
          label="Typed as"
          value={draft.as}
          options={[
            ['text', 'text'],
            ['hex', 'hex'],
          ]}
          onChange={(as) => onChange({ ...draft, as })}
        />
        {!isHex && (
          <Select
            label="End with"
            value={draft.end}
            options={endings}
            onChange={(end) => onChange({ ...draft, end })}
          />
        )}
      </div>
    </>
  );
}
