/** The terminal: its screen, its connection, and what can be done to the line. Loaded when it is first shown. */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { systemClock } from '../../../shared/base/clock.ts';
import type { TerminalCommand, TerminalNotice, TerminalTicket } from '../../../shared/gen/http.ts';
import { type LinkState, TerminalLink, type Wire, type WireEvents } from '../../line/terminal-link.ts';
import { bytesOf, echoOf, type LineEnding, lineEndings, type Paste, pasteOf } from '../../line/typing.ts';
import { localProblem } from '../../problem.ts';
import { text } from '../../text.ts';
import type { Api } from '../api.ts';
import { copyText } from '../clipboard.ts';
import { portWords, useLine } from '../line-status.tsx';
import { Button, Dialog, Dump, ProblemBox, Section, Select } from '../parts.tsx';
import { useKept, useSession } from '../session.ts';
import { Screen } from './screen.ts';
import { ViewSwitch } from './view-choice.tsx';

const words = text.terminal;
const PATH = '/api/v1/line/terminal';
/** Long enough for any UART to see it as a break. */
const BREAK_MS = 250;
/** Typing alone does not show the button that stops it. */
const MANY_BYTES = 64;
const PREVIEW_CHARS = 2_000;

type Lines = Extract<TerminalNotice, { readonly type: 'lines' }>;
type Terminal = ReturnType<typeof useTerminal>;

export function TerminalPanel(): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const tools = useRef<HTMLDivElement>(null);
  const terminal = useTerminal(place, () => tools.current?.querySelector<HTMLElement>('button:enabled')?.focus());
  const { state, paste } = terminal;
  return (
    <Section
      title={words.title}
      class="log terminal"
      actions={
        <>
          <ViewSwitch on="desk" />
          <StateBadge state={state} />
        </>
      }
    >
      {state.is === 'ended' && (
        <>
          <ProblemBox problem={state.problem} />
          <Button text={words.reconnect} class="main" onClick={terminal.connect} />
        </>
      )}
      <Tools terminal={terminal} element={tools} />
      <LineNotes terminal={terminal} />
      <div ref={place} class="screen" />
      <p class="note">{words.help}</p>
      <Settings terminal={terminal} />
      {paste !== undefined && <PasteDialog paste={paste} onPaste={terminal.press} onClose={terminal.forgetPaste} />}
    </Section>
  );
}

function StateBadge({ state }: { state: LinkState }): JSX.Element {
  const { value, isFresh } = useLine();
  const isWell = state.is === 'live' && isFresh && value?.portState === 'open';
  const look = state.is === 'ended' ? 'bad' : isWell ? 'good' : 'idle';
  return (
    <span id="terminal-state" class={`badge ${look}`} role="status">
      <span class="unseen">{words.label}</span>
      {words.states[state.is]}
    </span>
  );
}

const keys = { 'Ctrl-C': '\x03', Esc: '\x1b', Tab: '\t' } as const;

function Tools({
  terminal,
  element,
}: {
  terminal: Terminal;
  element: { current: HTMLDivElement | null };
}): JSX.Element {
  const { lines, isHeld, command, isLive } = terminal;
  const toggle = (name: 'dtr' | 'rts'): JSX.Element => (
    <Button
      text={name.toUpperCase()}
      aria-pressed={lines?.[name] ?? false}
      disabled={lines === undefined || !isLive}
      onClick={() => command({ type: 'lines', [name]: lines?.[name] !== true })}
    />
  );
  return (
    <div ref={element} class="row log-tools" role="group" aria-label={words.tools}>
      {Object.entries(keys).map(([name, key]) => (
        <Button key={name} text={name} disabled={!isLive} onClick={() => terminal.press(key)} />
      ))}
      <Button text={words.break} disabled={!isLive} onClick={() => command({ type: 'break', ms: BREAK_MS })} />
      {toggle('dtr')}
      {toggle('rts')}
      <Button
        text={words.exclusive}
        aria-pressed={isHeld}
        disabled={!isLive}
        onClick={() => command({ type: isHeld ? 'release' : 'hold' })}
      />
      <Button text={words.copy} onClick={terminal.copy} />
      <Button text={words.clear} onClick={terminal.clear} />
      {terminal.waiting > MANY_BYTES && <Button text={words.stop} class="danger" onClick={terminal.stop} />}
    </div>
  );
}

/** Who has the line, its inputs, and what became of what was asked last. */
function LineNotes({ terminal }: { terminal: Terminal }): JSX.Element {
  const { value } = useLine();
  const { port, lines, isHeld, said, waiting } = terminal;
  const holder = value?.holder ?? undefined;
  const packetSize = value?.requested?.packetSize ?? 0;
  const inputs = (['cts', 'dsr', 'dcd', 'ri'] as const).map((name) =>
    words.inputOf(name.toUpperCase(), lines?.[name] === true),
  );
  return (
    <>
      {port !== undefined && port !== 'open' && <p class="note">{words.portIs(portWords(port))}</p>}
      {holder !== undefined && <p class="note">{isHeld ? words.heldByYou(holder.name) : words.heldBy(holder.name)}</p>}
      {packetSize > 0 && <p class="note">{words.packets(packetSize)}</p>}
      {lines !== undefined && <p class="note mono">{inputs.join(' ')}</p>}
      <p class="note" role="status">
        {waiting > MANY_BYTES ? words.waiting(waiting) : said}
      </p>
    </>
  );
}

function Settings({ terminal }: { terminal: Terminal }): JSX.Element {
  const { ending, echo, readers } = terminal;
  return (
    <div class="row">
      <Select<LineEnding>
        label={words.ending}
        value={ending.value}
        options={text.endings.filter((one): one is typeof one & readonly [LineEnding, string] => one[0] !== 'none')}
        onChange={ending.choose}
      />
      <Check label={words.echo} of={echo} />
      <Check label={words.readers} of={readers} />
    </div>
  );
}

type OnOff = 'on' | 'off';
const onOff = ['off', 'on'] as const;

function Check({ label, of }: { label: string; of: Kept<OnOff> }): JSX.Element {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={of.value === 'on'}
        onChange={(event) => of.choose(event.currentTarget.checked ? 'on' : 'off')}
      />{' '}
      {label}
    </label>
  );
}

function PasteDialog(props: { paste: Paste; onPaste: (pasted: string) => void; onClose: () => void }): JSX.Element {
  const { paste } = props;
  const insert = (): void => {
    props.onClose();
    props.onPaste(paste.text);
  };
  return (
    <Dialog title={words.pasteTitle} onClose={props.onClose}>
      <p>{paste.fault || paste.question}</p>
      <Dump label={words.pasteText}>{paste.text.slice(0, PREVIEW_CHARS)}</Dump>
      {paste.fault === '' && <Button text={words.paste} class="main" onClick={insert} />}
    </Dialog>
  );
}

// Its connection and its screen: as long as the panel is shown.

interface Kept<T extends string> {
  readonly value: T;
  readonly choose: (value: T) => void;
}

function useKeptChoice<T extends string>(name: string, values: readonly [T, ...T[]]): Kept<T> {
  const [value, choose] = useKept(`lineside.terminal.${name}`, values);
  return { value, choose };
}

function useTerminal(place: { readonly current: HTMLElement | null }, onLeave: () => void) {
  const { api } = useSession();
  const ending = useKeptChoice<LineEnding>('ending', Object.keys(lineEndings) as [LineEnding]);
  const echo = useKeptChoice<OnOff>('echo', onOff);
  const readers = useKeptChoice<OnOff>('readers', onOff);
  const [paste, setPaste] = useState<Paste>();
  const screen = useRef<Screen | undefined>(undefined);
  const { link, isDrawn, say, connect, ...shown } = useLink(api, screen);
  const now = useRef({ ending, echo, onLeave });
  now.current = { ending, echo, onLeave };

  const type = (typed: string): void => {
    if (!isDrawn.current) return;
    const { ending: end, echo: shows } = now.current;
    if (link.current?.send(bytesOf(typed, end.value)) !== true) return say(words.notTaken);
    if (shows.value === 'on') screen.current?.write(echoOf(typed));
  };
  const press = (typed: string): void => {
    type(typed);
    screen.current?.focus();
  };
  const copy = (): void => {
    void copyText(screen.current?.copied ?? '').then((done) => say(done ? words.copied : words.notCopied));
  };
  useEffect(() => {
    if (place.current === null) return undefined;
    const made = new Screen(place.current, {
      onTyped: type,
      onPasted: (pasted) => {
        const wanted = pasteOf(pasted);
        if (wanted.question === '' && wanted.fault === '') type(pasted);
        else setPaste(wanted);
      },
      onLeave: () => now.current.onLeave(),
      onCopy: copy,
    });
    screen.current = made;
    connect();
    return () => {
      link.current?.end(localProblem(words.lost, ''));
      made.dispose();
    };
  }, [api]);
  useEffect(() => {
    if (screen.current !== undefined) screen.current.forReaders = readers.value === 'on';
  }, [readers.value]);

  return {
    ...shown,
    ending,
    echo,
    readers,
    isLive: shown.state.is === 'live',
    paste,
    connect,
    press,
    copy,
    forgetPaste: () => setPaste(undefined),
    command: (command: TerminalCommand) => link.current?.command(command),
    clear: () => screen.current?.clear(),
    stop: () => link.current?.drop(),
  };
}

/** The connection of now, and what it has reported. */
function useLink(api: Api, screen: { readonly current: Screen | undefined }) {
  const [state, setState] = useState<LinkState>({ is: 'connecting' });
  const [port, setPort] = useState<Parameters<typeof portWords>[0]>();
  const [lines, setLines] = useState<Lines>();
  const [isHeld, setHeld] = useState(false);
  const [waiting, setWaiting] = useState(0);
  const [said, say] = useState('');
  const link = useRef<TerminalLink | undefined>(undefined);
  /** Of this page's hold: a new connection takes it up again. */
  const ticket = useRef('');
  /** What the log had is drawn: answers to it, as to questions of the device, are not the user's. */
  const isDrawn = useRef(false);

  const connect = (): void => {
    isDrawn.current = false;
    screen.current?.reset();
    setLines(undefined);
    setHeld(false);
    say('');
    const begun = new TerminalLink({
      clock: systemClock,
      ticket: () => ticketOf(api),
      open: openSocket,
      onState: (next) => {
        setState(next);
        if (next.is === 'ended') isDrawn.current = false;
        if (next.is !== 'live') return;
        screen.current?.write('', () => {
          isDrawn.current = begun.isLive;
        });
        if (ticket.current !== '') begun.command({ type: 'hold', ticket: ticket.current });
      },
      onBytes: (bytes) => {
        if (screen.current?.write(bytes) === false) begun.end(localProblem(words.lost, words.tooFast));
      },
      onPort: setPort,
      onLines: setLines,
      onDone: ({ what, ticket: taken = '' }) => {
        if (what === 'hold' || what === 'release') {
          ticket.current = taken;
          setHeld(what === 'hold');
        }
        say(words.done[what]);
      },
      onRefused: ({ what, message }) => {
        if (what === 'hold') ticket.current = '';
        say(words.refused[what](message));
      },
      onWaiting: setWaiting,
    });
    link.current = begun;
    void begun.start();
    screen.current?.focus();
  };
  return { state, port, lines, isHeld, waiting, said, say, link, isDrawn, connect };
}

async function ticketOf(api: Api): Promise<string> {
  const made = await api.send<TerminalTicket>('POST', `${PATH}/tickets`);
  return made?.ticket ?? '';
}

function openSocket(ticket: string, events: WireEvents): Wire {
  const socket = new WebSocket(`${location.origin.replace(/^http/, 'ws')}${PATH}?ticket=${ticket}`);
  socket.binaryType = 'arraybuffer';
  socket.addEventListener('open', () => events.opened());
  socket.addEventListener('close', () => events.closed());
  socket.addEventListener('message', ({ data }: MessageEvent<string | ArrayBuffer>) =>
    events.received(typeof data === 'string' ? data : new Uint8Array(data)),
  );
  return socket;
}
