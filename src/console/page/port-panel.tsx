/** The port: what it is now, and opening and closing it. */
import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { durationText } from '../format.ts';
import type { LineStatus, PortState } from '../shapes.ts';
import { portWords, settingsText, useLine } from './line-status.tsx';
import { useDoing } from './loading.ts';
import { OpenDialog } from './open-dialog.tsx';
import { ProblemBox, Section } from './parts.tsx';
import { useSession } from './session.ts';

export function PortPanel(): JSX.Element {
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
      // The button that was pressed goes.
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
            {isClosed ? 'Open…' : 'Other settings…'}
          </button>
          {!isClosed && (
            <button type="button" disabled={closing.busy} onClick={close}>
              Close
            </button>
          )}
        </div>
      )}
      {opening && (
        <OpenDialog
          before={status?.requested ?? undefined}
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
  return (
    <div class="port-text">
      <p>
        <StateText state={portState} isFresh={isFresh} />
        {name !== undefined && portState !== 'closed' && <span class="mono"> {name}</span>}
        {settings !== null && portState !== 'closed' && <span class="mono"> {settingsText(settings)}</span>}
      </p>
      {portError !== '' && (
        <p class="fault">
          {portError} (for {durationText(Math.floor(status.portStateAgeMs / 60_000) * 60)} or longer)
        </p>
      )}
      {(portState === 'lost' || portState === 'reopening') && (
        <p class="note">It is reopened automatically when it is there again.</p>
      )}
      {effective?.unverified === true && <p class="note">A pseudo-terminal: its settings mean nothing.</p>}
    </div>
  );
}

/** An old answer says nothing good or bad of now. */
function StateText({ state, isFresh }: { state: PortState; isFresh: boolean }): JSX.Element {
  const look = state === 'open' ? 'good' : state === 'lost' ? 'bad' : '';
  return (
    <>
      {!isFresh && 'Last known: '}
      <strong class={isFresh ? look : ''}>{portWords[state]}</strong>
    </>
  );
}
