/** The port: what it is now, and opening and closing it. */
import type { JSX, RefObject } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { LineStatus } from '../../../shared/gen/http.ts';
import { durationText, plural } from '../../format.ts';
import { differences, settingsText } from '../../line/settings.ts';
import { text } from '../../text.ts';
import { portWords, useLine } from '../line-status.tsx';
import { useDoing } from '../loading.ts';
import { Button, Dialog, Form, ProblemBox, Section, useMedia } from '../parts.tsx';
import { useSession } from '../session.ts';
import { Differences, SettingsDialog } from './settings-dialog.tsx';
import { ViewSwitch } from './view-choice.tsx';

const words = text.port;

/** On a phone an open port is one row of buttons: its state and settings are in the page's head. */
export function PortPanel(): JSX.Element {
  const { rights } = useSession();
  const line = useLine();
  const [asks, ask] = useState<'settings' | 'close'>();
  const opener = useRef<HTMLButtonElement>(null);
  const status = line.value;
  const folding = useFold(status);
  const { isFolded, fold } = folding;
  const isRow = isFolded && line.problem === undefined;
  const isClosed = status === undefined || status.portState === 'closed';
  useFocusAfter(asks !== undefined, opener);
  return (
    <Section title={words.title} class={isRow ? 'port folded' : 'port'}>
      <ProblemBox problem={line.problem} />
      {status !== undefined && !isFolded && <PortText status={status} isFresh={line.isFresh} />}
      <div class="buttons">
        <FoldButton of={folding} opener={opener} />
        {rights.operates && !isFolded && (
          <>
            <button ref={opener} type="button" class={isClosed ? 'main' : ''} onClick={() => ask('settings')}>
              {isClosed ? words.open : words.change}
            </button>
            {!isClosed && <Button text={words.closing.open} onClick={() => ask('close')} />}
          </>
        )}
        <ViewSwitch on="phone" />
      </div>
      {asks === 'settings' && (
        <SettingsDialog
          status={status}
          onOpened={(now) => {
            line.put(now);
            ask(undefined);
            fold(true);
          }}
          onClose={() => ask(undefined)}
        />
      )}
      {asks === 'close' && <CloseDialog onClose={() => ask(undefined)} />}
    </Section>
  );
}

/** Says whom it disturbs: the line is shared. */
function CloseDialog({ onClose }: { onClose: () => void }): JSX.Element {
  const { api } = useSession();
  const line = useLine();
  const doing = useDoing();
  const { holder, subscribers = 0, currentPortName: name = '' } = line.value ?? {};
  const close = async (): Promise<void> => {
    const now = await api.send<LineStatus>('POST', '/api/v1/line/close');
    if (now !== undefined) line.put(now);
    onClose();
  };
  return (
    <Dialog title={words.closing.title} onClose={onClose}>
      <Form doing={doing} action={words.closing.title} danger onSubmit={() => void doing.run(close)}>
        <p>{words.closing.question(name)}</p>
        {holder && <p>{words.closing.heldBy(holder.name)}</p>}
        {subscribers > 0 && <p>{words.closing.readers(plural(subscribers, words.closing.reader))}</p>}
      </Form>
    </Dialog>
  );
}

function useFold(status: LineStatus | undefined) {
  const [unfolded, unfold] = useState(false);
  const isWide = useMedia('(min-width: 700px)');
  const mayFold = !isWide && status?.portState === 'open' && differences(status).length === 0;
  return { mayFold, isFolded: mayFold && !unfolded, fold: (wanted: boolean) => unfold(!wanted) };
}

function FoldButton(props: {
  of: ReturnType<typeof useFold>;
  opener: RefObject<HTMLButtonElement | null>;
}): JSX.Element | null {
  const { mayFold, isFolded, fold } = props.of;
  if (!mayFold) return null;
  return (
    <button
      ref={isFolded ? props.opener : null}
      type="button"
      aria-expanded={!isFolded}
      onClick={() => fold(!isFolded)}
    >
      {words.unfold}
    </button>
  );
}

/** The button that opened the dialog may have been folded away or removed meanwhile. */
function useFocusAfter(isOpen: boolean, opener: RefObject<HTMLButtonElement | null>): void {
  const wasOpen = useRef(false);
  useEffect(() => {
    if (wasOpen.current && !isOpen && document.activeElement?.closest('.port') === null) opener.current?.focus();
    wasOpen.current = isOpen;
  }, [isOpen]);
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
          {minutes > 0 && words.forLong(durationText(minutes * 60))}
        </p>
      )}
      {(portState === 'lost' || portState === 'reopening') && <p class="note">{words.reconnecting}</p>}
      {effective?.unverified === true && <p class="note">{words.virtual}</p>}
      <Differences status={status} />
    </div>
  );
}

/** An old answer says nothing good or bad of now. */
function StateText({ state, isFresh }: { state: LineStatus['portState']; isFresh: boolean }): JSX.Element {
  const look = state === 'open' ? 'good' : state === 'lost' ? 'bad' : '';
  return (
    <>
      {!isFresh && words.lastKnown}
      <strong class={isFresh ? look : ''}>{portWords(state)}</strong>
    </>
  );
}
