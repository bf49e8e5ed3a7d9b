/** What is sent. Text typed while a packet is in flight stays; text that could not be sent is not lost. */
import type { JSX, RefObject } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { hexText } from '../../../shared/log-formats/byte-text.ts';
import { bytesOfHex, bytesOfText, type Typed } from '../../bytes.ts';
import { plural } from '../../format.ts';
import type { Problem } from '../../problem.ts';
import { useDoing } from '../loading.ts';
import { Button, ProblemBox, Section, Select, TextField } from '../parts.tsx';
import { useSession } from '../session.ts';

const endings = [['', 'nothing'], '\\n', '\\r', '\\r\\n'] as const;
/** Bytes of the preview. */
const SHOWN_BYTES = 48;
const MAX_REMEMBERED = 20;

interface Draft {
  readonly typed: string;
  readonly as: 'text' | 'hex';
  readonly end: '' | '\\n' | '\\r' | '\\r\\n';
}

interface Said {
  readonly sent: string;
  readonly unsent: Draft | undefined;
}

export function SendPanel(): JSX.Element {
  const { api } = useSession();
  const [draft, setDraft] = useState<Draft>({ typed: '', as: 'text', end: '' });
  const [said, say] = useState<Said>({ sent: '', unsent: undefined });
  const [tried, setTried] = useState(false);
  const remembered = useRef<readonly Draft[]>([]);
  const input = useRef<HTMLInputElement>(null);
  const doing = useDoing();
  const read = bytesOf(draft);
  const bytes = 'bytes' in read ? read.bytes : new Uint8Array();
  const remember = (one: Draft): void => {
    const others = remembered.current.filter((other) => !isSame(other, one));
    remembered.current = [one, ...others].slice(0, MAX_REMEMBERED);
  };
  const type = (typed: string): void => setDraft((was) => ({ ...was, typed }));

  const submit = (event: Event): void => {
    event.preventDefault();
    input.current?.focus();
    setTried(true);
    // One after the other; what is typed meanwhile waits in the field.
    if (bytes.length === 0 || doing.busy) return;
    setTried(false);
    type('');
    say({ sent: '', unsent: undefined });
    remember(draft);
    const send = async (): Promise<void> => {
      await api.send('POST', '/api/v1/line/send', { body: { hex: hexText(bytes) } });
    };
    void doing
      .run(send)
      .then((well) =>
        say(well ? { sent: `${plural(bytes.length, 'byte')} sent`, unsent: undefined } : { sent: '', unsent: draft }),
      );
  };
  const putBack = (unsent: Draft): void => {
    // Text typed since is remembered.
    if (draft.typed !== '') remember(draft);
    setDraft(unsent);
    say({ sent: '', unsent: undefined });
    input.current?.focus();
  };
  const empty = tried && bytes.length === 0 ? 'Nothing was typed yet.' : undefined;
  return (
    <Section title="Send" class="send">
      <form onSubmit={submit}>
        <ProblemBox problem={doing.problem} />
        {said.unsent !== undefined && <Unsent draft={said.unsent} problem={doing.problem} onPutBack={putBack} />}
        <DraftFields
          draft={draft}
          fault={'fault' in read ? read.fault : empty}
          input={input}
          onChange={setDraft}
          remembered={() => remembered.current}
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

/** A refused packet was not sent. Without an answer, or after a server error, it is unknown how much was sent. */
function Unsent(props: { draft: Draft; problem: Problem | undefined; onPutBack: (draft: Draft) => void }): JSX.Element {
  const { draft, problem } = props;
  const isRefused = problem !== undefined && problem.status >= 400 && problem.status < 500;
  return (
    <p class="unsent">
      {isRefused ? 'Not sent: ' : 'Not known whether this was sent, the log may show it: '}
      <span class="mono">{draft.typed}</span> <Button text="Put it back" onClick={() => props.onPutBack(draft)} />
    </p>
  );
}

function isSame(one: Draft, other: Draft): boolean {
  return one.typed === other.typed && one.as === other.as && one.end === other.end;
}

function bytesOf({ typed, as, end }: Draft): Typed {
  if (as === 'hex') return bytesOfHex(typed);
  const text = bytesOfText(typed);
  // The fault is one of what was typed, not of the ending behind it.
  return 'fault' in text || typed === '' ? text : bytesOfText(typed + end);
}

/** One back with the arrow up, one forth with the arrow down; undefined: the key is to do what it does. */
function recalled(draft: Draft, all: readonly Draft[], key: string): Draft | undefined {
  const step = key === 'ArrowUp' ? 1 : key === 'ArrowDown' ? -1 : 0;
  const at = draft.typed === '' ? -1 : all.findIndex((one) => isSame(one, draft));
  // Text that is being typed is not overwritten.
  if (step === 0 || (at === -1 && draft.typed !== '')) return undefined;
  return all[at + step] ?? (step === -1 && at === 0 ? { ...draft, typed: '' } : undefined);
}

function DraftFields(props: {
  draft: Draft;
  fault: string | undefined;
  input: RefObject<HTMLInputElement | null>;
  onChange: (draft: Draft) => void;
  remembered: () => readonly Draft[];
}): JSX.Element {
  const { draft, onChange } = props;
  const isHex = draft.as === 'hex';
  const recall = (event: KeyboardEvent): void => {
    const found = recalled(draft, props.remembered(), event.key);
    if (found === undefined) return;
    event.preventDefault();
    onChange(found);
  };
  return (
    <>
      <TextField
        label={isHex ? 'Bytes in hex' : 'Text'}
        hint={isHex ? 'For example 48 65 6c 0d' : 'Escapes: \\n \\r \\t \\0 \\\\ \\xNN'}
        fault={props.fault}
        input={{ class: 'mono', onKeyDown: recall }}
        inputRef={props.input}
        value={draft.typed}
        onChange={(typed) => onChange({ ...draft, typed })}
      />
      <div class="row">
        <Select
          label="Format"
          value={draft.as}
          options={['text', 'hex']}
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
