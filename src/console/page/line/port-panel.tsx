/** The port: what it is now, and opening and closing it. */
import type { JSX, RefObject } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { LineStatus } from '../../../shared/gen/http.ts';
import { durationText } from '../../format.ts';
import { differences, settingsText } from '../../line/settings.ts';
import { text } from '../../text.ts';
import { portWords, useLine } from '../line-status.tsx';
import { useDoing } from '../loading.ts';
import { Button, ProblemBox, Section, useMedia } from '../parts.tsx';
import { useSession } from '../session.ts';
import { Differences, SettingsDialog } from './settings-dialog.tsx';

const words = text.port;

/** `actions`: more buttons. On a phone an open port is one row of buttons: its state and settings are in the page's head. */
export function PortPanel({ actions }: { actions?: JSX.Element | false }): JSX.Element {
  const { api, rights } = useSession();
  const line = useLine();
  const [opening, setOpening] = useState(false);
  const closing = useDoing();
  const opener = useRef<HTMLButtonElement>(null);
  const status = line.value;
  const folding = useFold(status);
  const { isFolded, fold } = folding;
  const isRow = isFolded && line.problem === undefined && closing.problem === undefined;
  const close = (): void =>
    void closing.run(async () => {
      const now = await api.send<LineStatus>('POST', '/api/v1/line/close');
      if (now !== undefined) line.put(now);
      // The button that was pressed is removed.
      opener.current?.focus();
    });
  const isClosed = status === undefined || status.portState === 'closed';
  useFocusAfter(opening, opener);
  return (
    <Section title={words.title} class={isRow ? 'port folded' : 'port'}>
      <ProblemBox problem={line.problem} />
      <ProblemBox problem={closing.problem} />
      {status !== undefined && !isFolded && <PortText status={status} isFresh={line.isFresh} />}
      {(folding.mayFold || rights.operates) && (
        <div class="buttons">
          <FoldButton of={folding} opener={opener} />
          {rights.operates && !isFolded && (
            <>
              <button ref={opener} type="button" class={isClosed ? 'main' : ''} onClick={() => setOpening(true)}>
                {isClosed ? words.open : words.change}
              </button>
              {!isClosed && <Button text={words.close} disabled={closing.busy} onClick={close} />}
            </>
          )}
          {actions}
        </div>
      )}
      {opening && (
        <SettingsDialog
          status={status}
          onOpened={(now) => {
            line.put(now);
            setOpening(false);
            fold(true);
          }}
          onClose={() => setOpening(false)}
        />
      )}
    </Section>
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

/** The button that opened the dialog may have been folded away meanwhile. */
function useFocusAfter(isOpen: boolean, opener: RefObject<HTMLButtonElement | null>): void {
  const wasOpen = useRef(false);
  useEffect(() => {
    if (wasOpen.current && !isOpen) opener.current?.focus();
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
