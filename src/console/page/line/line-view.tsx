/** The line: its log as it grows, the port, and something to send. */
import type { JSX, RefObject } from 'preact';
import { useRef, useState } from 'preact/hooks';
import type { LinePorts, LineStatus } from '../../../shared/gen/http.ts';
import { bytesOfHex, bytesOfText, hexText, type Typed } from '../../bytes.ts';
import { durationText, plural } from '../../format.ts';
import { localProblem, type Problem, ProblemError } from '../../problem.ts';
import { type FlowControl, flowControlNames, portWords, settingsText, useLine } from '../line-status.tsx';
import { useDoing, useLoaded } from '../loading.ts';
import { Button, Dialog, Form, Heading, ProblemBox, Section, Select, TextField } from '../parts.tsx';
import { useSession } from '../session.ts';
import { LogPanel } from './log-panel.tsx';

/** It stays mounted while another view is shown, with what was typed, searched for and paused. */
export function LineView({ isShown }: { isShown: boolean }): JSX.Element {
  const { rights } = useSession();
  return (
    <div class="line-page" hidden={!isShown}>
      {isShown && <Heading>Line</Heading>}
      <div class={rights.operates ? 'line-view operates' : 'line-view'}>
        <PortPanel />
        <LogPanel />
        {rights.operates && <SendForm />}
      </div>
    </div>
  );
}

// The port: what it is now, and opening and closing it.

function PortPanel(): JSX.Element {
  const { api, rights } = useSession();
  const line = useLine();
  const [opening, setOpening] = useState(false);
  const closing = useDoing();
  const opener = useRef<HTMLButtonElement>(null);
  const status = line.value;
  const close = (): void =>
    void closing.run(async () => {
      const now = await api.send<LineStatus>('POST', '/api/v1/line/close');
      if (now !== undefined) line.put(now);
      // The button that was pressed is removed.
      opener.current?.focus();
    });
  const isClosed = status === undefined || status.portState === 'closed';
  return (
    <Section title="Port" class="port">
      <ProblemBox problem={line.problem} />
      <ProblemBox problem={closing.problem} />
      {status !== undefined && <PortText status={status} isFresh={line.isFresh} />}
      {rights.operates && (
        <div class="buttons">
          <button ref={opener} type="button" class={isClosed ? 'main' : ''} onClick={() => setOpening(true)}>
            {isClosed ? 'Open…' : 'Change settings…'}
          </button>
          {!isClosed && <Button text="Close" disabled={closing.busy} onClick={close} />}
        </div>
      )}
      {opening && (
        <OpenDialog
          before={status?.requested ?? undefined}
          flowControl={status?.effective?.flowControl ?? 'none'}
          onOpened={(now) => {
            line.put(now);
            setOpening(false);
          }}
          onClose={() => setOpening(false)}
        />
      )}
    </Section>
  );
}

function PortText({ status, isFresh }: { status: LineStatus; isFresh: boolean }): JSX.Element {
  const { portState, requested, effective, currentPortName, portError } = status;
  const settings = effective ?? requested;
  const name = currentPortName || requested?.portName;
  // Each try to reopen begins the count again.
  const minutes = Math.floor(status.portStateAgeMs / 60_000);
  return (
    <div class="port-text">
      <p>
        <StateText state={portState} isFresh={isFresh} />
        {name !== undefined && portState !== 'closed' && <span class="mono"> {name}</span>}
        {settings !== null && portState !== 'closed' && <span class="mono"> {settingsText(settings)}</span>}
      </p>
      {portError !== '' && (
        <p class="fault">
          {portError}
          {minutes > 0 && `, for ${durationText(minutes * 60)} or longer`}
        </p>
      )}
      {(portState === 'lost' || portState === 'reopening') && (
        <p class="note">Reconnecting: the port is reopened automatically.</p>
      )}
      {effective?.unverified === true && <p class="note">Virtual port: it has no line settings.</p>}
    </div>
  );
}

/** An old answer says nothing good or bad of now. */
function StateText({ state, isFresh }: { state: LineStatus['portState']; isFresh: boolean }): JSX.Element {
  const look = state === 'open' ? 'good' : state === 'lost' ? 'bad' : '';
  return (
    <>
      {!isFresh && 'Last known: '}
      <strong class={isFresh ? look : ''}>{portWords(state)}</strong>
    </>
  );
}

// Which port, and with which settings.

/** Not in the list: the user types its name. */
const OTHER = 'another port';
type LineConfig = NonNullable<LineStatus['requested']>;
const usual: LineConfig = { portName: '', baudRate: 115_200, dataBits: 8, parity: 'none', stopBits: 1, packetSize: 0 };
const bauds = [1200, 2400, 4800, 9600, 19_200, 38_400, 57_600, 115_200, 230_400, 460_800, 921_600];

function OpenDialog(props: {
  before: LineConfig | undefined;
  flowControl: FlowControl;
  onOpened: (now: LineStatus) => void;
  onClose: () => void;
}): JSX.Element {
  const { api } = useSession();
  const ports = useLoaded<LinePorts>('/api/v1/line/ports', 0);
  const doing = useDoing();
  const before = props.before ?? usual;
  const [chosen, choose] = useState('');
  const [typed, setTyped] = useState(before.portName);
  const [settings, setSettings] = useState<Settings>(() => ({
    baudRate: String(before.baudRate),
    dataBits: String(before.dataBits),
    parity: before.parity,
    stopBits: String(before.stopBits),
    flowControl: props.flowControl,
  }));
  const found = ports.value?.items ?? [];
  const isKnown = found.some(({ portName }) => portName === before.portName);
  // A name that is not in the list stays selected.
  const first = before.portName === '' ? (found[0]?.portName ?? OTHER) : OTHER;
  const port = chosen || (isKnown ? before.portName : first);

  const submit = (): void =>
    void doing.run(async () => {
      const portName = port === OTHER ? typed.trim() : port;
      if (portName === '')
        throw new ProblemError(localProblem('No port was named', 'Choose a port, or type its name.'));
      const { packetSize } = before;
      const body = { portName, ...numbersOf(settings), ...(packetSize > 0 && { packetSize }) };
      const now = await api.send<LineStatus>('POST', '/api/v1/line/open', { body });
      if (now !== undefined) props.onOpened(now);
    });

  return (
    <Dialog title="Open a port" onClose={props.onClose}>
      <ProblemBox problem={ports.problem} />
      <Form doing={doing} action="Open" acting="Opening…" onSubmit={submit}>
        <Select
          label="Port"
          value={port}
          options={[...found.map((one) => [one.portName, portText(one)] as const), [OTHER, 'Another one…']]}
          onChange={choose}
        />
        {port === OTHER && (
          <TextField
            label="Name of the port"
            hint="For example /dev/ttyUSB0"
            value={typed}
            onChange={(name) => {
              // The list may arrive during typing.
              choose(OTHER);
              setTyped(name);
            }}
          />
        )}
        <SettingFields settings={settings} onChange={setSettings} />
      </Form>
    </Dialog>
  );
}

/** As they are typed and chosen. */
type Settings = Readonly<Record<'baudRate' | 'dataBits' | 'parity' | 'stopBits' | 'flowControl', string>>;

function numbersOf({ baudRate, dataBits, stopBits, ...chosen }: Settings) {
  if (!/^\d+$/.test(baudRate)) throw new ProblemError(localProblem('The baud rate is no number', `"${baudRate}"`));
  return { ...chosen, baudRate: Number(baudRate), dataBits: Number(dataBits), stopBits: Number(stopBits) };
}

const choices = [
  ['dataBits', 'Data bits', ['8', '7', '6', '5']],
  ['parity', 'Parity', ['none', 'even', 'odd', ['mark', 'mark (always 1)'], ['space', 'space (always 0)']]],
  ['stopBits', 'Stop bits', ['1', '1.5', '2']],
  ['flowControl', 'Flow control', Object.entries(flowControlNames)],
] as const;

function SettingFields(props: { settings: Settings; onChange: (settings: Settings) => void }): JSX.Element {
  const { settings } = props;
  const set = (name: keyof Settings) => (value: string) => props.onChange({ ...settings, [name]: value });
  return (
    <>
      <TextField
        label="Baud rate"
        input={{ inputMode: 'numeric', list: 'bauds' }}
        value={settings.baudRate}
        onChange={set('baudRate')}
      />
      <datalist id="bauds">
        {bauds.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      <div class="row">
        {choices.map(([name, label, options]) => (
          <Select<string> key={name} label={label} value={settings[name]} options={options} onChange={set(name)} />
        ))}
      </div>
    </>
  );
}

function portText({ portName, description }: LinePorts['items'][number]): string {
  return description === '' ? portName : `${portName} (${description})`;
}

// What is sent. Text typed while a packet is in flight stays; text that could not be sent is not lost.

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

function SendForm(): JSX.Element {
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
