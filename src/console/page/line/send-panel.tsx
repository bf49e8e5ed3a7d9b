/** What is sent: once, or repeated. It stays in the field until the line has accepted it; text that is typed meanwhile stays too. */
import type { JSX, RefObject } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { hexText } from '../../../shared/log-formats/byte-text.ts';
import { plural } from '../../format.ts';
import { bytesOf, type Draft, isRefusal, isSame, readSeconds, recalled } from '../../line/sending.ts';
import { type Problem, problemFrom } from '../../problem.ts';
import { text } from '../../text.ts';
import { useLine } from '../line-status.tsx';
import { useDoing } from '../loading.ts';
import { Button, ProblemBox, Section, Select, TextField } from '../parts.tsx';
import { useKept, useSession } from '../session.ts';
import { SavedCommands } from './saved-commands.tsx';
import { SendFileDialog } from './send-file-dialog.tsx';

const words = text.send;
/** Bytes of the preview. */
const SHOWN_BYTES = 48;
const MAX_REMEMBERED = 20;

interface Said {
  readonly sent: string;
  readonly unsent: Draft | undefined;
}

const nothingSaid: Said = { sent: '', unsent: undefined };

export function SendPanel({ isShown }: { isShown: boolean }): JSX.Element {
  const sending = useSending();
  const { draft, doing, send, setDraft } = sending;
  const [file, setFile] = useState(false);
  const repeating = useRepeating(sending.post, isShown);
  const read = bytesOf(draft);
  const sendSaved = (saved: Draft): void => {
    const found = bytesOf(saved);
    // A fault is shown where it can be corrected.
    if ('fault' in found) setDraft(() => saved);
    else send(saved, found.bytes);
  };
  return (
    <Section
      title={words.title}
      class="send"
      actions={<Button text={words.file.open} class="quiet" onClick={() => setFile(true)} />}
    >
      <SendForm sending={sending} />
      <RepeatForm repeating={repeating} bytes={'bytes' in read ? read.bytes : new Uint8Array()} />
      <SavedCommands draft={draft} busy={doing.busy} onSend={sendSaved} />
      {file && <SendFileDialog onClose={() => setFile(false)} />}
    </Section>
  );
}

/** The draft, and the packet in flight: one after the other. */
function useSending() {
  const { api } = useSession();
  const [draft, setDraft] = useDraft();
  const [said, say] = useState(nothingSaid);
  const remembered = useRef<readonly Draft[]>([]);
  const doing = useDoing();
  const post = (payload: Uint8Array): Promise<unknown> =>
    api.send('POST', '/api/v1/line/send', { body: { hex: hexText(payload) } });
  const remember = (one: Draft): void => {
    const others = remembered.current.filter((other) => !isSame(other, one));
    remembered.current = [one, ...others].slice(0, MAX_REMEMBERED);
  };
  const send = (one: Draft, payload: Uint8Array): void => {
    say(nothingSaid);
    remember(one);
    const run = async (): Promise<void> => {
      await post(payload);
    };
    void doing.run(run).then((well) => {
      if (!well) return say({ sent: '', unsent: one });
      say({ sent: words.sent(plural(payload.length, 'byte')), unsent: undefined });
      // What was typed since waits in the field.
      setDraft((now) => (isSame(now, one) ? { ...now, data: '' } : now));
    });
  };
  const putBack = (unsent: Draft): void => {
    // Text typed since is remembered.
    if (draft.data !== '') remember(draft);
    setDraft(() => unsent);
    say(nothingSaid);
  };
  return { draft, setDraft, said, remembered, doing, post, send, putBack };
}

function SendForm({ sending }: { sending: ReturnType<typeof useSending> }): JSX.Element {
  const { draft, doing, said } = sending;
  const [tried, setTried] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  const read = bytesOf(draft);
  const bytes = 'bytes' in read ? read.bytes : new Uint8Array();
  const submit = (event: Event): void => {
    event.preventDefault();
    input.current?.focus();
    setTried(true);
    if (bytes.length === 0 || doing.busy) return;
    setTried(false);
    // What is typed next replaces what is in flight.
    input.current?.select();
    sending.send(draft, bytes);
  };
  const putBack = (unsent: Draft): void => {
    sending.putBack(unsent);
    input.current?.focus();
  };
  const empty = tried && bytes.length === 0 ? words.nothingTyped : undefined;
  return (
    <form onSubmit={submit}>
      <ProblemBox problem={doing.problem} />
      {said.unsent !== undefined && (
        <Unsent draft={said.unsent} now={draft} problem={doing.problem} onPutBack={putBack} />
      )}
      <DraftFields
        draft={draft}
        fault={'fault' in read ? read.fault : empty}
        input={input}
        onChange={(next) => sending.setDraft(() => next)}
        remembered={() => sending.remembered.current}
      />
      <p class="note preview">
        {words.willSend(bytes.length === 0 ? words.nothing : `${plural(bytes.length, 'byte')}: `)}
        <span class="mono">{hexText(bytes, SHOWN_BYTES)}</span>
      </p>
      <div class="row">
        <button type="submit" class="main">
          {doing.busy ? words.sending : words.send}
        </button>
        <span role="status" class="note">
          {said.sent}
        </span>
      </div>
    </form>
  );
}

/** Format and line ending are kept in the browser. */
function useDraft() {
  const [format, keepFormat] = useKept('lineside.send.format', ['text', 'hex']);
  const [lineEnding, keepEnding] = useKept('lineside.send.ending', ['none', 'lf', 'cr', 'crlf']);
  const [draft, setDraft] = useState<Draft>({ data: '', format, lineEnding });
  useEffect(() => {
    if (draft.format !== format) keepFormat(draft.format);
    if (draft.lineEnding !== lineEnding) keepEnding(draft.lineEnding);
  }, [draft]);
  return [draft, setDraft] as const;
}

/** It was not accepted. The field has it still, unless another text was typed meanwhile. */
function Unsent(props: {
  draft: Draft;
  now: Draft;
  problem: Problem | undefined;
  onPutBack: (draft: Draft) => void;
}): JSX.Element {
  const { draft, problem } = props;
  return (
    <p class="unsent">
      {problem !== undefined && isRefusal(problem) ? words.unsent : words.unknown}
      <span class="mono">{draft.data}</span>{' '}
      {!isSame(draft, props.now) && <Button text={words.putBack} onClick={() => props.onPutBack(draft)} />}
    </p>
  );
}

interface Repeating {
  readonly isOn: boolean;
  readonly said: string;
  readonly start: (payload: Uint8Array, everyMs: number) => void;
  readonly stop: (why: string) => void;
}

/** The next packet is sent a time after the one before was accepted: the page never has two in flight. */
function useRepeating(post: (payload: Uint8Array) => Promise<unknown>, isShown: boolean): Repeating {
  const portState = useLine().value?.portState;
  const [isOn, setOn] = useState(false);
  const [said, say] = useState('');
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  /** Of the one that runs: an answer to an earlier one changes nothing. */
  const run = useRef(0);
  const count = useRef(0);
  const stop = (why: string): void => {
    run.current += 1;
    clearTimeout(timer.current);
    setOn(false);
    if (why !== '') say(words.repeated(plural(count.current, 'time'), why));
  };
  const start = (payload: Uint8Array, everyMs: number): void => {
    run.current += 1;
    const mine = run.current;
    count.current = 0;
    setOn(true);
    const turn = async (): Promise<void> => {
      try {
        await post(payload);
      } catch (error) {
        const { title, detail } = problemFrom(error);
        if (run.current === mine) stop(words.stopped.refused([title, detail].filter((one) => one !== '').join(': ')));
        return;
      }
      if (run.current !== mine) return;
      count.current += 1;
      say(words.repeating(plural(count.current, 'time')));
      timer.current = setTimeout(() => void turn(), everyMs);
    };
    void turn();
  };
  useEffect(() => {
    if (isOn && !isShown) stop(words.stopped.viewLeft);
    else if (isOn && portState !== undefined && portState !== 'open') stop(words.stopped.portNotOpen);
  }, [isOn, isShown, portState]);
  useEffect(() => () => stop(''), []);
  return { isOn, said, start, stop };
}

function RepeatForm({ repeating, bytes }: { repeating: Repeating; bytes: Uint8Array }): JSX.Element {
  const [typed, setTyped] = useState('1');
  const read = readSeconds(typed);
  const [tried, setTried] = useState(false);
  const submit = (event: Event): void => {
    event.preventDefault();
    if (repeating.isOn) return repeating.stop(words.stopped.byUser);
    setTried(bytes.length === 0);
    if ('seconds' in read && bytes.length > 0) repeating.start(bytes, read.seconds * 1_000);
  };
  const nothing = tried && bytes.length === 0 ? words.nothingTyped : undefined;
  return (
    <form class="repeat" onSubmit={submit} noValidate>
      <TextField
        label={words.seconds}
        fault={'fault' in read ? read.fault : nothing}
        input={{ inputMode: 'decimal' }}
        value={typed}
        onChange={setTyped}
      />
      <button type="submit">{repeating.isOn ? words.stopRepeating : words.repeat}</button>
      <p role="status" class="note">
        {repeating.said}
      </p>
    </form>
  );
}

function DraftFields(props: {
  draft: Draft;
  fault: string | undefined;
  input: RefObject<HTMLInputElement | null>;
  onChange: (draft: Draft) => void;
  remembered: () => readonly Draft[];
}): JSX.Element {
  const { draft, onChange } = props;
  const isHex = draft.format === 'hex';
  const recall = (event: KeyboardEvent): void => {
    const found = recalled(draft, props.remembered(), event.key);
    if (found === undefined) return;
    event.preventDefault();
    onChange(found);
  };
  return (
    <>
      <TextField
        label={isHex ? words.hex : words.text}
        hint={isHex ? words.hexHint : words.textHint}
        fault={props.fault}
        input={{ class: 'mono', onKeyDown: recall }}
        inputRef={props.input}
        value={draft.data}
        onChange={(data) => onChange({ ...draft, data })}
      />
      <div class="row">
        <Select
          label={words.format}
          value={draft.format}
          options={['text', 'hex']}
          onChange={(format) => onChange({ ...draft, format })}
        />
        {!isHex && (
          <Select
            label={words.endWith}
            value={draft.lineEnding}
            options={text.endings}
            onChange={(lineEnding) => onChange({ ...draft, lineEnding })}
          />
        )}
      </div>
    </>
  );
}
